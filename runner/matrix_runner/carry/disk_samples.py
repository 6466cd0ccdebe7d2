"""The work of a rig's simulated disks during a trial, sampled over time."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from itertools import pairwise

from matrix_runner.machines.base import Rig
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.server import counters_between
from matrix_runner.work.fio.output import csv_text

INTERVAL = 0.5  # seconds between two samples: short enough to see a cache fill, with little load on the host
#: At this number of samples, every second one is dropped and the interval doubles.
MOST_SAMPLES = 2000
_NAMES = tuple(one.name for one in fields(Report))


@dataclass
class Service:
    samples: list[tuple[float, tuple[Report, ...]]]
    slow: int = 1

    @property
    def done(self) -> tuple[Report, ...]:
        return counters_between(self.samples[0][1], self.samples[-1][1])

    def since(self, seconds: float) -> tuple[Report, ...]:
        """Return the work of each disk after the first `seconds`, in which files may have been laid out."""
        began, end = self.samples[0][0] + seconds, self.samples[-1]
        if seconds <= INTERVAL * self.slow:
            return self.done
        start = next((sample for sample in self.samples[:-1] if sample[0] >= began), self.samples[:-1][-1])
        return counters_between(start[1], end[1])

    def files(self) -> dict[str, str]:
        if not self.done:
            return {}
        began = self.samples[0][0]
        course = [
            [f"{(at - began) / self.slow:.3f}", *row]
            for (_, before), (at, after) in pairwise(self.samples)
            for row in _rows(counters_between(before, after))
        ]
        return {
            "disks.csv": csv_text(["disk", *_NAMES], _rows(self.done)),
            "disks-over-time.csv": csv_text(["seconds", "disk", *_NAMES], course),
        }


@asynccontextmanager
async def sample_disks(rig: Rig, slow: int = 1) -> AsyncIterator[Service]:
    service = Service([(time.monotonic(), rig.disk_reports())], slow)

    async def sample() -> None:
        interval = INTERVAL * slow
        while True:
            await asyncio.sleep(interval)
            service.samples.append((time.monotonic(), rig.disk_reports()))
            if len(service.samples) > MOST_SAMPLES:
                del service.samples[1:-1:2]
                interval *= 2

    task = asyncio.create_task(sample()) if service.samples[0][1] else None  # without simulated disks: no work
    try:
        yield service
    finally:
        if task:
            task.cancel()
            await asyncio.wait({task})
    service.samples.append((time.monotonic(), rig.disk_reports()))


def _rows(done: Sequence[Report]) -> list[list[str]]:
    values = ([getattr(report, name) for name in _NAMES] for report in done)
    return [[str(at), *(f"{n:.6g}" if isinstance(n, float) else str(n) for n in row)] for at, row in enumerate(values)]
