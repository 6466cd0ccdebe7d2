"""Turns: how many rigs may be at work, side by side or alone. First come, first served, so that no rig starves."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from matrix_runner.base.errors import BadInput
from matrix_runner.machines.base import Machine, RigSpec
from matrix_runner.space.space import Stack

Jobs = int | Literal["auto"]
FIRST_LEVEL = 2  # the first level
MOST_PATIENCE = 32  # the upper limit of `AdaptiveLevel.patience`


@dataclass(frozen=True, slots=True)
class Level:
    """The number of rigs that may work at once. It rises after several trials, and falls after a host-limited one."""

    most: int
    now: int
    fixed: bool = False  # the user set it, so it stays; host-limited trials are repeated alone
    row: int = 0  # trials at the full level since the last change or host-limited trial
    patience: int = 1  # trials needed for a rise, in multiples of the level; it doubles after each fall

    @classmethod
    def of(cls, number: int) -> Self:
        return cls(number, number, fixed=True)

    @classmethod
    def up_to(cls, most: int) -> Self:
        return cls(max(1, most), max(1, min(FIRST_LEVEL, most)))

    def kept_up(self, beside: int) -> Self:
        if beside + 1 < self.now or self.now == self.most:
            return self
        if self.row + 1 < self.now * self.patience:
            return replace(self, row=self.row + 1)
        return replace(self, now=self.now + 1, row=0)

    def host_limited(self, beside: int) -> Self:
        """Lower the level by one. A second trial that was limited at the same time changes no more."""
        if self.fixed:
            return self
        if not 0 < beside < self.now:
            return replace(self, row=0)
        return replace(self, now=beside, row=0, patience=min(MOST_PATIENCE, 2 * self.patience))


def why_one_at_a_time(machine: Machine, specs: Iterable[RigSpec], stacks: Iterable[Stack]) -> str:
    """Return why the rigs of a run must work one at a time; empty if they may work side by side."""
    if not machine.brings_disks:
        return f"{machine.name} runs one rig at a time: it has one set of disks"
    if machine.synthetic:
        return ""
    if not all(disk.physics for spec in specs for disk in spec.disks):
        return "disks without a model share the speed of the host, so rigs side by side would slow each other down"
    stacks = list(stacks)
    if any(stack.faults for stack in stacks):
        return "a stack whose disks fail may rebuild itself while another rig is measured alone"
    for layer in (layer for stack in stacks for layer in stack.layers.value):
        if getattr(layer, "sync", "") == "background" or getattr(layer, "state", "") == "rebuilding":
            return f"{layer.title} resyncs in the background while another rig is measured alone"
    return ""


def choose_level(jobs: Jobs, place: Machine, specs: Collection[RigSpec], stacks: Iterable[Stack]) -> tuple[Level, str]:
    if jobs == 1:
        return Level.of(1), ""
    kinds = set(specs)
    why = why_one_at_a_time(place, kinds, stacks)
    room = min(map(place.max_rigs, kinds))
    if jobs == "auto":
        why = why or ("this host has no room for a second such virtual machine" if room == 1 else "")
        return (Level.of(1), f"one rig at a time: {why}") if why else (Level.up_to(room), "")
    if why:
        raise BadInput(f"--jobs {jobs}: {why}", resolution="leave --jobs out, or choose other cells with --only")
    if jobs > room:
        one = next(iter(kinds))
        size = f"{one.memory // 2**20}MiB, {one.cpus} processors and the overhead of the emulator each"
        raise BadInput(
            f"--jobs {jobs}: this host has room for {room} virtual machines at a time, with {size}",
            resolution="use `--jobs auto`, or smaller virtual machines: `machine:` in the matrix sets their size",
        )
    return Level.of(jobs), ""


Work = Coroutine[Any, Any, None]


class Turn:
    """The right to do one piece of work (a set-up, a trial, a tear-down), `alone` or beside others."""

    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        self.beside = 0  # the largest number of others at work during it
        self.granted = asyncio.Event()


class Turns:
    def __init__(self, level: Level) -> None:
        self._level = level
        self._waiting: deque[Turn] = deque()
        self._busy: list[Turn] = []
        self._changed = asyncio.Event()  # set when more turns may be possible

    @asynccontextmanager
    async def turn(self, *, alone: bool = False) -> AsyncIterator[Turn]:
        turn = Turn(alone=alone)
        self._waiting.append(turn)
        try:
            self._grant()
            await turn.granted.wait()
            yield turn
        finally:
            for queue in (self._waiting, self._busy):  # a cancelled turn may still wait
                if turn in queue:
                    queue.remove(turn)
            self._grant()

    def kept_up(self, turn: Turn) -> None:
        self._learn(self._level.kept_up(turn.beside))

    def host_limited(self, turn: Turn) -> None:
        self._learn(self._level.host_limited(turn.beside))

    async def side_by_side(self, works: Iterator[Work]) -> None:
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
        while len(running) < self._level.now and (work := next(works, None)) is not None:
            task = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._changed.set())
            running.append(task)
        return bool(running)

    def _grant(self) -> None:
        """Give turns from the head of the queue. Work that must be alone waits there until all others have ended."""
        while self._waiting:
            alone = any(one.alone for one in (*self._busy, self._waiting[0]))
            if len(self._busy) >= (1 if alone else self._level.now):
                return
            self._busy.append(self._waiting.popleft())
            self._busy[-1].granted.set()
            for one in self._busy:
                one.beside = max(one.beside, len(self._busy) - 1)

    def _learn(self, level: Level) -> None:
        self._level = level
        self._changed.set()
        self._grant()


async def _stop_tasks(running: list[asyncio.Task[None]]) -> BaseException | None:
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    return next(filter(None, [task.exception() for task in running if not task.cancelled()]), None)
