"""Estimates of the time and the bytes of a run. What past runs teach them: past_timings.py."""

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from matrix_runner.decide.costs import COSTS, EMULATED, Costs, Factors, flushed_write, likeness, rate, sequential
from matrix_runner.decide.plan import Plan
from matrix_runner.language.matrix import Matrix
from matrix_runner.machines.base import ForecastsCost, Machine, Preparation, RigSpec
from matrix_runner.simdisks.disk import Physics, slow_of
from matrix_runner.space.select import MOST_LISTED, Selection
from matrix_runner.space.space import Cell, Stack
from matrix_runner.space.variants import levels
from matrix_runner.work.workload import Workload

Groups = list[tuple[Cell, float]]  # of one stack: a cell, and the number of cells with its costs
Known = dict[tuple[object, ...], tuple[float, int]]  # seconds and bytes of a workload on stacks of equal costs

_DIRTY_SHARE = 0.2  # the part of a machine's memory that is dirty when buffered work ends
_FAST = 200 * 10**6  # bytes per second for budgets without a recorded rate


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of a machine and its disks, from `runs` recorded runs of the matrix, else from constants."""

    costs: Costs = EMULATED
    physics: Physics | None = None  # model of the slowest disk
    memory: int = 512 * 2**20
    disks: int = 0
    slow: int = 1  # how many times slower than real time the disks work
    factors: Factors | None = None  # chooses the factor of each trial
    once: float = 0.0  # seconds beyond `costs`, once in a run
    each: float = 0.0  # seconds beyond `costs`, for each rig
    #: Means of recorded runs, None without any: seconds of a trial beyond its run time, seconds of a set-up.
    overhead: float | None = None
    set_up: float | None = None
    write_rate: float | None = None  # bytes written per second, by trials that write
    #: Recorded mean seconds: of trials by cell, of building by stack.
    cells: Mapping[str, float] = field(default_factory=dict)
    stacks: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0
    rated: int = 0  # number of runs with a write rate
    scatter: float | None = None  # relative deviation of a cell's trials; None: unknown

    def of_trial(self, cell: Cell) -> Self:
        """Return the pace of the trials of a cell. The set-up of its stack, and so on, may have another one."""
        slow = self.factors.of(cell) if self.factors else self.slow
        return self if slow == self.slow else replace(self, slow=slow, costs=self.costs.in_slow_motion(slow))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The size of a plan. Time and bytes are for the least repeats (each cell at its minimum) and the most."""

    cells: int
    stacks: int
    builds: int  # number of builds in a round
    rigs: int
    trials_least: int
    trials_most: int
    seconds_least: float
    seconds_most: float
    bytes_least: int
    bytes_most: int
    bytes_prepared: int  # the part of `bytes_least` that builds stacks and lays out files
    seconds_filling: (
        float  # the part of `seconds_least` that follows from the size of the disks, while stacks are built
    )
    #: Cells by the factor of slow motion of their next trial; empty if the run does not choose it.
    factors: Mapping[int, int]


def seconds_of(cell: Cell, pace: Pace) -> float:
    if cell.id in pace.cells:
        return pace.cells[cell.id]
    pace = pace.of_trial(cell)
    costs, work = pace.costs, cell.work
    overhead = pace.overhead
    if overhead is None:
        overhead = costs.trial + (costs.files if cell.files else 0.0) + _draining(cell, pace)
    if not costs.waits:
        return overhead
    moved = work.load(cell.span).moved
    return overhead + (_seconds(cell, pace) + (moved / _rate(cell.stack, work, pace) if moved else 0.0)) * pace.slow


def _seconds(cell: Cell, pace: Pace) -> float:
    return cell.work.seconds(cell.span, lambda: _of_member(cell.stack, pace))


def _of_member(stack: Stack, pace: Pace) -> float:
    """Return the rate at which a member of an array is written from end to end."""
    return min(sequential(replace(stack, width=1), pace.physics, pace.costs), pace.costs.bandwidth)


def _draining(cell: Cell, pace: Pace) -> float:
    work = cell.work
    if not pace.costs.waits:
        return 0.0
    if work.direct:
        left: float = work.under_way * work.sizes[1] if work.runtime else 0
    else:
        left = min(_DIRTY_SHARE * pace.memory, _written(cell, pace))
    return left / _rate(cell.stack, work, pace) * pace.slow if left else 0.0


def _rate(stack: Stack, work: Workload, pace: Pace) -> float:
    return _recorded_rate(work, pace) or rate(work, stack, pace.physics, pace.costs)


def _recorded_rate(work: Workload, pace: Pace) -> float | None:
    """Return the rate of reads and writes together, if writes are as fast as in recorded runs."""
    return pace.write_rate and pace.write_rate / (work.write_share or 1.0)


def _sequential(stack: Stack, pace: Pace) -> float:
    return pace.write_rate if pace.write_rate is not None else sequential(stack, pace.physics, pace.costs)


def bytes_of(cell: Cell, pace: Pace) -> int:
    return int(_written(cell, pace.of_trial(cell)))


