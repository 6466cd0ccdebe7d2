"""How long a run will take and how much it will write, from what is declared and what was recorded before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.disks import Disk
    from runner.expand.space import Array, Cell
    from runner.model.workload import Workload
    from runner.plan.order import Plan

#: Assumed where nothing is known of a rate; said so wherever it is shown.
ASSUMED_RATE = 200 * 10**6


@dataclass(frozen=True, slots=True)
class Pace:
    """What recorded runs say of this machine. `runs` is how many: 0 means these are guesses."""

    overhead: float = 1.0  # s a trial, beyond the time that fio was told to run
    set_up: float = 2.0  # s an array
    write_rate: float = ASSUMED_RATE  # bytes/s while a workload writes
    runs: int = 0
    rated: int = 0  # how many of them say how fast is written


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan comes to. Time and bytes are for `least` (every cell at its minimum) and `most` repeats."""

    cells: int
    arrays: int
    rigs: int
    trials_least: int
    trials_most: int
    seconds_least: float
    seconds_most: float
    bytes_least: int
    bytes_most: int


def seconds_of(workload: Workload, pace: Pace) -> float:
    """How long one trial of it takes."""
    if workload.runtime is not None:
        return workload.ramp + workload.runtime + pace.overhead
    size = workload.size if isinstance(workload.size, int) else 0
    return workload.ramp + size * workload.numjobs / pace.write_rate + pace.overhead


def bytes_of(workload: Workload, pace: Pace) -> int:
    """How much one trial of it writes."""
    if workload.runtime is None and isinstance(workload.size, int):
        return int(workload.size * workload.numjobs * workload.write_share)
    return int((workload.ramp + (workload.runtime or 0)) * pace.write_rate * workload.write_share)


def resync_of(array: Array, disks: tuple[Disk, ...]) -> int:
    """How much building the array writes, if its first resync has to be waited for."""
    return sum(disks[0].size for layer in array.stack.value if getattr(layer, "sync", "") == "wait")


def estimate(plan: Plan, pace: Pace, seen: Callable[[Cell], None] | None = None) -> Estimate:
    """Walk the plan once, holding no more of it than one array. `seen` is shown every cell on the way."""
    cells = arrays = 0
    seconds = set_up = 0.0
    written = resync = 0
    known: dict[bytes, tuple[float, int]] = {}
    rigs: set[str | None] = set()
    disks = plan.selection.space.matrix.disks.each()
    for visit in plan.visits(1):
        arrays += 1
        rigs.add(visit.array.kernel)
        set_up += pace.set_up
        resync += resync_of(visit.array, disks)
        cells += len(visit.cells)
        for cell in visit.cells:
            work = cell.workload
            cost = known.get(work.digest)
            if cost is None:
                cost = known[work.digest] = (seconds_of(work.value, pace), bytes_of(work.value, pace))
            seconds += cost[0]
            written += cost[1]
            if seen is not None:
                seen(cell)
    least, most = plan.repeat.min, plan.repeat.max
    return Estimate(
        cells=cells,
        arrays=arrays,
        rigs=len(rigs),
        trials_least=cells * least,
        trials_most=cells * most,
        seconds_least=(seconds + set_up) * least,
        seconds_most=(seconds + set_up) * most,
        bytes_least=(written + resync) * least,
        bytes_most=(written + resync) * most,
    )
