"""The work of a rig's simulated disks during a trial: in total, and over time."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from runner.simdisks.clib import Report
from runner.simdisks.server import counters_between

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runner.machines.base import Rig

#: Seconds between two samples: short enough to see a cache fill, with little load on the host.
INTERVAL = 0.5
#: At this number of samples, every second one is dropped and the interval doubles.
MOST_SAMPLES = 2000
_NAMES = tuple(one.name for one in fields(Report))


@dataclass
class Service:
    """Samples of the disk counters; the first is the state before the trial."""

    samples: list[tuple[float, tuple[Report, ...]]]

    @property
    def done(self) -> tuple[Report, ...]:
        """Return the work of each disk from the first sample to the last; empty if no disk is simulated."""
        return counters_between(self.samples[0][1], self.samples[-1][1])

    def since(self, seconds: float) -> tuple[Report, ...]:
        """Return the work of each disk after the first `seconds`, to the precision of the samples.

        This excludes the laying out of files, which may take longer than the measurement.
        """
        began, end = self.samples[0][0] + seconds, self.samples[-1]
        if seconds <= INTERVAL:
            return self.done
        start = next((sample for sample in self.samples[:-1] if sample[0] >= began), self.samples[:-1][-1])
        return counters_between(start[1], end[1])

    def files(self) -> dict[str, str]:
        if not self.done:
            return {}
        began = self.samples[0][0]
        whole = [["disk", *_NAMES], *_rows(self.done)]
        course = [["seconds", "disk", *_NAMES]]
        for (_, before), (at, after) in zip(self.samples, self.samples[1:], strict=False):
            course += [[f"{at - began:.3f}", *row] for row in _rows(counters_between(before, after))]
        return {"disks.csv": _csv(whole), "disks-over-time.csv": _csv(course)}


@asynccontextmanager
async def sample_disks(rig: Rig) -> AsyncIterator[Service]:
    """Sample the disk counters until the end of the `with` block."""
    service = Service([(time.monotonic(), rig.disk_reports())])

    async def sample() -> None:
        interval = INTERVAL
        while service.samples[0][1]:
            await asyncio.sleep(interval)
            service.samples.append((time.monotonic(), rig.disk_reports()))
            if len(service.samples) > MOST_SAMPLES:
                del service.samples[1:-1:2]
                interval *= 2

    task = asyncio.create_task(sample())
    try:
        yield service
    finally:
        task.cancel()
        await asyncio.wait({task})
    service.samples.append((time.monotonic(), rig.disk_reports()))


def _rows(done: Sequence[Report]) -> list[list[str]]:
    return [[str(at), *(_cell(getattr(one, name)) for name in _NAMES)] for at, one in enumerate(done)]


def _csv(rows: Sequence[Sequence[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
