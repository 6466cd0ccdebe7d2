"""A cluster in the process of the test. Its workers execute batches for real, and may be lost at any line."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from matrix_runner.carry.batch_messages import BatchRequest, Outbox, Worker, WorkerLost
from matrix_runner.session.batch import Batches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

ONE, TWO = Worker("tcp://one:1", "one"), Worker("tcp://two:1", "two")


class FakeCluster:
    def __init__(self, scratch: Path, *workers: Worker) -> None:
        self.workers = list(workers)
        self.connected = True
        self.requests: list[tuple[str, BatchRequest]] = []  # host and request of each batch that was given out
        self.busy: dict[str, int] = {}
        self.most: dict[str, int] = {}  # the most batches at a time, by worker
        self.loss: type[WorkerLost] = WorkerLost
        self.lost_at: Callable[[Worker, BatchRequest, int], bool] = lambda *_: False
        self.changed: Callable[[], None] = lambda: None
        self._scratch = scratch

    @asynccontextmanager
    async def open(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        self.changed = changed
        yield

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        lines: list[bytes] = []
        if request.cells:
            self.requests.append((worker.host, request))
        self.busy[worker.address] = self.busy.get(worker.address, 0) + 1
        self.most[worker.address] = max(self.most.get(worker.address, 0), self.busy[worker.address])
        try:
            await Batches(Outbox(lines.append), self._scratch).execute(request.model_dump_json().encode())
            for number, line in enumerate(lines):
                await asyncio.sleep(0)
                if self.lost_at(worker, request, number):
                    raise self.loss("the worker is gone")
                receive(line)
        finally:
            self.busy[worker.address] -= 1
