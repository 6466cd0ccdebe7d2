"""An event loop whose clock jumps to the next timer, and a cluster whose hosts take their time in it."""

from __future__ import annotations

import asyncio
import selectors
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from matrix_runner.carry.batch_messages import Worker
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.rows import encode_trial
from matrix_runner.work.fio.output import Direction, Figures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from matrix_runner.carry.batch_messages import BatchRequest
    from matrix_runner.decide.plan import Plan
    from matrix_runner.space.space import Cell

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(None if timeout is None else 0)
        if not found and timeout:
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def jump(self, seconds: float) -> None:
        self._clock.now += seconds


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class TimedCluster:
    """Hosts of different speed, each with one slot. `seconds` and `rate` of a cell are those at speed 1."""

    connected = True

    def __init__(
        self,
        plan: Plan,
        speeds: Mapping[str, float],
        seconds: Callable[[Cell], float],
        rate: Callable[[Cell, int], float] = lambda *_: 1e8,
    ) -> None:
        self.workers = [Worker(f"tcp://{host}:1", host) for host in speeds]
        self._cells = {cell.id: cell for cell in plan.selection.cells()}
        self._speeds, self._seconds, self._rate = speeds, seconds, rate

    @asynccontextmanager
    async def open(self, changed: Callable[[], None]) -> AsyncIterator[None]:  # noqa: ARG002
        yield

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        sent = 0

        def send(event: str, **content: object) -> None:
            nonlocal sent
            receive(orjson.dumps({"event": event, "token": request.token, "line": sent, **content}))
            sent += 1

        if not request.cells:
            send("checked", refusals={}, boot_id="one", rigs=1)
        for cell in map(self._cells.__getitem__, request.cells):
            await asyncio.sleep(self._seconds(cell) / self._speeds[worker.host])
            rate = self._rate(cell, request.round) * self._speeds[worker.host]
            side = Direction(rate, rate / 4096, int(rate), int(rate / 4096), *[None] * 8)
            figures = Figures(None, side, 1.0, 1.0, 2.0, 0)
            send("trial", **encode_trial(Trial(cell.id, request.round, Outcome.MEASURED, figures=figures)))
        send("end")
