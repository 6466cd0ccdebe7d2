"""The recorded data of one run, with the summary of each cell, from which all reports are made."""

import gc
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from matrix_runner.answers.axes import in_order, is_numeric, names_of
from matrix_runner.answers.cell_figures import NO_FIGURES, CellFigures, Measured, measured_cell, summarize_cell
from matrix_runner.answers.decision import Decision, decide
from matrix_runner.answers.knee import Knee, find_knee, searches_of
from matrix_runner.answers.ranking import Ranking, RankingRule, columns_of, rank_stacks
from matrix_runner.answers.verdicts import SHARE, Judgement
from matrix_runner.language.find import Find
from matrix_runner.pages.charts import Chart
from matrix_runner.pages.concerns import ConcernCounter, Concerns
from matrix_runner.pages.table import Grid
from matrix_runner.records.record import Attempt, CellRow, Outcome, Trial, counted_trials, outcome_of_cell
from matrix_runner.records.run_folder import StackFacts
from matrix_runner.records.usage import Usage
from matrix_runner.statistics.ratios import PRACTICAL
from matrix_runner.statistics.rounds import Drift, drift
from matrix_runner.statistics.stopping import Rule
from matrix_runner.work.metrics import FLUSH


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable garbage collection. Reports have no reference cycles; a search for them takes a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Past(NamedTuple):
    started: str  # ISO 8601
    mean: float


_LEAST_SYNCS = 100  # a 99th percentile of fewer is their longest
MOST_REASONS = 20  # reasons that a tally keeps


@dataclass(slots=True)
class Tally:
    """Counts of the cells of one layout and workload."""

    cells: Counter[Outcome | None] = field(default_factory=Counter)
    trials: Counter[Outcome] = field(default_factory=Counter)
    seconds: float = 0.0
    started: str = ""
    #: The first reasons of trials that were not measured, with their cells.
    reasons: list[str] = field(default_factory=list)

    def add(self, name: str, trials: Sequence[Trial]) -> None:
        self.trials.update(one.outcome for one in trials)
        self.cells[outcome_of_cell(Counter(one.outcome for one in trials))] += 1
        self.seconds += sum(one.seconds for one in trials)
        for one in trials:
            self._start(one.started)
        reasons = (f"{name}, trial {one.round}: {one.outcome}: {one.reason}" for one in trials if one.reason)
        self.reasons += islice(reasons, MOST_REASONS - len(self.reasons))

    def add_single(self, outcome: Outcome, seconds: float, started: str) -> None:
        """Add a cell with one trial, which is measured."""
        self.trials[outcome] += 1
        self.cells[outcome] += 1
        self.seconds += seconds
        self._start(started)

    def _start(self, started: str) -> None:
        if started and (not self.started or started < self.started):
            self.started = started


@dataclass(slots=True)
class Survey:
    """What one pass finds out about all cells of a large run, of which the pages show a part."""

    has_jobs: bool
    paths: tuple[Path, ...]  # the files that the pass writes
    tallies: dict[tuple[str, str], Tally] = field(default_factory=lambda: defaultdict(Tally))  # by layout and workload
    last: str = ""  # start of the last trial
    concerns: ConcernCounter = field(default_factory=ConcernCounter)
    imprecise: list[str] = field(default_factory=list)  # cells with wider intervals than wanted
    reasons: dict[str, None] = field(default_factory=dict)  # of trials that were not measured, each once
    hosts: Counter[str] = field(default_factory=Counter)  # of a cluster, with their numbers of trials

    @property
    def trials(self) -> Counter[Outcome]:
        return sum((one.trials for one in self.tallies.values()), Counter[Outcome]())

    @property
    def cells(self) -> Counter[Outcome | None]:
        return sum((one.cells for one in self.tallies.values()), Counter[Outcome | None]())


@dataclass(frozen=True)
class Section:
    title: str
    source: str
    table: Grid
    files: Mapping[str, bytes]  # content by the name of the file
    lines: Sequence[str] = ()  # on the terminal, at the end of the run
    cases: Sequence[tuple[str, bool, str]] = ()  # test cases of JUnit: their names, whether they fail, and texts
    chart: Chart | None = None


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


