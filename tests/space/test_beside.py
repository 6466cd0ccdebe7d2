"""A matrix reads, and its errors quote, files beside it, and no other file of the host."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput, UnfitFile
from matrix_runner.scripts.jinja import check_syntax, render
from matrix_runner.space.load import read_beside
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from tests.support.command import Call

LINE = "root:$6$secret"
WORK = SMALL.partition("workloads:")[0] + "workloads:\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place in ("work/lab/.hidden", "work/jobs", "elsewhere", ".config/gh"):
        (tmp_path / place).mkdir(parents=True)
        for name in ("plain", "job.fio", "file.yaml"):
            (tmp_path / place / name).write_text(LINE)
    (tmp_path / "work/lab/plain").write_text(LINE)
    (tmp_path / "work/lab/link").symlink_to(tmp_path / "elsewhere/plain")
    (tmp_path / "work/lab/link.fio").symlink_to(tmp_path / "elsewhere/plain")
    (tmp_path / "work/lab/known").symlink_to(tmp_path / "elsewhere/job.fio")
    (tmp_path / "work/lab/yaml.fio").symlink_to(tmp_path / "elsewhere/file.yaml")
    (tmp_path / "work/lab/yaml").symlink_to(tmp_path / "elsewhere/file.yaml")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.mark.parametrize(
    "file", ["lab/plain", "jobs/plain", "../elsewhere/job.fio", "../elsewhere/file.yaml", "lab/known"]
)
def test_files_beside_a_matrix_are_read(folder: Path, file: str) -> None:
    assert read_beside("lab/m.yaml", file) == read_beside(str(folder / "work/lab/m.yaml"), file) == LINE.encode()


@pytest.mark.parametrize(
    "file",
    [
        *(
            "../elsewhere/plain",
            "lab/.hidden/plain",
            "lab/.hidden/file.yaml",
            "lab/link",
            "lab/link.fio",
            "/etc/passwd",
        ),
        *("../.config/gh/file.yaml", "../.config/gh/job.fio", "lab/yaml.fio", "lab/yaml"),
    ],
)
def test_other_files_of_the_host_are_not_read(folder: Path, file: str) -> None:
    with pytest.raises(UnfitFile, match="a matrix reads only files below its folder"):
        read_beside("lab/m.yaml", file)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("directory", ["/", "../elsewhere"])
def test_the_working_directory_counts_only_above_the_matrix(directory: str, folder: Path) -> None:
    os.chdir(directory)
    with pytest.raises(UnfitFile):
        read_beside(str(folder / "work/lab/m.yaml"), str(folder / "work/jobs/plain"))


@pytest.mark.parametrize(
    ("workload", "file"),
    [
        ("job: db.fio", "include ../secret"),
        ("job: db.fio", "include ../secret.yaml"),
        ("job: ../secret", ""),
        ("job: ../secret.yaml", ""),
        ("replay: ../secret", ""),
    ],
)
def test_no_error_quotes_a_file_elsewhere(call: Call, tmp_path: Path, workload: str, file: str) -> None:
    for name in ("secret", "secret.yaml"):
        (tmp_path / name).write_text(LINE)
    (tmp_path / "in").mkdir()
    os.chdir(tmp_path / "in")
    Path("db.fio").write_text(f"[a]\n{file}\nsize=1m\n")
    Path("m.yaml").write_text(f"{WORK}  w: {{{workload}}}\n")
    for words in [("validate", "m.yaml"), ("init", "x", "--from", "db.fio" if file else "../secret")]:
        said = call(*words)
        assert said.status == 2
        assert LINE not in said.err + said.out
        assert re.search("a matrix reads only files below its folder|is a YAML file", said.err) or words[0] == "init"


def test_a_template_is_no_link_to_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(LINE)
    own = tmp_path / "own"
    own.mkdir()
    (own / "job.fio").symlink_to(tmp_path / "secret")
    for use in (lambda: check_syntax(own), lambda: render("job.fio", own, title="x")):
        with pytest.raises(BadInput, match="this link leads out of") as refused:
            use()
        assert LINE not in str(refused.value) + refused.value.details


@pytest.mark.usefixtures("matrix")
@pytest.mark.parametrize("command", ["validate", "render", "run"])
def test_a_device_is_no_folder_of_templates(call: Call, command: str) -> None:
    said = call(command, "--templates", "/dev/null", "small.yaml")
    assert said.status == 2
    assert "'/dev/null' is not a folder" in said.err
