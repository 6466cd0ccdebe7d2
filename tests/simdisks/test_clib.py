"""How the C code of simulated disks is compiled."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from matrix_runner.simdisks import clib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest


async def test_a_full_folder_of_temporary_files_does_not_matter_to_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = list[str]()

    def note(argv: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        used.append((env or {}).get("TMPDIR", ""))
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(clib, "run", note)
    await clib._compile(tmp_path)
    assert {*used} == {str(tmp_path)}
