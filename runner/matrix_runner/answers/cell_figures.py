"""The figures of a cell, summarised over its trials, and as guidelines use them; the possible verdicts."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from itertools import combinations, product
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from matrix_runner.answers.axes import grouped, values_by_axis
from matrix_runner.records.record import CellRow, Outcome, Trial, count_measured, counted_trials, outcome_of_cell
from matrix_runner.statistics.percentile import estimated_percentiles
from matrix_runner.statistics.rounds import LEAST_VALUES, States, find_two_states
from matrix_runner.statistics.stopping import Estimate, Rule, StopReason, estimate_mean, stop_reason
from matrix_runner.work.fio.output import Direction, Figures, Sync
from matrix_runner.work.metrics import (
    ALL_SIDES,
    BESIDE,
    FLUSH,
    FOUND,
    OF_A_SIDE,
    OF_SYNC,
    PERCENTILES,
    RATES,
    REBUILD,
    SIDES,
    SYNC,
    TOTAL,
    Metric,
    headline,
    sides_of_kind,
    split_column,
)

_MEASURES = tuple(one.name for one in OF_A_SIDE if one.mean)  # figures that are summarised by their mean over trials
METRICS: tuple[str, ...] = (
    *(f"{side}_{rate}" for rate in RATES for side in (*SIDES, TOTAL)),
    *(f"{side}_{one.name}" for one in OF_A_SIDE if one.is_summarised and one.better < 0 for side in SIDES),
    *(f"{SYNC}_{name}" for name in OF_SYNC),
    *(f"{FLUSH}_{one.name}" for one in OF_A_SIDE if one.is_summarised and not one.is_of_data),
)
#: Shared by cells, of which there may be 100,000.
NO_FIGURES: Mapping[str, Any] = MappingProxyType({})
_measures_of = attrgetter(*_MEASURES)
_BANDWIDTHS = tuple(f"{side}_bw" for side in (*SIDES, SYNC))


@dataclass(frozen=True, slots=True)
class CellFigures:
    cell: CellRow
    counts: Mapping[Outcome, int]
    reasons: tuple[str, ...]  # of broken and skipped trials, each once
    figures: Mapping[str, Estimate]  # by METRICS; without the directions that did no I/O
    least_ios: int | None = None  # fewest requests of a direction in a trial; None without measurements
    host_limited: int = 0  # trials in which the host could not keep up with its simulated disks
    processor_limited: int = 0  # those of them that mostly waited for a processor of the machine
    saturated: int = 0  # replays that fell behind their trace because of their disks
    stalled: int = 0  # trials in which one request took a large part of the time
    unsettled: int = 0  # measured trials that did not reach the wanted steady state; the figures exclude them
    stopped: StopReason = StopReason.UNFINISHED  # why no more trials follow
    searched: bool = False  # a search chooses its trials
    states: Mapping[str, States] = field(default_factory=dict)  # bandwidths and p99 whose trials fall into two groups
    jobs: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)  # the figures of each job by its name

    @property
    def measured(self) -> int:
        return count_measured(self.counts)

    @property
    def outcome(self) -> Outcome | None:
        return outcome_of_cell(self.counts)

    @property
    def headline(self) -> str | None:
        return headline({name: one.mean for name, one in self.figures.items()})

    @property
    def is_needed(self) -> bool:
        """Return whether it has or awaits trials: a search decides without those of most cells."""
        return self.outcome is not None or not self.searched or self.stopped is not StopReason.DECIDED

    @property
    def text_without_trials(self) -> str:
        return "not yet run" if self.is_needed else "not needed"

    def reaches(self, until: float | None) -> bool | None:
        """Return whether the interval is as narrow as wanted; None: unknown. The rule for stopping is stricter."""
        total = self.figures.get(f"{SYNC}_bw") or self.figures.get("total_bw")
        if until is None or total is None or self.searched:
            return None
        return self.stopped is StopReason.PRECISE or (total.relative is not None and total.relative <= until)


_counts: Callable[[tuple[Outcome, ...]], Mapping[Outcome, int]] = lru_cache(maxsize=4096)(Counter)


def summarize_cell(cell: CellRow, trials: Sequence[Trial], rule: Rule, *, searched: bool = False) -> CellFigures:
    rule = replace(rule, steered=True) if searched else rule
    measured = [figures for _, figures in counted_trials(trials)]
    how = stop_reason([figures.deciding_rate for figures in measured], len(trials), rule)
    values = _values(measured)
    names = dict.fromkeys(name for figures in measured for name in figures.jobs)
    by_job = {name: [figures.jobs[name] for figures in measured if name in figures.jobs] for name in names}
    return CellFigures(
        cell=cell,
        counts=_counts(tuple([trial.outcome for trial in trials])),
        reasons=tuple(dict.fromkeys(trial.reason for trial in trials if trial.reason)),
        figures=_estimates(measured, values, rule, how),
        jobs={name: _estimates(several, _values(several), rule, how) for name, several in by_job.items()} or NO_FIGURES,
        host_limited=sum(trial.facts.is_host_limited for trial in trials if trial.outcome.counts),
        processor_limited=sum(trial.facts.is_processor_limited for trial in trials if trial.outcome.counts),
        saturated=sum(trial.facts.saturated for trial in trials if trial.outcome.counts),
        stalled=sum(trial.counted.is_stalled for trial in trials if trial.counted),
        unsettled=sum(not trial.facts.settled for trial in trials if trial.outcome.counts),
        stopped=how,
        searched=searched,
        states=_states(measured, values) or NO_FIGURES,
        least_ios=min((side.ios for one in measured for side in one.sides.values()), default=None),
    )


def _states(measured: Sequence[Figures], values: Mapping[str, Sequence[float]]) -> dict[str, States]:
    """Return the bandwidths and p99 whose trials fall into two separate groups."""
    if len(measured) < LEAST_VALUES:
        return {}
    found = {name: values.get(name, ()) for name in _BANDWIDTHS}
    for side in ALL_SIDES:
        directions: Iterable[Direction | None] = (getattr(figures, side) for figures in measured)
        found[f"{side}_lat_p99"] = [one.lat_p99 for one in directions if one and one.lat_p99 is not None]
    return {name: states for name, several in found.items() if (states := find_two_states(several))}


def _estimates(
    measured: Sequence[Figures], values: Mapping[str, Sequence[float]], rule: Rule, how: StopReason
) -> Mapping[str, Estimate]:
    known = {name: estimate_mean(several, rule, how) for name, several in values.items()}
    known |= _percentiles(measured, rule, how)
    return {name: known[name] for name in METRICS if name in known}


def _values(measured: Iterable[Figures]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for figures in measured:
        if figures.rebuild:
            for name in OF_SYNC:
                values.setdefault(f"{SYNC}_{name}", []).append(getattr(figures.rebuild, name))
        if figures.sides:
            values.setdefault("total_bw", []).append(figures.total_bw)
            values.setdefault("total_iops", []).append(figures.total_iops)
        for side, direction in figures.all_sides.items():
            for measure, value in zip(_MEASURES, _measures_of(direction), strict=True):
                if value is not None and not (side == FLUSH and measure == "bw"):
                    values.setdefault(f"{side}_{measure}", []).append(value)
    return values


def _percentiles(measured: Sequence[Figures], rule: Rule, how: StopReason) -> dict[str, Estimate]:
    found: dict[str, Estimate | None] = {}
    for side in ALL_SIDES:
        directions: list[Direction] = list(filter(None, (getattr(figures, side) for figures in measured)))
        histograms = [one.latencies for one in directions if one.latencies]
        if histograms and len(histograms) == len(directions):
            estimates = estimated_percentiles(histograms, [*PERCENTILES.values()], rule, how)
            found |= {f"{side}_{name}": one for name, one in zip(PERCENTILES, estimates, strict=True)}
        elif len(directions) == 1:
            own = ((name, getattr(directions[0], name)) for name in PERCENTILES)
            found |= {f"{side}_{name}": Estimate(value, 1, None) for name, value in own if value is not None}
    return {name: one for name, one in found.items() if one}


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


_BESIDE = frozenset(BESIDE.values())
SEARCH = "workload.find"  # an axis of the result of a search: the figure that it found


@dataclass(frozen=True, slots=True)
class Measured:
    run: str
    cell: CellRow
    columns: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    rule: Rule = Rule(1, 1)  # noqa: RUF009 - frozen
    stopped: StopReason = StopReason.FIXED
    trials: int = 0  # the number of trials with figures
    host_limited: int = 0  # trials that are host-limited
    #: The share of the time that host-limited trials lost to the host, as a mean over all trials.
    lost_share: float = 0.0
    #: The directions that each job may have, and at "" those of all jobs; None: unknown
    jobs: Mapping[str, Collection[str]] | None = None
    sync_p99: float | None = None  # ns, of fsync and fdatasync

    def has(self, metric: Metric) -> bool:
        """Return whether it has such a figure, or may have it after a measurement."""
        found = self.cell.axes.get(SEARCH, "")
        if (found or metric.name in FOUND) and found != metric.name:
            return False
        if self.trials:
            return any(self.columns.get(column) for column in metric.columns)
        is_rebuild = "workload.sync_action" in self.cell.axes
        if metric.is_of_rebuild:
            return is_rebuild
        if is_rebuild and "workload.under.rw" not in self.cell.axes:
            return not metric.is_of_requests
        sides = (split_column(column)[1].partition("_")[0] for column in metric.columns)
        return not metric.is_of_requests or any(side in self._sides(metric.job) for side in sides)

    def _sides(self, job: str) -> Collection[str]:
        if self.jobs is not None:
            return self.jobs.get(job, ())
        return sides_of_kind(self.cell.axes.get("workload.under.rw") or self.cell.axes.get("workload.rw", ""))

    def rounds(self, metric: Metric) -> dict[int, float]:
        found: dict[int, float] = {}
        for column in metric.columns:
            for round_number, value in self.columns.get(column, {}).items():
                found[round_number] = found.get(round_number, 0.0) + value
        floor = metric.floor
        return {round_number: larger for round_number, value in found.items() if (larger := max(value, floor)) > 0}


def measured_cell(run: str, cell: CellRow, trials: Sequence[Trial], rule: Rule, columns: Collection[str]) -> Measured:
    found = counted_trials(trials)
    values: dict[str, dict[int, float]] = {}
    for trial, figures in found:
        block = trial.block
        for column in columns:
            value = getattr(trial.facts, column) if column in _BESIDE else figure_of(figures, column)
            if value is not None:
                values.setdefault(column, {})[block] = value
    rates = [figures.deciding_rate for _, figures in found]
    limited = sum(one.facts.is_host_limited for one, _ in found)
    stopped = stop_reason(rates, len(trials), rule)
    return Measured(run, cell, values, rule, stopped, len(found), limited, mean_lost_share([one for one, _ in found]))


def mean_lost_share(counted: Sequence[Trial]) -> float:
    """Return the share of the time that host-limited trials lost to the host, as a mean over all trials."""
    return sum(one.facts.lost or 0.0 for one in counted) / max(1, len(counted))


@cache
def _parts_of_column(column: str) -> tuple[str, str, str]:
    job, own = split_column(column)
    side, _, name = own.partition("_")
    if side == SYNC and name in OF_SYNC:
        side = REBUILD
    return job, side if side in {*ALL_SIDES, REBUILD} else "", name


def figure_of(figures: Figures, column: str) -> float | None:
    job, side, name = _parts_of_column(column)
    of = figures.jobs.get(job) if job else figures
    direction: Direction | Sync | None = getattr(of, side) if of and side else None
    value: float | None = getattr(direction, name) if direction else None
    return value


class Context(NamedTuple):
    cells: tuple[CellRow, ...]
    places: Mapping[str, str]


class Matches(NamedTuple):
    contexts: list[Context]
    tied: Mapping[str, tuple[frozenset[str], ...]]  # the values of each such axis, side by side


def matching_cells(cells: Iterable[CellRow], rule: Mapping[str, frozenset[str]]) -> list[CellRow]:
    return [cell for cell in cells if all(cell.axes.get(axis) in values for axis, values in rule.items())]


def match_compared(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matches:
    """Return every combination of cells of all sides with equal values on the shared axes that are not `named`."""
    contexts, tied = list[Context](), dict[str, tuple[frozenset[str], ...]]()
    for several in product(*(_by_places(side, sorted(named)).values() for side in sides)):
        found = match_sides(several, named)
        contexts += found.contexts
        for axis, values in found.tied.items() if found.contexts else ():
            before = tied.get(axis, (frozenset[str](),) * len(values))
            tied[axis] = tuple(map(frozenset.union, before, values))
    return Matches(contexts, dict(sorted(tied.items())))


def unmatched_cells(sides: Sequence[Sequence[CellRow]], contexts: Iterable[Context]) -> list[CellRow]:
    used = {cell.id for context in contexts for cell in context.cells}
    return [cell for side in sides for cell in side if cell.id not in used]


def match_sides(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matches:
    """Match sides with one position each on the compared axes.

    An axis with different values on every side, and of the same kind (stack, tunables or workload), changes along with
    them and counts as compared: the level with the name of a layout.
    """
    values = [values_by_axis(cell.axes for cell in side) for side in sides]
    _, tied = _shared_axes(values, named)
    ignored = {*named, *tied}
    rows = [Context((), {})]
    for side in sides:
        rows = _joined(rows, side, ignored)
    return Matches(rows, {axis: tuple(frozenset(one[axis]) for one in values) for axis in sorted(tied)})


def match_along(groups: Mapping[str, Sequence[CellRow]], along: str) -> list[dict[str, CellRow]]:
    """Match cells along an axis, by its values. A position that excludes one value still has the others."""
    values = [values_by_axis(cell.axes for cell in side) for side in groups.values()]
    shared, tied = _shared_axes(values, {along})
    tied |= _parts_of(along, values)
    kept = sorted(shared - tied)
    parts = grouped((_key(cell.axes, kept), (value, cell)) for value, side in groups.items() for cell in side)
    return [
        dict(zip(part, context.cells, strict=True))
        for part in map(grouped, parts.values())
        for context in match_sides(list(part.values()), {along, *tied}).contexts
    ]


def kind_of(axis: str) -> str:
    kind = axis.partition(".")[0]
    return kind if kind in {"tune", "workload"} else "stack"


def _parts_of(named: str, values: Sequence[Mapping[str, set[str]]]) -> set[str]:
    """Return the axes that the name of a layout or workload determines: one value for each name that has the axis."""
    if named not in {"layout", "workload"}:
        return set()
    axes = {axis for one in values for axis in one if kind_of(axis) == kind_of(named)}
    return {axis for axis in axes if all(len(one[axis]) == 1 for one in values if axis in one)}


def _joined(rows: Sequence[Context], side: Sequence[CellRow], ignored: Collection[str]) -> list[Context]:
    known = {axis for row in rows for axis in row.places}
    common = sorted(known & {axis for cell in side for axis in cell.axes})
    by_key = _by_places(side, common)
    return [
        Context((*row.cells, cell), {**row.places, **{a: v for a, v in cell.axes.items() if a not in ignored}})
        for row in rows
        for cell in by_key.get(_key(row.places, common), ())
    ]


def _by_places(cells: Iterable[CellRow], names: Sequence[str]) -> dict[tuple[str, ...], list[CellRow]]:
    return grouped((_key(cell.axes, names), cell) for cell in cells)


def _key(axes: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(axes.get(name, "") for name in names)


def _shared_axes(sides: Sequence[Mapping[str, set[str]]], named: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the axes of all sides, and those among them of the same kind that have different values on every side."""
    if not sides:
        return set(), set()
    shared = set.intersection(*map(set, sides)) - set(named)
    kinds = {kind_of(axis) for axis in named}
    of_kinds = (axis for axis in shared if kind_of(axis) in kinds and len(sides) > 1)
    return shared, {axis for axis in of_kinds if not any(a[axis] & b[axis] for a, b in combinations(sides, 2))}