def _some(values: Sequence[str]) -> str:
    few = [*values[: _NAMED - 1], "…", values[-1]] if len(values) > _NAMED else values
    return ", ".join(few)


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
    stacks: Mapping[str, StackFacts] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)  # of workloads
    practical: float = PRACTICAL  # differences of stacks up to this size count as equal
    over: bool = False  # the run is finished
    archived: bool = False  # there are no folders of cells
    steered: bool = False  # open guidelines or a race chose the cells of later trials
    raced: bool = False
    emulated: bool = False  # its processors were emulated, and their times are not those of real ones
    designed: bool = False  # its cells are those of a design, which ranks no stacks
    judgements: Sequence[Judgement] = ()
    finds: Mapping[str, Find] = field(default_factory=dict)  # by workload
    #: By cell and round: the text of `profile.csv` of each trial.
    courses: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by cell and profiler: the kept text
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

    @cached_property
    def concerns(self) -> Sequence[Concerns]:
        if self.survey:
            return self.survey.concerns.concerns()
        counter = ConcernCounter()
        for cell in self.cells:
            counter.add(cell.name, self.by_cell[cell.id])
        return counter.concerns()

    @property
    def reasons(self) -> Sequence[str]:
        """Return why trials were not measured, each reason once."""
        if self.survey:
            return [*self.survey.reasons]
        return list(dict.fromkeys(trial.reason for trial in self.trials if trial.reason))

    @cached_property
    def summaries(self) -> Sequence[CellFigures]:
        return [self.summary_of(cell) for cell in self.cells]

    def summary_of(self, cell: CellRow) -> CellFigures:
        return summarize_cell(cell, self.by_cell[cell.id], self.rule, searched=cell.id in self._searched)

    @cached_property
    def knees(self) -> Sequence[Knee]:
        return [find_knee(one, self.by_cell, self.rule, self.stacks) for one in searches_of(self.cells, self.finds)]

    @cached_property
    def _searched(self) -> frozenset[str]:
        return frozenset(cell.id for one in self.knees for cell in one.search.cells)

    @cached_property
    def rule(self) -> Rule:
        most = max((len(trials) for trials in self.by_cell.values()), default=0) if self.most is None else self.most
        return Rule(self.least, most, self.until, self.confidence, self.over, self.steered, practical=self.practical)

    @cached_property
    def by_cell(self) -> Mapping[str, list[Trial]]:
        found: dict[str, list[Trial]] = {cell.id: [] for cell in self.cells}
        for trial in self.trials:
            found[trial.cell].append(trial)
        for trials in found.values():
            trials.sort(key=lambda trial: trial.round)
        return found

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
        if self.designed:
            return ()
        cells = [cell for cell in self.cells if cell.id not in self._searched]

        def measure(one: Measured) -> Measured:
            found = measured_cell("", one.cell, self.by_cell[one.cell.id], self.rule, columns_of(one.cell))
            return replace(found, sync_p99=self._sync_p99(one.cell))

        found = (Measured("", cell, NO_FIGURES) for cell in cells)
        rule = RankingRule(self.confidence, self._share, self.practical, raced=self.raced)
        return rank_stacks(found, rule, measure=measure, weighed=self.weights)

    def _sync_p99(self, cell: CellRow) -> float | None:
        """Return the 99th percentile of fsync and fdatasync, if there are enough for one."""
        syncs = [figures.sync for _, figures in counted_trials(self.by_cell[cell.id]) if figures.sync]
        if sum(one.ios for one in syncs) < _LEAST_SYNCS:
            return None
        known = self.summary_of(cell).figures.get(f"{FLUSH}_lat_p99")
        return known.mean if known else None

    @property
    def _share(self) -> float:
        return SHARE if self.steered else 1.0

    @cached_property
    def decision(self) -> Decision | None:
        return decide(self.rankings, self.losses, self.stacks, self.weights, self.least)

    @cached_property
    def slow(self) -> str:
        """Return how many times slower its simulated disks worked; empty without slow motion."""
        return ", ".join(map(str, sorted({one.facts.slow for one in self.trials if one.facts.slow > 1})))

    @property
    def trials_by_host(self) -> Sequence[tuple[str, int]]:
        """Return the hosts of a cluster that measured, with their numbers of trials."""
        counts = self.survey.hosts if self.survey else Counter(one.facts.host for one in self.trials if one.facts.host)
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


def choose_part(cells: Sequence[CellRow], most: int) -> Part:
    """Choose cells so that charts and effects of the part stay complete: every combination of the values that stay.

    Numbers of workloads go first: a page without some stack could miss the best one.
    """
    kept = cells
    axes = names_of(cell.axes for cell in cells)
    values = {axis: in_order(cell.axes[axis] for cell in cells if axis in cell.axes) for axis in axes}
    every = {axis: len(several) for axis, several in values.items()}
    while len(kept) > most and (axis := _longest(values)):
        values[axis] = _every_second(values[axis])
        chosen = {*values[axis]}
        kept = [cell for cell in kept if axis not in cell.axes or cell.axes[axis] in chosen]
    if len(kept) > most:
        kept = [kept[at * len(kept) // most] for at in range(most)]
    shortened = {axis: (of, every[axis]) for axis, of in values.items() if len(of) < every[axis]}
    return Part(kept, cells, shortened)


def _longest(values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the axis to shorten: the longest one of the first kind that has one."""
    long = [axis for axis, several in values.items() if len(several) > _LEAST_OF_AXIS]

    def order(axis: str) -> tuple[bool, bool, int]:
        return not is_numeric(axis, values[axis]), not axis.startswith("workload."), -len(values[axis])

    return min(long, key=order, default=None)


def _every_second(values: Sequence[str]) -> list[str]:
    """Return half of the values, with both ends."""
    count = (len(values) + 1) // 2
    return [values[at * (len(values) - 1) // (count - 1)] for at in range(count)]
