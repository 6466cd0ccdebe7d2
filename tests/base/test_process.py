"""The door: what is known of the programs we started."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from matrix_runner.base.process import is_gone, run, spawn
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
