"""A limit of time counts the time in which this process runs."""

import asyncio
from types import SimpleNamespace

import pytest

from matrix_runner.base.time_limit import time_limit
from tests.support.virtual_time import VirtualLoop, run_virtually


async def _work(seconds: float, limit: float, *, pause_at: float = 0.0, pause: float = 0.0) -> float:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with time_limit(limit):
        await asyncio.sleep(pause_at)
        loop.jump(pause)
        await asyncio.sleep(seconds - pause_at)
    return loop.time()


@pytest.mark.parametrize("limit", [0.0, 0.001, 1.0, 120.0])
def test_work_beyond_its_time_limit_is_ended(limit: float) -> None:
    with pytest.raises(TimeoutError):
        run_virtually(_work(limit * 1.01 + 0.001, limit))


def test_work_within_its_time_limit_is_not_ended() -> None:
    assert run_virtually(_work(119.0, 120.0)) == pytest.approx(119.0)


@pytest.mark.parametrize("pause_at", [0.0, 11.0, 59.0, 107.0, 118.9])
@pytest.mark.parametrize("pause", [70.0, 240.0, 1e6])
def test_a_pause_does_not_count(pause_at: float, pause: float) -> None:
    assert run_virtually(_work(119.0, 120.0, pause_at=pause_at, pause=pause)) == pytest.approx(119.0 + pause)


def test_after_a_pause_the_rest_of_the_time_is_left() -> None:
    with pytest.raises(TimeoutError):
        run_virtually(_work(150.0, 120.0, pause_at=60.0, pause=240.0))


def test_a_cancellation_from_outside_stays_one() -> None:
    async def work() -> None:
        task = asyncio.create_task(_work(60.0, 120.0))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(work())


def test_a_process_that_is_at_work_all_the_time_is_not_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = 0.0
    monkeypatch.setattr("matrix_runner.base.time_limit.time", SimpleNamespace(process_time=lambda: worked))

    async def block() -> None:
        nonlocal worked
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with time_limit(2.0):
            for _ in range(10):
                loop.jump(1.05)
                worked += 1.0
                await asyncio.sleep(0.01)

    with pytest.raises(TimeoutError):
        run_virtually(block())
