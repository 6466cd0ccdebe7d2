"""What every report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from runner.guidelines.ranking import COLUMNS, rank_stacks
from runner.guidelines.samples import measured_cells
from runner.guidelines.verdicts import SHARE
from runner.reports.summary import summary
from runner.statistics.changes import drift
from runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.guidelines.ranking import Ranking
    from runner.guidelines.verdicts import Judgement
    from runner.reports.summary import CellSummary
    from runner.reports.table import Grid
    from runner.results.record import Attempt, CellRow, Trial
    from runner.statistics.changes import Drift


@dataclass(frozen=True)
class Section:
    """A part of the reports that another room adds: a table on the page, and files beside it."""

    title: str
    source: str
    table: Grid
    #: Content by the name of the file.
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class RunData:
    """All that one run has recorded so far, as plain values."""

    matrix: str
    machine: str
    synthetic: bool
    cells: Sequence[CellRow]
    trials: Sequence[Trial]
    attempts: Sequence[Attempt] = ()
    #: Of every interval that is shown.
    confidence: float = 0.95
    #: Half width of the intervals that was asked for, as a part of the mean.
    until: float | None = None
    #: Trials of a cell, at least and at most; None: it is not known how many there may be.
    least: int = 2
    most: int | None = None
    #: How many disks may fail before data is lost, by stack; stacks of which it is unknown are not there.
    losses: Mapping[str, int] = field(default_factory=dict)
    #: The run is finished.
    over: bool = False
    #: Trials went where guidelines were not decided.
    steered: bool = False
    #: What is said of the guidelines of its matrix.
    judgements: Sequence[Judgement] = ()
    #: The course of its rate in each of its trials, by cell: what `profile.csv` says.
    courses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: What other rooms add, such as what a study published beside what was measured.
    added: Sequence[Section] = ()

    @cached_property
    def summaries(self) -> Sequence[CellSummary]:
        """One line for every cell, in the order of the cells."""
        return [summary(cell, self.by_cell[cell.id], self.rule) for cell in self.cells]

    @cached_property
    def rule(self) -> Rule:
        """By which cells were measured for so long."""
        most = max((len(trials) for trials in self.by_cell.values()), default=0) if self.most is None else self.most
        return Rule(self.least, most, self.until, self.confidence, self.over, self.steered)

    @cached_property
    def by_cell(self) -> Mapping[str, list[Trial]]:
        """The trials of each cell, by round; cells in their own order, also those without a trial yet."""
        found: dict[str, list[Trial]] = {cell.id: [] for cell in self.cells}
        for trial in self.trials:
            found[trial.cell].append(trial)
        for trials in found.values():
            trials.sort(key=lambda trial: trial.round)
        return found

    @cached_property
    def drift(self) -> Drift | None:
        """Whether all rates went up or down from round to round; None where too little was measured to tell."""
        return None if self.synthetic else drift(_rates_by_round(self.by_cell.values()), self.confidence)

    @cached_property
    def rankings(self) -> Sequence[Ranking]:
        """Which stack is fastest at each workload."""
        found = measured_cells("", self.cells, self.by_cell, self.rule, COLUMNS)
        return rank_stacks(found, self.confidence, SHARE if self.steered else 1.0)

    @property
    def warning(self) -> str:
        """What must stand wherever these numbers are shown; empty for measurements."""
        return f"synthetic, from the {self.machine} machine" if self.synthetic else ""


def _rates_by_round(cells: Iterable[Sequence[Trial]]) -> Iterator[Mapping[int, float]]:
    """Of each cell its bandwidth."""
    for trials in cells:
        yield {one.round: figures.total_bw for one in trials if (figures := one.counted)}
