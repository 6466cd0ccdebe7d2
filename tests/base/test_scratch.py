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


def test_a_folder_whose_removal_was_killed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removal can take the lock file first."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder("test-scratch") as folder:
        half = folder.with_name(f"{folder.name}-half")
        half.mkdir()
        (half / "content").touch()
        remove_abandoned("test-scratch")
        assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_is_taken_before_its_lock_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made, make = list[str](), tempfile.mkdtemp

    def make_and_lose(*words: str, **more: str) -> str:
        made.append(make(*words, **more))
        if len(made) == 1:
            remove_abandoned("test-scratch")
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    with scratch_folder("test-scratch") as folder:
        assert [str(folder)] == made[1:] == [str(path) for path in tmp_path.iterdir()]
