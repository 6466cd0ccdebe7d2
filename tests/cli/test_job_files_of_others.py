"""363 job files of 16 projects that fio 3.33 accepts: a matrix can be written of each, or the reason is true."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.init import _of_job
from matrix_runner.scripts.cell import explain_missing_fio
from matrix_runner.session import selected_matrix
from matrix_runner.session.selected_matrix import job_text
from matrix_runner.space.load import parse
from matrix_runner.work.fio.keys import FILE_ENGINES

DATA = json.loads((Path(__file__).parents[1] / "data" / "fio-job-files.json").read_text())
FILES: list[tuple[str, str, str, str]] = [tuple(one) for one in DATA["files"]]


def by_project() -> list[str]:
    return sorted(DATA["commits"])


def verdict(job: str, folder: Path) -> tuple[str, str]:
    """Return the reason of the refusal, or nothing and the written matrix."""
    (folder / "job.fio").write_text(job)
    try:
        return "", _of_job("job", Path("job.fio"), Path("job.yaml"))
    except BadInput as error:
        line = str(error.details).splitlines()[0]
        return re.sub(r"^job\.fio:(\d+:\d+:)? ", "", line).partition(";")[0], ""


def fio_refuses(job: str) -> str:
    said = subprocess.run(["fio", "--parse-only", "-"], input=job, capture_output=True, text=True)
    return (said.stdout + said.stderr)[-300:] if said.returncode else ""


@pytest.mark.parametrize("project", by_project())
def test_each_job_file_is_accepted_or_refused_for_its_reason(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selected_matrix, "explain_missing_fio", lambda: "left to the other test")
    found = [(path, verdict(job, tmp_path)[0]) for its, path, _, job in FILES if its == project]
    assert found == [(path, why) for its, path, why, _ in FILES if its == project]


def test_there_are_as_many_as_stated() -> None:
    assert len({(project, path) for project, path, *_ in FILES}) == len(FILES) == 363
    assert sum(not why for *_, why, _ in FILES) == 270
    assert {project for project, *_ in FILES} == DATA["commits"].keys()


def test_an_engine_is_refused_only_if_it_does_not_work_on_disks() -> None:
    named = {found[1] for *_, why, _ in FILES if (found := re.match(r"ioengine=(\w+)", why))}
    assert not named & set(FILE_ENGINES)
    for *_, why, job in FILES:
        if found := re.match(r"ioengine=[\w-]+|`(\w+)`", why):
            assert (found[1] or found[0]) in job


def agrees(files: list[tuple[str, str, str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if explain_missing_fio():
        pytest.skip("no fio")
    monkeypatch.chdir(folder)
    for project, path, why, job in files:
        assert fio_refuses(job) == "", (project, path)
        refused, text = verdict(job, folder)
        assert refused == why, (project, path)
        if text:
            for work in parse("job.yaml", text, lambda name: Path(name).read_text()).space.workloads:
                assert fio_refuses(job_text(*work, None)) == "", (project, path)


def test_fio_accepts_some_of_the_files_and_their_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees(FILES[::20], tmp_path, monkeypatch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("project", by_project())
def test_fio_accepts_all_of_the_files_and_their_matrices(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agrees([one for one in FILES if one[0] == project], tmp_path, monkeypatch)
