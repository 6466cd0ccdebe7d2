"""fio's own word on jobs."""

from __future__ import annotations

import tempfile
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

import pytest

from runner.scripts import cell
from runner.scripts.cell import explain_missing_fio, find_rejected

if TYPE_CHECKING:
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