def most_bytes_of(cell: Cell, pace: Pace) -> int:
    """Estimate the most bytes that one trial writes. Budgets must also hold on disks that are faster than expected."""
    work = cell.work
    most = _recorded_rate(work, pace) or _FAST
    if not work.is_timed:
        return bytes_of(cell, pace)
    load = work.load(cell.span)
    return int(load.longest * most * work.write_share + load.written)


def _written(cell: Cell, pace: Pace) -> float:
    work = cell.work
    timed = _seconds(cell, pace) * _rate(cell.stack, work, pace) if work.is_timed else 0.0
    return timed * work.write_share + work.load(cell.span).written


def laid_out(cell: Cell) -> int:
    """Return the bytes of the files that exist before a trial, if no trial before it left them."""
    return cell.files.total if cell.files and cell.workload.value.lays_out else 0


def _lay_outs(stack: Stack, groups: Groups) -> Iterator[tuple[int, float]]:
    """Yield the bytes of each set of files, and how often they are expected to be laid out in the order of a round."""
    if not stack.in_files:
        return
    total = sum(count for _, count in groups)
    users, leavers, sizes = defaultdict[str, float](float), defaultdict[str, float](float), {}
    for cell, count in groups:
        if (size := laid_out(cell)) and cell.files:
            name = cell.files.name
            users[name], sizes[name] = users[name] + count, size
            leavers[name] += count if cell.leaves_files and not stack.faults else 0
    for name, count in users.items():
        # A trial finds files that its predecessor, one of the others by chance, left for it.
        yield sizes[name], count - leavers[name] * max(0, leavers[name] - 1) / total


def resync_of(stack: Stack) -> int:
    return sum(layer.resync_bytes(below) for layer, below in levels(stack.layers.value, stack.disks))


@dataclass(frozen=True, slots=True)
class Building:
    written: int
    least: float
    most: float
    filling: float = 0.0  # the part of `least` that follows from the size of the disks


def building_of(stack: Stack, pace: Pace) -> Building:
    found = list(levels(stack.layers.value, stack.disks))
    written = sum(layer.bytes_written(below) for layer, below in found)
    waits = sum(layer.wait_seconds for layer, _ in found) if pace.costs.waits else 0.0
    known = pace.stacks.get(stack.key, pace.set_up)
    if known is not None:
        return Building(written, known, known + (0.0 if stack.key in pace.stacks else waits))
    costs = pace.costs
    seconds = costs.rig + costs.disk * pace.disks + pace.each + costs.set_up + costs.first
    for layer, below in found:
        if step := costs.layers.get(layer.kind):
            times = below.count if layer.for_each else getattr(layer, "groups", 1)
            seconds += times * step.seconds + below.count * step.writes * flushed_write(pace.physics) * pace.slow
    filling = 0.0
    if costs.waits:
        metadata = sum(layer.metadata_bytes(below) for layer, below in found)
        filling = (written + metadata + resync_of(stack)) / _sequential(stack, pace) * pace.slow
    return Building(written, seconds + filling, seconds + filling + waits, filling)


def _batch(
    building: Building, stack: Stack, groups: Groups, builds: int, pace: Pace, known: Known
) -> tuple[float, float, int, int]:
    sets = [(size * times, times) for size, times in _lay_outs(stack, groups)]
    laid = sum(size for size, _ in sets)
    prepared = laid + builds * (resync_of(stack) + building.written)
    seconds, written = 0.0, prepared
    if pace.overhead is None:  # the times of recorded trials include the laying out of files
        seconds = sum(times for _, times in sets) * pace.costs.lay_out + laid / _sequential(stack, pace) * pace.slow
    alike = likeness(stack, pace.costs)
    for cell, count in groups:  # tunables do not change the cost of a cell
        own = cell.id if pace.cells else stack.key if cell.work is not cell.workload.value else ""
        key = (alike, cell.workload.digest, own)
        if (cost := known.get(key)) is None:
            cost = known[key] = seconds_of(cell, pace), bytes_of(cell, pace)
        seconds += count * cost[0]
        written += count * cost[1]
    return builds * building.least + seconds, builds * building.most + seconds, int(written), int(prepared)


def _groups(selection: Selection, stack: Stack, pace: Pace) -> Groups:
    """Group the selected cells of a stack by their costs. With recorded times, each cell has its own."""
    return [(cell, 1) for cell in selection.cells_of(stack)] if pace.cells else list(selection.groups_of(stack))


@dataclass(frozen=True, slots=True)
class Slots:
    """How many batches run at a time: `minimum` in the rounds that every cell gets, `beyond` in later ones."""

    minimum: int = 1
    rounds: int = 1  # of the minimum, at a time
    beyond: int = 1

    @classmethod
    def of(cls, jobs: int) -> Self:
        return cls(jobs, 1, jobs)

    @classmethod
    def of_cluster(cls, hosts: Iterable[int], least: int, *, bound: bool) -> Self:
        """`hosts`: the slots of each host; `bound`: a host measures whole rounds. Later rounds run one at a time."""
        least = max(1, least)  # a search has no minimum
        ordered = sorted(hosts, reverse=True) or [1]
        used = ordered[:least] if bound else ordered
        return cls(sum(used), least, used[0] if bound else sum(used))

    def seconds(self, rounds: int, least: int, each: float, longest: float) -> float:
        """Return the time of all rounds, if a round takes `each` seconds and its longest stack `longest`."""
        first, later = min(rounds, least), max(0, rounds - least)
        return max(each / self.minimum, longest / self.rounds) * first + max(each / self.beyond, longest) * later


