"""The door: what is known of the programs we started."""

import asyncio
import os
import signal

from runner.base.process import is_gone, spawn


async def _ends_unseen() -> None:
    child = await spawn(["sleep", "60"])
    assert not is_gone(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    while not is_gone(child.pid):
        pass
    assert await child.wait() == -signal.SIGKILL  # it was only looked at: its status is still there for us
    assert is_gone(child.pid)


def test_a_program_that_ended_is_known_before_we_are_told() -> None:
    asyncio.run(_ends_unseen())
