"""fio's own word on jobs."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest

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
