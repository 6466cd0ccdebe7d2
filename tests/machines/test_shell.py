"""Steps through a real shell, and what is left of them when somebody dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from matrix_runner.machines.base import RigLost, Step
from matrix_runner.machines.shell import ShellRig

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace of one's own takes root")


def rig(folder: Path) -> ShellRig:
    return ShellRig((), str(folder / "it's here"), ("/dev/a",), {"kernel": "6"}, "this host")


def enact(folder: Path, *steps: Step, deadline: float = 60) -> list[tuple[str, int, str]]:
    results = asyncio.run(rig(folder).run(steps, expected=0, deadline=deadline))
    return [(result.name, result.status, result.output) for result in results]


def test_steps_return_their_output(tmp_path: Path) -> None:
    steps = (Step("a", "cat job >copy", {"job": "x\n" * 100_000}), Step("b", "wc -c <copy; exit 3"), Step("c", ""))
    assert enact(tmp_path, *steps) == [("a", 0, ""), ("b", 3, "200000\n")]


def test_a_rig_runs_many(tmp_path: Path) -> None:
    async def twice() -> list[str]:
        one, step = rig(tmp_path), Step("a", "ls; touch left")
        return [(await one.run([step], expected=0, deadline=60))[0].output for _ in range(3)]

    assert asyncio.run(twice()) == ["", "", ""]


def test_no_process_outlives_its_script(tmp_path: Path) -> None:
    (tmp_path / "alive").touch()
    line = tmp_path / "line"
    os.mkfifo(line)
    reader = os.open(line, os.O_RDONLY | os.O_NONBLOCK)
    enact(tmp_path, Step("a", f"exec 9>{line}; sleep 1000 & disown; echo done"))
    # Whoever still ran would hold the other end, and reading would have to wait.
    assert os.read(reader, 1) == b""


def test_a_script_that_hangs_is_a_lost_rig_and_is_gone(tmp_path: Path) -> None:
    line = tmp_path / "line"
    os.mkfifo(line)
    reader = os.open(line, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(RigLost, match=r"this host did not answer within 0\.5 s"):
        enact(tmp_path, Step("a", f"exec 9>{line}; trap '' HUP TERM INT; sleep 1000"), deadline=0.5)
    assert os.read(reader, 1) == b""


def test_no_shell_is_a_lost_rig(tmp_path: Path) -> None:
    gone = ShellRig(("false",), str(tmp_path), (), {}, "nowhere")
    with pytest.raises(RigLost, match="no shell on nowhere: status 1"):
        asyncio.run(gone.run([Step("a", "")], expected=0, deadline=60))


def test_a_script_that_kills_its_shell_is_a_lost_rig(tmp_path: Path) -> None:
    with pytest.raises(RigLost, match="step a was cut short"):
        enact(tmp_path, Step("a", "kill -9 $$ $BASHPID"))


RUNNER = """\
import asyncio, sys
from matrix_runner.machines.base import Step
from matrix_runner.machines.shell import ShellRig
rig = ShellRig((), sys.argv[1], (), {}, "this host")
asyncio.run(rig.run([Step("a", "exec 9>" + sys.argv[2] + "; setsid sleep 1000 9>&9 & sleep 1000")], expected=0, deadline=900))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_a_killed_runner(tmp_path: Path, how: signal.Signals) -> None:
    line = tmp_path / "line"
    os.mkfifo(line)
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path / "rig"), str(line)], stderr=subprocess.DEVNULL
    )
    with line.open("rb") as reader:  # waits until the script has opened it
        runner.send_signal(how)
        runner.wait()
        assert reader.read() == b""  # and this until nobody has it open any more
