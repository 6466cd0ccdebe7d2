"""The recorded data of one run, with the summary of each cell, from which all reports are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from matrix_runner.answers.knee import Knee, find_knee, searches_of
from matrix_runner.answers.ranking import Ranking, columns_of, rank_stacks
from matrix_runner.answers.samples import Measured, measured_cell
from matrix_runner.answers.verdicts import SHARE, Judgement
from matrix_runner.pages.axis_charts import in_order, is_numeric
from matrix_runner.pages.colours import Colours, choose_colours
from matrix_runner.records.record import (
    HOST,
    HOST_LIMITED,
    SATURATED,
    SLOW,
    UNSETTLED,
    Attempt,
    CellRow,
    Outcome,
    Trial,
    count_measured,
    counted_trials,
    outcome_of_cell,
)
from matrix_runner.statistics.changes import LEAST_VALUES, Drift, States, drift, find_two_states
from matrix_runner.statistics.percentile import estimated_percentiles
from matrix_runner.statistics.stopping import Estimate, Rule, StopReason, estimate_mean, stop_reason
from matrix_runner.work.fio.output import Direction, Figures
from matrix_runner.work.metrics import (
    ALL_SIDES,
    FLUSH,
    OF_A_SIDE,
    OF_SYNC,
    PERCENTILES,
    RATES,
    SIDES,
    SYNC,
    TOTAL,
    headline,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matrix_runner.language.find import Find
    from matrix_runner.pages.survey import Survey
    from matrix_runner.pages.table import Grid
    from matrix_runner.records.record import CellRow
    from matrix_runner.records.usage import Usage
    from matrix_runner.work.fio.output import Direction, Figures


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
class CellSummary:
    cell: CellRow
    counts: Mapping[Outcome, int]
    reasons: tuple[str, ...]  # of broken and skipped trials, each once
    figures: Mapping[str, Estimate]  # by METRICS; without the directions that did no I/O
    least_ios: int | None = None  # fewest requests of a direction in a trial; None without measurements
    host_limited: int = 0  # trials in which the host could not keep up with its simulated disks
    saturated: int = 0  # replays that fell behind their trace because of their disks
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


@lru_cache(maxsize=4096)
def _counts(outcomes: tuple[Outcome, ...]) -> Mapping[Outcome, int]:
    return Counter(outcomes)


def summarize_cell(cell: CellRow, trials: Sequence[Trial], rule: Rule, *, searched: bool = False) -> CellSummary:
    rule = replace(rule, steered=True) if searched else rule
    measured = [figures for _, figures in counted_trials(trials)]
    how = stop_reason([figures.deciding_rate for figures in measured], len(trials), rule)
    values = _values(measured)
    names = dict.fromkeys(name for figures in measured for name in figures.jobs)
    by_job = {name: [figures.jobs[name] for figures in measured if name in figures.jobs] for name in names}
    return CellSummary(
        cell=cell,
        counts=_counts(tuple([trial.outcome for trial in trials])),
        reasons=tuple(dict.fromkeys(trial.reason for trial in trials if trial.reason)),
        figures=_estimates(measured, values, rule, how),
        jobs={name: _estimates(several, _values(several), rule, how) for name, several in by_job.items()} or NO_FIGURES,
        host_limited=sum(HOST_LIMITED in trial.notes for trial in trials if trial.outcome.counts),
        saturated=sum(SATURATED in trial.notes for trial in trials if trial.outcome.counts),
        unsettled=sum(UNSETTLED in trial.notes for trial in trials if trial.outcome.counts),
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


class Past(NamedTuple):
    started: str  # ISO 8601
    mean: float


@dataclass(frozen=True)
class Section:
    title: str
    source: str
    table: Grid
    files: Mapping[str, bytes]  # content by the name of the file


@dataclass(frozen=True)
class RunData:
    matrix: str
    machine: str
    synthetic: bool
    cells: Sequence[CellRow]
    trials: Sequence[Trial]
    attempts: Sequence[Attempt] = ()
    confidence: float = 0.95  # confidence of the intervals
    until: float | None = None  # wanted half width of the intervals, as a part of the mean
    least: int = 2  # least trials of a cell
    most: int | None = None  # most trials of a cell; None: unknown
    #: By stack: how many disks may fail before data is lost; unknown stacks are left out.
    losses: Mapping[str, int] = field(default_factory=dict)
    over: bool = False  # the run is finished
    archived: bool = False  # there are no folders of cells
    steered: bool = False  # open guidelines chose the cells of later trials
    judgements: Sequence[Judgement] = ()
    finds: Mapping[str, Find] = field(default_factory=dict)  # by workload
    #: By cell: the text of `profile.csv` of each trial.
    courses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)  # by cell: the use of disks and processors in one trial
    history: Mapping[str, Sequence[Past]] = field(default_factory=dict)  # by cell: its headline in earlier runs
    #: By cell and round: the text of `rounds.csv` of each test of SNIA.
    rounds: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    unread: str = ""  # why the reports lack what only the archive has
    part: Part | None = None  # the cells are a part of those of a large run; `survey` counts all of them
    survey: Survey | None = None
    added: Sequence[Section] = ()  # sections of other rooms, such as the figures of a published study

    @property
    def every(self) -> Sequence[CellRow]:
        """Return all cells of the run, also those that the pages do not show."""
        return self.part.every if self.part else self.cells

    @property
    def counts(self) -> Counter[Outcome]:
        """Return the number of all trials by outcome."""
        return self.survey.trials if self.survey else Counter(trial.outcome for trial in self.trials)

    @cached_property
    def imprecise(self) -> Sequence[str]:
        """Return the cells with wider intervals than wanted."""
        if self.survey:
            return self.survey.imprecise
        return [one.cell.name for one in self.summaries if one.reaches(self.until) is False]

    @property
    def reasons(self) -> Sequence[str]:
        """Return why trials were not measured, each reason once."""
        if self.survey:
            return self.survey.reasons
        return list(dict.fromkeys(trial.reason for trial in self.trials if trial.reason))

    @cached_property
    def summaries(self) -> Sequence[CellSummary]:
        return [self.summary_of(cell) for cell in self.cells]

    def summary_of(self, cell: CellRow) -> CellSummary:
        return summarize_cell(cell, self.by_cell[cell.id], self.rule, searched=cell.id in self._searched)

    @cached_property
    def knees(self) -> Sequence[Knee]:
        return [find_knee(one, self.by_cell, self.rule) for one in searches_of(self.cells, self.finds)]

    @cached_property
    def _searched(self) -> frozenset[str]:
        return frozenset(cell.id for one in self.knees for cell in one.search.cells)

    @cached_property
    def rule(self) -> Rule:
        most = max((len(trials) for trials in self.by_cell.values()), default=0) if self.most is None else self.most
        return Rule(self.least, most, self.until, self.confidence, self.over, self.steered)

    @cached_property
    def by_cell(self) -> Mapping[str, list[Trial]]:
        found: dict[str, list[Trial]] = {cell.id: [] for cell in self.cells}
        for trial in self.trials:
            found[trial.cell].append(trial)
        for trials in found.values():
            trials.sort(key=lambda trial: trial.round)
        return found

    @cached_property
    def colours(self) -> Colours:
        return choose_colours(self.cells)

    @property
    def has_jobs(self) -> bool:
        return (
            self.survey.has_jobs if self.survey else any(trial.figures.jobs for trial in self.trials if trial.figures)
        )

    @cached_property
    def drift(self) -> Drift | None:
        if self.synthetic:
            return None
        cells = self.by_cell.values()
        rates = ({one.round: figures.deciding_rate for one in trials if (figures := one.counted)} for trials in cells)
        return drift(rates, self.confidence)

    @cached_property
    def rankings(self) -> Sequence[Ranking]:
        cells = [cell for cell in self.cells if cell.id not in self._searched]

        def measure(one: Measured) -> Measured:
            return measured_cell("", one.cell, self.by_cell[one.cell.id], self.rule, columns_of(one.cell))

        found = (Measured("", cell, NO_FIGURES) for cell in cells)
        return rank_stacks(found, self.confidence, SHARE if self.steered else 1.0, measure=measure)

    @cached_property
    def slow(self) -> str:
        """Return how many times slower its simulated disks worked; empty without slow motion."""
        return ", ".join(sorted({factor for one in self.trials if (factor := one.notes.get(SLOW))}))

    @property
    def trials_by_host(self) -> Sequence[tuple[str, int]]:
        """Return the hosts of a cluster that measured, with their numbers of trials."""
        counts = (
            self.survey.hosts if self.survey else Counter(one.notes[HOST] for one in self.trials if HOST in one.notes)
        )
        return sorted(counts.items())

    @property
    def warning(self) -> str:
        return f"synthetic, from the {self.machine} machine" if self.synthetic else ""

    @property
    def slow_motion(self) -> str:
        """Return the words of a report about slow motion; empty without it."""
        return f"disks {self.slow} times slower, figures as without it" if self.slow else ""

    @property
    def marks(self) -> str:
        return "; ".join(filter(None, (self.warning, self.slow_motion)))


_LEAST_OF_AXIS = 2  # values of an axis that stay: its ends
_NAMED = 6  # values that the text names


@dataclass(frozen=True, slots=True)
class Part:
    cells: Sequence[CellRow]
    every: Sequence[CellRow]
    values: Mapping[str, tuple[Sequence[str], int]]  # of each shortened axis: those that stay, and how many it has

    @property
    def text(self) -> str:
        axes = "; ".join(
            f"{axis.removeprefix('workload.')} {_some(kept)} ({len(kept)} of {every} values)"
            for axis, (kept, every) in self.values.items()
        )
        return f"{len(self.cells):,} of {len(self.every):,} cells{f', with {axes}' if axes else ''}"


def choose_part(cells: Sequence[CellRow], most: int) -> Part:
    """Choose cells so that charts and effects of the part stay complete: every combination of the values that stay.

    Numbers of workloads go first: a page without some stack could miss the best one.
    """
    kept, values = cells, _values_of_axes(cells)
    every = {axis: len(several) for axis, several in values.items()}
    while len(kept) > most and (axis := _longest(values)):
        values[axis] = _every_second(values[axis])
        chosen = {*values[axis]}
        kept = [cell for cell in kept if axis not in cell.axes or cell.axes[axis] in chosen]
    if len(kept) > most:
        kept = [kept[at * len(kept) // most] for at in range(most)]
    shortened = {axis: (of, every[axis]) for axis, of in values.items() if len(of) < every[axis]}
    return Part(kept, cells, shortened)


def _values_of_axes(cells: Sequence[CellRow]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, value in cell.axes.items():
            found.setdefault(axis, {})[value] = None
    return {axis: in_order(several) for axis, several in found.items()}


def _longest(values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the axis to shorten: the longest one of the first kind that has one."""
    long = [axis for axis, several in values.items() if len(several) > _LEAST_OF_AXIS]
    return min(long, key=lambda axis: (_kind_of_axis(axis, values[axis]), -len(values[axis])), default=None)


def _kind_of_axis(axis: str, values: Sequence[str]) -> tuple[bool, bool]:
    return not is_numeric(axis, values), not axis.startswith("workload.")


def _every_second(values: Sequence[str]) -> list[str]:
    """Return half of the values, with both ends."""
    count = (len(values) + 1) // 2
    return [values[at * (len(values) - 1) // (count - 1)] for at in range(count)]


def _some(values: Sequence[str]) -> str:
    few = [*values[: _NAMED - 1], "…", values[-1]] if len(values) > _NAMED else values
    return ", ".join(few)
