"""How long a run will take and how much it will write, from what is declared and what was recorded before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.space.layouts import levels

if TYPE_CHECKING:
    from runner.engine.order import Plan
    from runner.language.workload import Workload
    from runner.space.space import Array, Cell

#: Assumed where nothing is known of a rate; said so wherever it is shown.
ASSUMED_RATE = 200 * 10**6


@dataclass(frozen=True, slots=True)
class Pace:
    """What recorded runs say of this machine. `runs` is how many: 0 means these are guesses."""

    overhead: float = 1.0  # s a trial, beyond the time that fio was told to run
    set_up: float = 2.0  # s an array
    write_rate: float = ASSUMED_RATE  # bytes/s while a workload writes
    lay_rate: float = ASSUMED_RATE  # bytes/s while files are laid out; infinite where overheads have that in them
    runs: int = 0
    rated: int = 0  # how many of them say how fast is written
    scatter: float | None = None  # deviation of a cell's trials, as a part of their mean; None: unknown


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan comes to. Time and bytes are for `least` (every cell at its minimum) and `most` repeats."""

    cells: int
    arrays: int
    #: How often one is built in a block.
    builds: int
    rigs: int
    trials_least: int
    trials_most: int
    seconds_least: float
    seconds_most: float
    bytes_least: int
    bytes_most: int


def seconds_of(workload: Workload, span: int, pace: Pace) -> float:
    """How long one trial of it takes; `span`: bytes that each of its jobs goes over."""
    if workload.runtime is not None:
        return workload.ramp + workload.runtime + pace.overhead
    return workload.ramp + workload.touched(span) * workload.numjobs / pace.write_rate + pace.overhead


def bytes_of(workload: Workload, span: int, pace: Pace) -> int:
    """How much one trial of it writes."""
    if workload.runtime is None:
        return int(workload.touched(span) * workload.numjobs * workload.write_share)
    return int((workload.ramp + workload.runtime) * pace.write_rate * workload.write_share)


def laid_out(cells: tuple[Cell, ...]) -> int:
    """How much is written to lay files out for the cells of one visit, in their order."""
    total, there = 0, ""
    for cell in cells:
        files = cell.files
        if files is None:
            return 0
        if (files.name != there or not cell.leaves_files) and not cell.workload.value.new:
            total += files.total
        there = files.name if cell.leaves_files else ""
    return total


def resync_of(array: Array) -> int:
    """How much building the array writes, where a first resync has to be waited for."""
    return sum(layer.resync_bytes(below) for layer, below in levels(array.stack.value, array.disks))


@dataclass(frozen=True, slots=True)
class Building:
    """What layers do while they are built, beside being built: it is written, or waited for."""

    written: int
    least: float
    most: float


def building_of(array: Array, pace: Pace) -> Building:
    """What the layers of an array say of it: preconditioning, wiping."""
    found = list(levels(array.stack.value, array.disks))
    written = sum(layer.bytes_written(below) for layer, below in found)
    seconds = written / pace.write_rate
    return Building(written, seconds, seconds + sum(layer.wait_seconds for layer, _ in found))


def estimate(plan: Plan, pace: Pace, jobs: int = 1) -> Estimate:
    """Walk the plan once, holding no more of it than one array. `jobs`: so many visits are under way at a time."""
    cells = arrays = built = 0
    seconds = set_up = 0.0
    waited = longest_least = longest_most = 0.0
    written = resync = 0
    rigs: set[str | None] = set()
    for visit in plan.visits(1):
        arrays += 1
        built += visit.builds
        before = seconds + set_up, waited
        rigs.add(visit.array.kernel)
        building, builds = building_of(visit.array, pace), visit.builds
        set_up += builds * (pace.set_up + building.least)
        waited += builds * (building.most - building.least)
        resync += builds * (resync_of(visit.array) + building.written)
        cells += len(visit.cells)
        files = laid_out(visit.cells)
        written, seconds = written + files, seconds + files / pace.lay_rate
        known: dict[bytes, tuple[float, int]] = {}
        for cell in visit.cells:
            work = cell.workload
            cost = known.get(work.digest)
            if cost is None:
                cost = known[work.digest] = (
                    seconds_of(work.value, cell.span, pace),
                    bytes_of(work.value, cell.span, pace),
                )
            seconds += cost[0]
            written += cost[1]
        visit_least, visit_waited = seconds + set_up - before[0], waited - before[1]
        longest_least = max(longest_least, visit_least)
        longest_most = max(longest_most, visit_least + visit_waited)
    least, most = plan.repeat.min, plan.repeat.max
    return Estimate(
        cells=cells,
        arrays=arrays,
        builds=built,
        rigs=len(rigs),
        trials_least=cells * least,
        trials_most=cells * most,
        seconds_least=max((seconds + set_up) / jobs, longest_least) * least,
        seconds_most=max((seconds + set_up + waited) / jobs, longest_most) * most,
        bytes_least=(written + resync) * least,
        bytes_most=(written + resync) * most,
    )
