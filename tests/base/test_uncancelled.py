"""What has to be taken down, by a task that is told to stop."""

from __future__ import annotations

import asyncio

import pytest

from matrix_runner.base.children import run_to_end
from matrix_runner.base.errors import HarnessBroken


class Work:
    """Tells its own task to stop, so many times, and takes its time."""

    def __init__(self, times: int, *, fails: bool = False) -> None:
        self.times, self.fails, self.ended = times, fails, False

    async def by(self, task: asyncio.Task[None]) -> None:
        for _ in range(self.times):
            task.cancel()
            await turns()
        if self.fails:
            raise HarnessBroken("it does not go")
        self.ended = True


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def carried_out(work: Work) -> None:
    async def whole() -> None:
        task = asyncio.current_task()
        assert task
        await run_to_end(work.by(task))

    asyncio.run(whole())


def test_it_is_done() -> None:
    work = Work(0)
    carried_out(work)
    assert work.ended


def test_a_cancelled_task_ends_after_its_uninterruptible_work() -> None:
    work = Work(1)
    with pytest.raises(asyncio.CancelledError):
        carried_out(work)
    assert work.ended


def test_a_second_cancellation_ends_the_work_at_once() -> None:
    work = Work(2)
    with pytest.raises(asyncio.CancelledError):
        carried_out(work)
    assert not work.ended


def test_errors_are_raised_unless_the_task_was_cancelled() -> None:
    with pytest.raises(HarnessBroken):
        carried_out(Work(0, fails=True))
    with pytest.raises(asyncio.CancelledError):
        carried_out(Work(1, fails=True))


def test_an_earlier_cancellation_counts_as_the_first() -> None:
    """What is taken down because of the first."""
    work = Work(1)

    async def whole() -> None:
        task = asyncio.current_task()
        assert task
        task.cancel()
        try:
            await turns()
        finally:
            await run_to_end(work.by(task))

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(whole())
    assert not work.ended
