"""What the modelled disks of a rig did during a trial: in all, and as time went on."""

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

#: Seconds between two looks: enough to see a cache fill, and no work for a host that has enough to do.
INTERVAL = 0.5
#: Of a trial that goes on for longer, half of them are forgotten, again and again.
MOST_LOOKS = 2000
_NAMES = tuple(one.name for one in fields(Report))


@dataclass
class Service:
    """Looks at the disks; the first is what a trial starts from."""

    looks: list[tuple[float, tuple[Report, ...]]]

    @property
    def done(self) -> tuple[Report, ...]:
        """What each disk did from the first look to the last; nothing where none is modelled."""
        return counters_between(self.looks[0][1], self.looks[-1][1])

    def since(self, seconds: float) -> tuple[Report, ...]:
        """What each disk did from so long after the first look on, as far as looks tell: what was before got it ready.

        Files that are laid out before a measurement may take longer than it, and leave disks waiting that it does not.
        """
        began, end = self.looks[0][0] + seconds, self.looks[-1]
        if seconds <= INTERVAL:
            return self.done
        start = next((look for look in self.looks[:-1] if look[0] >= began), self.looks[:-1][-1])
        return counters_between(start[1], end[1])

    def files(self) -> dict[str, str]:
        """As files of the trial."""
        if not self.done:
            return {}
        began = self.looks[0][0]
        whole = [["disk", *_NAMES], *_rows(self.done)]
        course = [["seconds", "disk", *_NAMES]]
        for (_, before), (at, after) in zip(self.looks, self.looks[1:], strict=False):
            course += [[f"{at - began:.3f}", *row] for row in _rows(counters_between(before, after))]
        return {"disks.csv": _csv(whole), "disks-over-time.csv": _csv(course)}


@asynccontextmanager
async def watched(rig: Rig) -> AsyncIterator[Service]:
    """Look at the disks again and again; the last look is when the block is left."""
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
