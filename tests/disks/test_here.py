"""Scripts that give disks of this host back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runner.disks.real.here import HERE, locked
from tests.disks.loops import why_not

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
#: Two that hold a pipe open: one in the background that listens to nobody, and the script itself.
SCRIPT = "exec 9>{line}; setsid sleep 1000 9>&9 & sleep 1000"


@pytest.fixture
def line(tmp_path: Path) -> Path:
    path = tmp_path / "line"
    os.mkfifo(path)
    return path


def test_who_is_not_root_does_not_see_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HERE.unseen() == ""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert HERE.unseen() == "processes of other users"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system without room."""
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", folder], check=True)
    try:
        (folder / "all").write_bytes(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_lock_is_had_where_there_is_no_room_to_say_by_whom(full: Path) -> None:
    lock, holder = locked("disk", full, "night-1")
    assert lock is not None
    assert locked("disk", full, "night-2") == (None, "another run")
    lock.close()
    assert holder == ""


def test_what_is_said_of_a_script_that_fails() -> None:
    assert HERE.run("true", 60) == ""
    assert HERE.run("echo out; echo why >&2; exit 3", 60) == "why"
    assert HERE.run("exit 3", 60) == "status 3"


def test_nothing_of_it_outlives_a_runner_that_is_killed(line: Path) -> None:
    runs = f"from runner.disks.real.here import HERE; HERE.run({SCRIPT.format(line=line)!r}, 900)"
    runner = subprocess.Popen([sys.executable, "-c", runs])
    with line.open("rb") as reader:  # waits until the script has opened it
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        assert reader.read() == b""  # and this until nobody has it open any more


def test_nothing_of_it_goes_on_beyond_its_time(line: Path) -> None:
    with line.open("r+b", buffering=0) as kept:
        assert HERE.run(SCRIPT.format(line=line), 0.5) == "it did not end within 0.5 s"
        with line.open("rb") as reader:
            kept.close()
            assert reader.read() == b""
