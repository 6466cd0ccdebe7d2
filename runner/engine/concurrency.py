"""Turns: how many rigs may be at work, side by side or alone. First come, first served, so that no rig starves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from runner.layers.base import Layer
    from runner.machines.base import Machine, RigSpec
    from runner.space.space import Array

#: The first level.
FIRST_LEVEL = 2
#: The upper limit of `AdaptiveLevel.patience`.
MOST_PATIENCE = 32


class Level(Protocol):
    """The number of rigs that may work at once; the result of a trial gives the next level. `beside`: other rigs."""

    @property
    def now(self) -> int:
        """Return the number, this rig included."""

    @property
    def most(self) -> int:
        """Return the highest number possible."""

    def kept_up(self, beside: int) -> Level: ...

    def host_limited(self, beside: int) -> Level: ...


@dataclass(frozen=True, slots=True)
class FixedLevel:
    now: int = 1

    @property
    def most(self) -> int:
        return self.now

    def kept_up(self, beside: int) -> FixedLevel:  # noqa: ARG002
        return self

    def host_limited(self, beside: int) -> FixedLevel:  # noqa: ARG002
        """Keep the level, because the user set it. The trial is repeated alone."""
        return self


@dataclass(frozen=True, slots=True)
class AdaptiveLevel:
    """A level that rises after several trials at the level, and falls after one host-limited trial."""

    most: int
    now: int
    row: int = 0  # trials at the full level since the last change or host-limited trial
    patience: int = 1  # trials needed for a rise, in multiples of the level. It doubles after each fall.

    @classmethod
    def up_to(cls, most: int) -> AdaptiveLevel:
        return cls(max(1, most), max(1, min(FIRST_LEVEL, most)))

    def kept_up(self, beside: int) -> AdaptiveLevel:
        if beside + 1 < self.now or self.now == self.most:
            return self
        if self.row + 1 < self.now * self.patience:
            return replace(self, row=self.row + 1)
        return replace(self, now=self.now + 1, row=0)

    def host_limited(self, beside: int) -> AdaptiveLevel:
        """Lower the level by one. A second trial that was limited at the same time changes no more."""
        if not 0 < beside < self.now:
            return replace(self, row=0)
        return replace(self, now=beside, row=0, patience=min(MOST_PATIENCE, 2 * self.patience))


def why_one_at_a_time(machine: Machine, specs: Iterable[RigSpec], arrays: Iterable[Array]) -> str:
    """Return why the rigs of a run must work one at a time; empty if they may work side by side."""
    if not machine.brings_disks:
        return f"{machine.name} runs one rig at a time: it has one set of disks"
    if machine.synthetic:
        return ""
    if not all(disk.physics for spec in specs for disk in spec.disks):
        return "disks without a model share the speed of the host, so rigs side by side would slow each other down"
    arrays = list(arrays)
    if any(array.faults for array in arrays):
        return "a stack whose disks fail may rebuild itself while another rig is measured alone"
    busy_layers = [layer.title for array in arrays for layer in array.stack.value if _has_background_work(layer)]
    return f"{busy_layers[0]} resyncs in the background while another rig is measured alone" if busy_layers else ""


def _has_background_work(layer: Layer) -> bool:
    return getattr(layer, "sync", "") == "background" or getattr(layer, "state", "") == "rebuilding"


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
