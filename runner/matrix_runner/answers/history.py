"""History of figures over all runs: series, their changes of level, and the alarms of a night, one for each cause."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from math import exp, log
from statistics import fmean
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from matrix_runner.answers import selectors
from matrix_runner.answers.axes import Axes, grouped, is_workload_axis, name_key, value_key
from matrix_runner.answers.comparison import Comparison, Line, Speed, Terms, compare_sides
from matrix_runner.answers.old_kernel import with_old_kernel
from matrix_runner.answers.pairs import Side, earlier_groups
from matrix_runner.answers.stored_samples import (
    LATENCIES,
    USUAL_RATES,
    CellSelection,
    Samples,
    is_compared,
    more_is_faster,
    rates_of,
    read_samples,
)
from matrix_runner.base.errors import BadInput
from matrix_runner.base.extras import has_statistics
from matrix_runner.language.references import Baseline, KnownChange
from matrix_runner.records.address import IN_MEMORY, Address
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.records.store import RunRow, SharedStore, describe_run
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.space.declared_files import AcceptedFiles, load_accepted
from matrix_runner.statistics.changes import Change, History, read_history
from matrix_runner.statistics.stopping import Estimate

#: The values that cells have on some axes.
Shared: TypeAlias = "Mapping[str, tuple[str, ...]]"


#: Steps of one cause are found in the same night, or a few nights apart.
_NIGHTS_APART = 2


@dataclass(frozen=True, slots=True)
class Point:
    samples: Samples
    estimate: Estimate


class Step(NamedTuple):
    at: int  # the first run of the lower level
    move: float  # the logarithm of its speed
    certain: bool


@dataclass(frozen=True)
class Series:
    cell: CellRow
    metric: str
    machine: str
    host: str
    synthetic: bool
    points: Sequence[Point]
    history: History
    speeds: Sequence[float] = ()  # logarithms, without accepted changes; empty if a value is not positive
    known: Sequence[KnownChange] = ()  # the accepted changes of the last run

    @property
    def name(self) -> str:
        return self.cell.name

    @property
    def changes(self) -> Sequence[Change]:
        return self.history.changes

    def _level(self, begin: int, end: int | None) -> float:
        return fmean(self.speeds[begin:end])

    @property
    def step(self) -> Step | None:
        """Return the first step to a lower level of which more than half is left."""
        places = [change.at for change in self.changes]
        for number, change in enumerate(self.changes):
            before = self._level(places[number - 1] if number else 0, change.at)
            after = self._level(change.at, places[number + 1] if number + 1 < len(places) else None)
            if after < before and self._level(places[-1], None) < (before + after) / 2:
                return Step(change.at, after - before, change.certain)
        return None

    @property
    def drift(self) -> float | None:
        """Return the logarithm of the speed at the end, if a straight line leads down to it."""
        trend = self.history.trend
        speed = (log(trend) if more_is_faster(self.metric) else -log(trend)) if trend else 0.0
        return speed if speed < 0 else None

    @property
    def gone(self) -> list[KnownChange]:
        """Return the accepted changes of which the last level has lost more than half."""
        if not self.changes or not self.speeds:
            return []
        moved = self._level(self.changes[-1].at, None) - self._level(0, self.changes[0].at)
        return [one for one in self.known if moved / -log(one.change) > 1 / 2]


Slower = TypeVar("Slower", Line, Series)


@dataclass(frozen=True, slots=True)
class Alarm(Generic[Slower]):
    """Figures that became slower together: of a comparison, or series with a step or a drift."""

    figures: Sequence[Slower]  # the strongest first
    cause: "Cause"
    speed: float  # how many times as fast as before, on average
    first: RunRow | None = None  # of series, the first slower run; None: a drift

    @property
    def name(self) -> str:
        return self.cause.name(self.figures[0].name)


@dataclass(frozen=True, slots=True)
class Level:
    """The accepted level: runs of baselines, and changes."""

    baselines: Sequence[Baseline] = ()
    changes: Sequence[KnownChange] = field(default=())


def timelines(found: Sequence[Samples], metrics: Sequence[str], level: Level | None = None) -> list[Series]:
    """Return the series. One with a baseline begins with it. Changes are searched without those that are accepted.

    They are not searched if the extra for statistics is not installed.
    """
    level = level or Level()
    ordered = sorted(_since_baselines(found, level.baselines), key=lambda one: (one.run.started, one.run.id))
    by_place = grouped(((one.cell.id, *_place(one.run)), one) for one in ordered)
    series = []
    for several in by_place.values():
        for metric in metrics or rates_of(several):
            points = [Point(one, estimate) for one in several if (estimate := one.estimate(metric))]
            if points:
                series.append(_series(points, metric, level.changes))
    return sorted(series, key=lambda one: (name_key(one.cell.name), one.cell.id, one.machine, one.host, one.metric))


def _place(run: RunRow) -> tuple[object, ...]:
    return run.machine, run.host, run.synthetic, selectors.hardware_of(run)


def _since_baselines(found: Sequence[Samples], baselines: Sequence[Baseline]) -> list[Samples]:
    runs = {one.run.id: one.run for one in found}.values()
    begins: dict[str, str] = {}
    for run in runs if baselines else ():
        baseline = selectors.baseline_of(run, baselines)
        named = selectors.runs_of_baseline(baseline, runs) if baseline else []
        begins[run.id] = min((one.started for one in named if one.machine == run.machine), default="")
    return [one for one in found if one.run.started >= begins.get(one.run.id, "")]


def _series(points: Sequence[Point], metric: str, changes: Sequence[KnownChange]) -> Series:
    run, cell = points[-1].samples.run, points[-1].samples.cell  # the latest name

    def _accepted(point: Point) -> float:
        return selectors.accepted_factor(changes, point.samples.run, cell.axes, metric)

    sign = 1 if more_is_faster(metric) or not is_compared(metric) else -1
    means = [point.estimate.mean / _accepted(point) ** sign for point in points]
    weekdays = [date.fromisoformat(point.samples.run.started[:10]).weekday() for point in points]
    is_positive = min(means) > 0
    history = read_history(means, weekdays) if is_positive and has_statistics() else History()
    speeds = [sign * log(mean) for mean in means] if is_positive else []
    known = selectors.changes_of(changes, run, cell.axes, metric)
    return Series(cell, metric, run.machine, run.host, run.synthetic, points, history, speeds, known)


def find_history_alarms(series: Sequence[Series]) -> list[Alarm[Series]]:
    """Return steps to a lower level and drifts, one alarm for each cause, the strongest of each night first."""
    found = []
    compared = [one for one in series if is_compared(one.metric)]
    for several in grouped((_place(one.points[-1].samples.run), one) for one in compared).values():
        steps = {id(one): step for one in several if (step := one.step)}
        for nights in _close_nights([one for one in several if id(one) in steps], several):
            moves = [steps[id(one)].move for one in nights]
            alarms = _alarms(nights, moves, [one for one in several if not one.changes], is_step=True)
            # A step that alone may be chance joins a certain one.
            found += [alarm for alarm in alarms if any(steps[id(one)].certain for one in alarm.figures)]
        drifts = [one for one in several if one.drift]
        others = [one for one in several if not one.drift]
        found += _alarms(drifts, [one.drift or 0.0 for one in drifts], others, is_step=False)
    return found


def _close_nights(moved: Sequence[Series], every: Sequence[Series]) -> list[list[Series]]:
    starts = sorted({point.samples.run.started for one in every for point in one.points})
    place = {started: at for at, started in enumerate(starts)}
    keyed = sorted(((place[_first(one).started], at) for at, one in enumerate(moved)))
    groups: list[list[Series]] = []
    last = -len(starts)
    for night, at in keyed:
        if night - last > _NIGHTS_APART:
            groups.append([])
        groups[-1].append(moved[at])
        last = night
    return groups


def _first(one: Series) -> RunRow:
    return one.points[one.step.at if one.step else 0].samples.run


def _alarms(
    moved: Sequence[Series], moves: Sequence[float], others: Sequence[Series], *, is_step: bool
) -> list[Alarm[Series]]:
    places = [(one.cell.axes, move) for one, move in zip(moved, moves, strict=True)]
    there = {one.cell.id for one in moved}  # another figure of such a cell may be as before
    return [
        Alarm(
            [moved[at] for at in cause.members],
            cause,
            exp(fmean(moves[at] for at in cause.members)),
            _first(moved[cause.members[0]]) if is_step else None,
        )
        for cause in find_causes(places, [one.cell.axes for one in others if one.cell.id not in there])
    ]


#: Differences up to this size count as equal; the confidence of verdicts.


def find_alarms(lines: Sequence[Line], chosen: CellSelection | None = None) -> list[Alarm[Line]]:
    """Group slower figures, or those of some cells, by cause.

    A figure that cannot be told is as before if it moved less than half as far as the others.
    """
    slower = [
        line
        for line in lines
        if line.speed is Speed.SLOWER and (chosen is None or chosen.takes(line.pair.right[0].cell))
    ]
    least = min((-line.log_speed for line in slower), default=0.0) / 2
    taken = {line.cells for line in slower}  # another figure of such a cell may be as before
    unmoved = [
        line
        for line in lines
        if line.cells not in taken and (line.speed is not Speed.UNKNOWN or -line.log_speed < least)
    ]
    moved = [(line.pair.right[0].cell.axes, line.log_speed) for line in slower]
    causes = find_causes(moved, [line.pair.right[0].cell.axes for line in unmoved])
    members = (([slower[at] for at in cause.members], cause) for cause in causes)
    return [Alarm(several, cause, exp(fmean(line.log_speed for line in several))) for several, cause in members]


def check_baselines(nights: Iterable[RunRow], runs: Sequence[RunRow], files: AcceptedFiles) -> None:
    """Refuse baselines for these nights that name no run."""
    used = {id(selectors.baseline_of(run, files.baselines.entries)) for run in nights}
    files.check_baselines(lambda one: id(one) not in used or selectors.runs_of_baseline(one, runs))


def read_levels(store: SharedStore, nights: Sequence[RunRow], files: AcceptedFiles) -> list[RunRow]:
    """Return the runs that nights are compared with."""
    check_baselines(nights, store.runs(), files)
    found = {one.id: one for run in nights for one in _read_level(store, run, files)}
    return list(found.values())


def _read_level(store: SharedStore, night: RunRow, files: AcceptedFiles) -> list[RunRow]:
    def is_slower(run: RunRow, level: Sequence[RunRow]) -> bool:
        found = read_samples(store, [run, *level], (*USUAL_RATES, *LATENCIES), histograms=False)
        before, now = ([one for one in found if (one.run is run) == is_night] for is_night in (False, True))
        try:
            sides = Side("level", before), Side(run.name, now)
            return bool(compare_sides(*sides, Terms(known=files.changes)).slower)
        except BadInput:  # they have no common cell
            return False

    return selectors.accepted_level(night, store.runs(), files.baselines.entries, is_slower)


def compare_with_level(folder: RunFolder, journal: Journal, address: Address, *, planned: bool = False) -> Comparison:
    """Compare a run at work with the accepted level by the files in its folder; `planned`: by its planned rounds."""
    night, files, metrics = describe_run(folder), load_accepted(folder.path), (*USUAL_RATES, *LATENCIES)
    with SharedStore.open(IN_MEMORY) as own, SharedStore.existing(address) as shared:
        own.catch_up(folder, journal)
        found = read_samples(own, [night], metrics)
        bring_up_to_date(shared, folder.path.parent)
        level = read_levels(shared, [night], files)
        if not level:
            raise BadInput("there is no accepted level yet", resolution="it takes an earlier good run, or a baseline")
        last = night.most or 0
        b = Side(night.name, [one.in_rounds(lambda at: at <= last) for one in found] if planned else found)
        a = Side(selectors.ACCEPTED, read_samples(shared, level, metrics))
        groups = earlier_groups(a, b, shared.runs())
        history = [Side("", read_samples(shared, group, metrics, histograms=False)) for group in groups]
    terms = Terms(known=files.changes, history=history)
    return with_old_kernel(compare_sides(a, b, terms), folder.path, terms)


_ALIKE = 1 / 3
_BY_NAME = ("layout", "workload", "rw", "bs")  # axes that people name first


@dataclass(frozen=True, slots=True)
class Cause:
    members: tuple[int, ...]  # positions of cells that moved, the strongest first
    shared: Shared  # empty: every cell moved

    def name(self, strongest: str) -> str:
        """Return its name; `strongest`: that of its strongest cell."""
        if len(self.members) == 1:
            return strongest
        return f"all {describe_shared(self.shared)}" if self.shared else "all cells"


def describe_shared(shared: Shared) -> str:
    words = [f"{axis}={'|'.join(values)}" for axis, values in shared.items() if axis != "layout"]
    return " with ".join(filter(None, ("|".join(shared.get("layout", ())), ", ".join(words))))


def find_causes(moved: Sequence[tuple[Axes, float]], unmoved: Collection[Axes]) -> list[Cause]:
    """Group cells that moved, each with the size of its move (a logarithm). `unmoved`: cells known to be as before.

    A group begins with its strongest cell, and grows while no unmoved cell has its values. Cells that moved less than a
    third as far do not make it grow.
    """
    left = sorted(range(len(moved)), key=lambda at: -abs(moved[at][1]))
    found = []
    while left:
        first, direction = moved[left[0]][0], moved[left[0]][1] > 0
        alike = [at for at in left if (moved[at][1] > 0) == direction]
        # Also the cells of other causes: an accepted change is found again by these values alone.
        others = [*unmoved, *(axes for at, (axes, _) in enumerate(moved) if at not in set(alike))]
        far = [at for at in alike if abs(moved[at][1]) >= _ALIKE * abs(moved[left[0]][1])]
        near = [moved[at][0] for at in alike if at not in set(far)]
        shared = _grown(first, [moved[at][0] for at in far], others, near)
        shared = _shortened(shared, [*others, *near], len(far))
        members = [at for at in alike if _has(moved[at][0], shared)]
        found.append(Cause(tuple(members), shared))
        left = [at for at in left if at not in set(members)]
    return found


def _has(axes: Axes, shared: Shared) -> bool:
    return all(axes.get(axis) in values for axis, values in shared.items())


def _grown(first: Axes, moved: Sequence[Axes], unmoved: Sequence[Axes], near: Sequence[Axes]) -> Shared:
    """Widen the values of the first cell as long as only moved cells have them; the step with most cells first."""
    every = [first, *moved, *unmoved, *near]
    varying = {axis for axes in every for axis in {*axes, *first} if axes.get(axis) != first.get(axis)}
    shared: Shared = {axis: (first[axis],) for axis in sorted(varying.intersection(first), key=_importance)}
    ties = {axis: _determined(axis, shared, every) for axis in shared}
    count = sum(_has(axes, shared) for axes in moved)
    while True:
        steps = [
            (sum(_has(axes, one) for axes in moved), one)
            for one in _wider(shared, moved, ties)
            if not any(_has(axes, one) for axes in unmoved)
        ]
        best = max(steps, key=lambda step: (step[0], -len(step[1])), default=(0, shared))
        if best[0] <= count:
            break
        count, shared = best
    return shared


def _shortened(shared: Shared, others: Sequence[Axes], count: int) -> Shared:
    """Leave out the axes without which no other cell has the values; a single cell keeps all."""
    for axis in [*shared] if count > 1 else ():
        less = {name: values for name, values in shared.items() if name != axis}
        if not any(_has(axes, less) and not _has(axes, shared) for axes in others):
            shared = less
    return dict(reversed([*shared.items()]))


def _determined(axis: str, others: Iterable[str], every: Iterable[Axes]) -> dict[str, dict[str, str]]:
    """Return the axes whose value follows from that of this axis, and their value by its value."""
    found: dict[str, dict[str, str]] = {other: {} for other in others if other != axis}
    for axes in every:
        if axis in axes:
            for other in [*found]:
                if found[other].setdefault(axes[axis], axes.get(other, "")) != axes.get(other, ""):
                    del found[other]
    return found


def _wider(shared: Shared, moved: Iterable[Axes], ties: Mapping[str, dict[str, dict[str, str]]]) -> Iterator[Shared]:
    """Yield the groups without an axis, and those with one value more. What follows from the axis changes with it."""
    for axis in shared:
        yield {name: values for name, values in shared.items() if name != axis and name not in ties[axis]}
    for axis, values in shared.items():
        for value in sorted({axes[axis] for axes in moved if axis in axes} - {*values}, key=value_key):
            tied = {name: by_value[value] for name, by_value in ties[axis].items() if name in shared}
            added = {**tied, axis: value}
            yield {name: _with_value(some, added.get(name)) for name, some in shared.items()}


def _with_value(values: tuple[str, ...], value: str | None) -> tuple[str, ...]:
    return values if value is None else tuple(sorted({*values, value}, key=value_key))


def _importance(axis: str) -> tuple[int, bool, str]:
    short = axis.rpartition(".")[2]
    at = _BY_NAME.index(short) if short in _BY_NAME else len(_BY_NAME)
    return -at, not is_workload_axis(axis), axis
