"""The requests of a replay as its scripts read them: at which time, and where on the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from matrix_runner.work.replay.trace import ACTIONS

if TYPE_CHECKING:
    from matrix_runner.work.replay.workload import ReplayWorkload

#: The file beside the scripts of a cell, and the largest sector of a disk.
FILE, SECTOR = "trace.txt", 4096


def trace_text(work: ReplayWorkload, region: int, slow: int) -> str:
    """Return a line for each request: milliseconds since the start of fio, action, offset and length."""
    trace, pace, lead = work.trace, 1000 * work.speed / slow, round(work.lead * 1000)
    places = placed(list(zip(trace.offsets[: work.count], trace.sizes, strict=False)), region)
    found = zip(trace.times, trace.actions, places, strict=False)
    lines = (f"{lead + int(time / pace)} {ACTIONS[action]} {at} {size}" for time, action, (at, size) in found)
    return "\n".join((*lines, ""))


def placed(requests: list[tuple[int, int]], region: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each request in a region, in whole sectors.

    If the requests do not fit, their offsets shrink in proportion. A request that continues an earlier one still does,
    so that sequential work stays sequential, and one at a known offset is at the same place again.
    """
    region = region // SECTOR * SECTOR
    extent = max(offset + size for offset, size in requests)
    if _up(extent) <= region:
        for offset, size in requests:
            at = offset // SECTOR * SECTOR
            yield at, _up(offset + size) - at if size else 0
        return
    known: dict[int, int] = {}
    for offset, size in requests:
        if not size:
            yield 0, 0
            continue
        length = min(_up(size), region)
        at = known.get(offset, offset * region // extent // SECTOR * SECTOR)
        if at + length > region:
            at = 0 if offset in known else region - length
        known[offset], known[offset + size] = at, at + length
        yield at, length


def _up(size: int) -> int:
    return -(-size // SECTOR) * SECTOR
