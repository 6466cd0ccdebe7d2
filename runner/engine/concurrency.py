"""Turns: several rigs side by side, or one alone. First come, first served, so that no rig starves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from runner.engine.concurrency_policy import Level

Work = Coroutine[Any, Any, None]


class Turn:
    """The right to do one piece of work (a set-up, a trial, a tear-down) with at most `most()` at work."""

    def __init__(self, most: Callable[[], int]) -> None:
        self.most = most
        #: The largest number of others at work during it.
        self.beside = 0
        self.granted = asyncio.Event()


def _one() -> int:
    return 1


class Turns:
    """Gives turns, and adapts the number of rigs to the results of trials."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self._waiting: deque[Turn] = deque()
        self._busy: list[Turn] = []
        #: Set when more turns may be possible.
        self._changed = asyncio.Event()

    def now(self) -> int:
        return self._level.now

    @asynccontextmanager
    async def together(self) -> AsyncIterator[Turn]:
        async with self._turn(Turn(self.now)) as turn:
            yield turn

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Turn]:
        async with self._turn(Turn(_one)) as turn:
            yield turn

    def kept_up(self, turn: Turn) -> None:
        self._learn(self._level.kept_up(turn.beside))

    def host_limited(self, turn: Turn) -> None:
        self._learn(self._level.host_limited(turn.beside))

    async def side_by_side(self, works: Iterator[Work]) -> None:
        """Run these in order. An error of one stops the others."""
        if self._level.most == 1:
            for work in works:
                await work
            return
        running: list[asyncio.Task[None]] = []
        try:
            while self._begin(works, running):
                await self._changed.wait()
                self._changed.clear()
                for task in [one for one in running if one.done()]:
                    running.remove(task)
                    task.result()
        except asyncio.CancelledError:
            if failure := await _stop_tasks(running):
                raise failure from None
            raise
        except BaseException:
            await _stop_tasks(running)
            raise

    def _begin(self, works: Iterator[Work], running: list[asyncio.Task[None]]) -> bool:
        """Start the work that may start now; return whether any work is running."""
        while len(running) < self.now() and (work := next(works, None)) is not None:
            task = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._changed.set())
            running.append(task)
        return bool(running)

    @asynccontextmanager
    async def _turn(self, turn: Turn) -> AsyncIterator[Turn]:
        try:
            await self._take(turn)
            yield turn
        finally:
            self._give_back(turn)

    async def _take(self, turn: Turn) -> None:
        self._waiting.append(turn)
        self._call()
        if not turn.granted.is_set():
            await turn.granted.wait()

    def _give_back(self, turn: Turn) -> None:
        """Remove the turn; a cancelled waiter may still be in the queue."""
        for those in (self._waiting, self._busy):
            if turn in those:
                those.remove(turn)
        self._call()

    def _call(self) -> None:
        """Give turns from the head of the queue. Work that must be alone waits there until all others have ended."""
        while self._waiting and len(self._busy) < min(one.most() for one in (*self._busy, self._waiting[0])):
            self._busy.append(self._waiting.popleft())
            self._busy[-1].granted.set()
            for one in self._busy:
                one.beside = max(one.beside, len(self._busy) - 1)

    def _learn(self, level: Level) -> None:
        self._level = level
        self._changed.set()
        self._call()


async def _stop_tasks(running: list[asyncio.Task[None]]) -> BaseException | None:
    """Cancel the running tasks, wait for their clean-up, and return its first error."""
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    return next(filter(None, [task.exception() for task in running if not task.cancelled()]), None)
