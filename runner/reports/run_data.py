"""The recorded data of one run, from which all reports are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from runner.guidelines.ranking import COLUMNS, Ranking, rank_stacks
from runner.guidelines.samples import measured_cells
from runner.guidelines.verdicts import SHARE, Judgement
from runner.reports.summary import CellSummary, summarize_cell
from runner.statistics.changes import Drift, drift
from runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.reports.table import Grid
    from runner.results.record import Attempt, CellRow, Trial


@dataclass(frozen=True)
class Section:
    """A part of the reports that another room adds: a table on the page, and files beside it."""

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
    steered: bool = False  # open guidelines chose the cells of later trials
    judgements: Sequence[Judgement] = ()
    #: By cell: the text of `profile.csv` of each trial.
    courses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    added: Sequence[Section] = ()  # sections of other rooms, such as the figures of a published study

    @cached_property
    def summaries(self) -> Sequence[CellSummary]:
        return [summarize_cell(cell, self.by_cell[cell.id], self.rule) for cell in self.cells]

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
    def drift(self) -> Drift | None:
        if self.synthetic:
            return None
        cells = self.by_cell.values()
        rates = ({one.round: figures.total_bw for one in trials if (figures := one.counted)} for trials in cells)
        return drift(rates, self.confidence)

    @cached_property
    def rankings(self) -> Sequence[Ranking]:
        found = measured_cells("", self.cells, self.by_cell, self.rule, COLUMNS)
        return rank_stacks(found, self.confidence, SHARE if self.steered else 1.0)

    @property
    def warning(self) -> str:
        return f"synthetic, from the {self.machine} machine" if self.synthetic else ""
