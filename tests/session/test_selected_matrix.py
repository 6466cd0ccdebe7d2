"""fio's own word on jobs."""

from __future__ import annotations

import tempfile
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

import pytest

from matrix_runner.scripts import cell
from matrix_runner.scripts.cell import explain_missing_fio, find_rejected
from matrix_runner.session import selected_matrix
from matrix_runner.session.selected_matrix import fio_flaws
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

JOB = "[trial]\nfilename=/dev/null\nrw={}\nbs=4k\n"


@pytest.mark.skipif(bool(explain_missing_fio()), reason=explain_missing_fio())
def test_rejected_jobs_are_identified_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    found = find_rejected({"a": JOB.format("read"), "b": JOB.format("sideways"), "c": JOB.format("write")})
    assert found.keys() == {"b"}
    assert "valid values" in found["b"]


def test_only_as_many_refused_jobs_are_sought_as_errors_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def refuse(_: list[str], stdin: str) -> CompletedProcess[str]:
        started.append(stdin)
        return CompletedProcess([], 1, "", "Bad option <sideways=1>")

    monkeypatch.setattr(cell, "run", refuse)
    assert len(find_rejected({str(n): JOB.format("read") for n in range(3000)})) == len(started) == 50


MANY = """
name: many
disks: {{count: 1, size: 1GiB}}
layouts: {{one: [disk]}}
workloads: {{w: {{rw: [read, write, randread], bs: [4KiB, 8KiB], iodepth: {depths}{more}}}}}
"""


def checked(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the jobs that fio checks."""
    seen: list[str] = []

    def accept(jobs: Mapping[str, str]) -> bool:
        seen.extend(jobs.values())
        return True

    monkeypatch.setattr(selected_matrix, "explain_missing_fio", lambda: "")
    monkeypatch.setattr(selected_matrix, "fio_accepts", accept)
    assert list(fio_flaws(space(text), None)) == []
    return seen


def test_fio_reads_each_value_once_and_not_each_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = checked(MANY.format(depths=list(range(1, 41)), more=""), monkeypatch)
    assert len(jobs) <= 40 + 3 + 2
    lines = {line for job in jobs for line in job.splitlines()}
    assert {f"iodepth={depth}" for depth in range(1, 41)} <= lines
    assert {"rw=read", "rw=write", "rw=randread", "bs=4096", "bs=8192"} <= lines


def test_fio_reads_each_option_of_its_own_with_each_kind_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    more = ", fio: {percentage_random: [10, 20]}"
    jobs = checked(MANY.format(depths=[1, 2, 3], more=more), monkeypatch)
    pairs = {(rw, share) for job in jobs for rw in ("read", "write", "randread") for share in (10, 20)
             if {f"rw={rw}", f"percentage_random={share}"} <= set(job.splitlines())}  # fmt: skip
    assert len(pairs) == 6
