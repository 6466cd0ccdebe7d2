"""`.ci/run` with a stand-in for `bootstrap`: on a terminal and without one, its exit codes, and its end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.top import TOP

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STAND_IN = """\
#!/bin/bash
[[ -t 0 && -t 1 && -t 2 ]] && pass=on || pass=off
echo "$pass $CI $MATRIX_TEST_SKIPS $*" >>calls
! test -t 1 || stty size >>calls
! test -p "wait-$pass" || { exec >"wait-$pass"; echo here; sleep 1000; }
echo "== passes of $pass =="
read -r status next <"status-$pass"
echo "${next:-$status}" >"status-$pass"
exit "$status"
"""
#: Tests in the background ignore SIGINT, those under nohup SIGHUP, and so would a shell that they start.
HEED = """\
import os, signal, sys
for one in signal.SIGINT, signal.SIGHUP:
    signal.signal(one, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
SIZE = "40 120"
ON_TERMINAL = ["on true 5 test", SIZE]
AGAIN = "{} true 5 test --last-failed --last-failed-no-failures none"
WITHOUT = "off true 5 test -n 4 --dist loadfile --no-loadscope-reorder -m not vm and not exhaustive"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(TOP / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "bootstrap").write_text(STAND_IN)
    (tmp_path / "bootstrap").chmod(0o755)
    for name in ("status-on", "status-off"):
        (tmp_path / name).write_text("0")
    return tmp_path


@pytest.mark.parametrize(
    ("on", "off", "status", "calls"),
    [
        ("0", "0", 0, [*ON_TERMINAL, WITHOUT]),
        ("3", "0", 3, ON_TERMINAL),
        ("1", "0", 1, [*ON_TERMINAL, AGAIN.format("on"), SIZE]),
        ("0", "1", 1, [*ON_TERMINAL, WITHOUT, AGAIN.format("off")]),
        ("1 0", "1 0", 0, [*ON_TERMINAL, AGAIN.format("on"), SIZE, WITHOUT, AGAIN.format("off")]),
    ],
)
def test_both_have_to_pass(checkout: Path, on: str, off: str, status: int, calls: list[str]) -> None:
    (checkout / "status-on").write_text(on)
    (checkout / "status-off").write_text(off)
    bare = {"PATH": os.environ["PATH"], "SHELL": "/usr/sbin/nologin"}
    done = subprocess.run([checkout / ".ci/run"], cwd="/", env=bare, capture_output=True, text=True)
    assert (done.returncode, (checkout / "calls").read_text().splitlines()) == (status, calls), done
    assert done.stdout.splitlines() == [f"== passes of {one[:3].strip()} ==" for one in calls if one != SIZE]


@pytest.mark.parametrize(
    ("send", "one"),
    [(os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM), (os.kill, signal.SIGTERM), (os.kill, signal.SIGKILL)],
)
def test_all_on_the_terminal_end_with_it(
    checkout: Path, send: Callable[[int, signal.Signals], None], one: signal.Signals
) -> None:
    os.mkfifo(checkout / "wait-on")
    command = [sys.executable, "-c", HEED, str(checkout / ".ci/run")]
    with subprocess.Popen(command, process_group=0) as running, (checkout / "wait-on").open() as held:
        assert held.readline() == "here\n"
        send(running.pid, one)
        assert held.read() == ""  # its writers are gone
    assert running.returncode
    assert (checkout / "calls").read_text().splitlines() == ON_TERMINAL
