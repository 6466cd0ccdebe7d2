"""The work of a rig's simulated disks during a trial: in total, and over time."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from runner.simdisks.clib import Report
from runner.simdisks.overload import counters_between

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runner.machines.base import Rig

#: Seconds between two samples: enough to see a cache fill, and little work for the host.
INTERVAL = 0.5
#: In a longer trial every second sample is dropped, again and again.
MOST_LOOKS = 2000
_NAMES = tuple(one.name for one in fields(Report))


@dataclass
class Service:
    """Samples of the disks; the first is the state before the trial."""

    looks: list[tuple[float, tuple[Report, ...]]]

    @property
    def done(self) -> tuple[Report, ...]:
        """Return the work of each disk from the first sample to the last; empty if no disk is simulated."""
        return counters_between(self.looks[0][1], self.looks[-1][1])

    def since(self, seconds: float) -> tuple[Report, ...]:
        """Return the work of each disk from this many seconds after the first sample on, as exactly as the samples are.

        Files that are laid out before a measurement may take longer than it, and make disks wait that the workload does
        not.
        """
        began, end = self.looks[0][0] + seconds, self.looks[-1]
        if seconds <= INTERVAL:
            return self.done
        start = next((look for look in self.looks[:-1] if look[0] >= began), self.looks[:-1][-1])
        return counters_between(start[1], end[1])

    def files(self) -> dict[str, str]:
        if not self.done:
            return {}
        began = self.looks[0][0]
        whole = [["disk", *_NAMES], *_rows(self.done)]
        course = [["seconds", "disk", *_NAMES]]
        for (_, before), (at, after) in zip(self.looks, self.looks[1:], strict=False):
            course += [[f"{at - began:.3f}", *row] for row in _rows(counters_between(before, after))]
        return {"disks.csv": _csv(whole), "disks-over-time.csv": _csv(course)}


@asynccontextmanager
async def sample_disks(rig: Rig) -> AsyncIterator[Service]:
    """Sample the disks again and again, and once more when the block is left."""
    service = Service([(time.monotonic(), rig.disk_reports())])

    async def look() -> None:
        interval = INTERVAL
        while service.looks[0][1]:
            await asyncio.sleep(interval)
            service.looks.append((time.monotonic(), rig.disk_reports()))
            if len(service.looks) > MOST_LOOKS:
                del service.looks[1:-1:2]
                interval *= 2

    looking = asyncio.create_task(look())
    try:
        yield service
    finally:
        looking.cancel()
        await asyncio.wait({looking})
    service.looks.append((time.monotonic(), rig.disk_reports()))


def _rows(done: Sequence[Report]) -> list[list[str]]:
    return [[str(at), *(_cell(getattr(one, name)) for name in _NAMES)] for at, one in enumerate(done)]


def _csv(rows: Sequence[Sequence[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
