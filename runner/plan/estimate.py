"""How long a run will take and how much it will write, from what is declared and what was recorded before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.expand.layouts import capacity, levels
from runner.model.units import parse_percent

if TYPE_CHECKING:
    from runner.expand.space import Array
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


def extent_of(workload: Workload, room: int) -> int:
    """How many bytes each job goes over on a device of `room` bytes."""
    if isinstance(workload.size, str):
        return int(room * parse_percent(workload.size))
    return room if workload.size is None else workload.size


def seconds_of(workload: Workload, room: int, pace: Pace) -> float:
    """How long one trial of it takes."""
    if workload.runtime is not None:
        return workload.ramp + workload.runtime + pace.overhead
    return workload.ramp + extent_of(workload, room) * workload.numjobs / pace.write_rate + pace.overhead


def bytes_of(workload: Workload, room: int, pace: Pace) -> int:
    """How much one trial of it writes."""
    if workload.runtime is None:
        return int(extent_of(workload, room) * workload.numjobs * workload.write_share)
    return int((workload.ramp + workload.runtime) * pace.write_rate * workload.write_share)


def resync_of(array: Array) -> int:
    """How much building the array writes, where a first resync has to be waited for."""
    return sum(layer.resynced(below) for layer, below in levels(array.stack.value, array.disks))


def estimate(plan: Plan, pace: Pace) -> Estimate:
    """Walk the plan once, holding no more of it than one array."""
    cells = arrays = 0
    seconds = set_up = 0.0
    written = resync = 0
    known: dict[tuple[bytes, int], tuple[float, int]] = {}
    rigs: set[str | None] = set()
    matrix = plan.selection.space.matrix
    for visit in plan.visits(1):
        arrays += 1
        rigs.add(visit.array.kernel)
        set_up += pace.set_up
        resync += resync_of(visit.array)
        room = capacity(visit.array.stack.value, matrix)
        cells += len(visit.cells)
        for cell in visit.cells:
            work = cell.workload
            cost = known.get((work.digest, room))
            if cost is None:
                cost = (seconds_of(work.value, room, pace), bytes_of(work.value, room, pace))
                known[work.digest, room] = cost
            seconds += cost[0]
            written += cost[1]
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