ONE_SLOT = Slots()


def estimate(plan: Plan, pace: Pace, slots: Slots = ONE_SLOT) -> Estimate:
    cells = stacks = built = written_least = written_most = prepared = 0
    least, most = plan.repeat.min, plan.repeat.max
    total_least = total_most = filling = longest_least = longest_most = 0.0
    rigs: set[tuple[str | None, str]] = set()
    known: Known = {}
    factors = Counter[int]()
    if plan.selection.count() > MOST_LISTED:
        pace = replace(pace, cells={})  # the mean of all recorded trials is enough
    for stack in plan.selection.space.stacks:
        groups = _groups(plan.selection, stack, pace)
        if not groups:
            continue
        count = round(sum(some for _, some in groups))
        builds = count if stack.faults else 1
        stacks += 1
        built += builds
        cells += count
        rigs.add((stack.kernel, stack.cmdline))
        for cell, some in groups if pace.factors else ():
            factors[pace.of_trial(cell).slow] += round(some)
        building = building_of(stack, pace)
        filling += builds * building.filling
        fewer = more = _batch(building, stack, plan.shares(groups, least), builds, pace, known)
        if plan.finds and most > least:
            more = _batch(building, stack, plan.shares(groups, most), builds, pace, known)
        batch_least, batch_most = fewer[0], more[1]
        written_least, written_most, prepared = written_least + fewer[2], written_most + more[2], prepared + fewer[3]
        total_least, total_most = total_least + batch_least, total_most + batch_most
        longest_least, longest_most = max(longest_least, batch_least), max(longest_most, batch_most)
    once = pace.costs.program + pace.once
    in_all_rounds = slots.seconds(least, least, total_least, longest_least)
    return Estimate(
        cells=cells,
        stacks=stacks,
        builds=built,
        rigs=len(rigs),
        trials_least=plan.trials(least),
        trials_most=plan.trials(most),
        seconds_least=once + in_all_rounds,
        seconds_most=once + slots.seconds(most, least, total_most, longest_most),
        bytes_least=written_least * least,
        bytes_most=written_most * most,
        bytes_prepared=prepared * least,
        seconds_filling=in_all_rounds * filling / total_least if total_least else 0.0,
        factors=dict(sorted(factors.items())),
    )


def remaining_seconds(expected: float, done: float, elapsed: float) -> float:
    """Estimate the seconds left. `expected`: seconds of the whole run, 0: unknown; `done`: its finished share."""
    if not expected:
        return elapsed * (1 - done) / done if done else 0.0
    trust = max(30.0, expected / 10)
    slowness = (elapsed + trust) / (expected * done + trust)
    return expected * (1 - done) * slowness


def count_down(seconds: float, elapsed: float, trials: int) -> float:
    """Return the rest of an estimate that is `elapsed` seconds old, with `trials` left.

    A trial may take twice its share or more before the rest stands still.
    """
    return max(seconds - elapsed, seconds * (1 - 1 / trials) / 2, 1.0) if trials else 0.0


_RUNNABLE_PER_CPU = 2.0  # up to this load per processor, programs are not slower: one rig is two runnable programs
_NOTED = 1.25  # less slowness than this is not worth a note


@dataclass(frozen=True, slots=True)
class Load:
    running: float
    cpus: int

    @classmethod
    def now(cls) -> Self:
        return cls(os.getloadavg()[0], os.cpu_count() or 1)

    @property
    def slowness(self) -> float:
        """Estimate the slowdown of programs. Measured: 4 times with 15 runnable programs on two processors."""
        return max(1.0, self.running / self.cpus / _RUNNABLE_PER_CPU)

    @property
    def note(self) -> str:
        if self.slowness < _NOTED:
            return ""
        load = f"a load of {self.running:.1f} on {self.cpus} processors"
        return f"this host is busy ({load}): the estimate assumes that programs take {self.slowness:.1f} times as long"


QUIET = Load(0.0, 1)


def costs_of(here: Machine) -> Costs:
    return COSTS[here.processor() if isinstance(here, ForecastsCost) else "native"]


def machine_pace(here: Machine, matrix: Matrix, specs: Collection[RigSpec], load: Load = QUIET) -> Pace:
    ahead = here.preparation(specs) if isinstance(here, ForecastsCost) else Preparation()
    disks = matrix.every_disk()
    slow = slow_of(disks)
    costs = costs_of(here).slowed(load.slowness)
    simulated = [disk.physics for disk in disks if disk.physics]
    return Pace(
        costs=costs.in_slow_motion(slow),
        physics=min(simulated, key=lambda disk: disk.rate(2**20, random=False, write=True), default=None),
        memory=matrix.machine.memory,
        disks=len(disks),
        slow=slow,
        once=ahead.once * load.slowness,
        each=ahead.each * load.slowness,
    )
