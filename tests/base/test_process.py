"""The door: what is known of the programs we started."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from matrix_runner.base.children import spawn
from matrix_runner.base.process import is_gone, processor_seconds, run
from matrix_runner.hosts.checks import run_query
from tests.support.matrices import SMALL


async def _ends_unseen() -> None:
    child = await spawn(["sleep", "60"])
    assert not is_gone(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    while not is_gone(child.pid):
        pass
    assert await child.wait() == -signal.SIGKILL  # it was only looked at: its status is still there for us
    assert is_gone(child.pid)


def test_an_ended_program_is_known_before_its_notification() -> None:
    asyncio.run(_ends_unseen())


def _ticks(pid: int) -> float:
    """Return utime and stime of a process, in seconds, as `/proc` rounds them down."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_the_processor_time_of_programs_is_that_of_proc_until_one_ends() -> None:
    busy = ["dd", "if=/dev/zero", "of=/dev/null"]  # most of its time is the kernel's
    with ExitStack() as stack:
        children = [stack.enter_context(subprocess.Popen(busy)) for _ in range(2)]
        for child in children:
            stack.callback(child.kill)
        pids = [child.pid for child in children]
        while min(map(_ticks, pids)) < 0.1:
            pass
        least, used = sum(map(_ticks, pids)), processor_seconds(pids)
        assert used is not None
        assert least <= used <= sum(_ticks(pid) + 0.02 for pid in pids)
        children[1].kill()
        while not is_gone(pids[1]):
            pass
        assert processor_seconds(pids) is None, "it has ended, though the kernel still knows its time"
        children[1].wait()
        assert processor_seconds(pids) is None


#: A program that says when it is up, and five seconds later that it was left.
STAYING = """\
#!/bin/bash
exec 3>{0}/ready
echo "$*" >&3
read -rt 5 _ <>{0}/never
echo left >&3
"""
IN_A_THREAD = (
    "import asyncio, sys; from matrix_runner.base import process; asyncio.run(asyncio.to_thread(process.run, ['fio']))"
)
PARSING = "import sys; sys.argv[1:] = ['run', '--on', 'dry', 'small.yaml']; from matrix_runner.cli import main; main()"


@pytest.mark.parametrize(("code", "words"), [(IN_A_THREAD, "\n"), (PARSING, "--parse-only -\n")])
def test_a_program_that_is_run_ends_with_its_killed_parent(tmp_path: Path, code: str, words: str) -> None:
    for pipe in ("ready", "never"):
        os.mkfifo(tmp_path / pipe)
    (tmp_path / "fio").write_text(STAYING.format(tmp_path))
    (tmp_path / "fio").chmod(0o755)
    (tmp_path / "small.yaml").write_text(SMALL)
    path = {"PYTHONPATH": str(Path(__file__).parents[2] / "runner"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with (
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **path}) as parent,
        (tmp_path / "ready").open() as ready,
    ):
        assert ready.readline() == words
        parent.kill()
        assert ready.read() == ""


def test_ctrl_c_reaches_a_program_only_if_it_may() -> None:
    """The kernel sends the signal to the process group of the terminal."""
    mine = ["bash", "-c", "ps -o pgid= -p $$"]
    assert int(run(mine).stdout) == os.getpgrp()
    assert int(run(mine, takes_ctrl_c=False).stdout) != os.getpgrp()
    assert int(run_query(None, mine[-1])) != os.getpgrp()
