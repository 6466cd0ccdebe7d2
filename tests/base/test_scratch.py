"""Temporary folders of killed processes."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING

from matrix_runner.base.files import remove_abandoned, scratch_folder
from tests.support.forked import Forked

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOLDER = """\
import sys
from matrix_runner.base.files import scratch_folder
with scratch_folder("test-scratch") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_only_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with scratch_folder("test-scratch") as mine, Forked([], code=HOLDER, text=True, **pipes) as holder:
        assert holder.stdout is not None
        theirs = holder.stdout.readline().strip()
        remove_abandoned("test-scratch")
        assert {str(path) for path in tmp_path.iterdir()} == {str(mine), theirs}
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        remove_abandoned("test-scratch")
        assert list(tmp_path.iterdir()) == [mine]
    assert not list(tmp_path.iterdir())
