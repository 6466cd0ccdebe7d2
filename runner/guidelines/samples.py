"""What one run knows of one cell, as guidelines look at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.language.metrics import BESIDE
from runner.statistics.stopping import Rule, StopReason, stop_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.language.metrics import Metric
    from runner.results.fio_json import Figures
    from runner.results.record import CellRow, Trial

_NOTED = frozenset(BESIDE.values())
#: The side on which nothing is done.
_SILENT = {"read": "write", "randread": "write", "write": "read", "randwrite": "read"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell in a run: its figures by column and block, and how it came to have so many."""

    run: str
    cell: CellRow
    columns: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    rule: Rule = Rule(1, 1)  # noqa: RUF009 - frozen
    stopped: StopReason = StopReason.FIXED
    #: So many trials have figures.
    trials: int = 0
    #: Trials in which the host could not keep up with modelled disks.
    strained: int = 0

    def has(self, metric: Metric) -> bool:
        """Whether it has such a figure, or would if it had been measured: what only reads has none of writing."""
        if self.trials:
            return any(self.columns.get(column) for column in metric.columns)
        silent = _SILENT.get(self.cell.axes.get("workload.rw", ""), "")
        return not silent or not all(column.startswith(silent) for column in metric.columns)

    def blocks(self, metric: Metric) -> dict[int, float]:
        """A figure by block; where a direction did nothing it adds nothing, and a share of nothing is a small one."""
        found: dict[int, float] = {}
        for column in metric.columns:
            for block, value in self.columns.get(column, {}).items():
                found[block] = found.get(block, 0.0) + value
        floored = {block: max(value, metric.floor) for block, value in found.items()}
        return {block: value for block, value in floored.items() if value > 0}


def measured(
    run: str, cells: Iterable[CellRow], trials: Mapping[str, Sequence[Trial]], rule: Rule, columns: Collection[str]
) -> Iterator[Measured]:
    """The cells of a run, with those figures that somebody asks about."""
    for cell in cells:
        yield of_cell(run, cell, trials.get(cell.id, ()), rule, columns)


def of_cell(run: str, cell: CellRow, trials: Sequence[Trial], rule: Rule, columns: Collection[str]) -> Measured:
    """One of them; its trials are in the order of their blocks."""
    found = [(one, figures) for one in trials if (figures := one.counted)]
    values: dict[str, dict[int, float]] = {}
    for trial, figures in found:
        for column in columns:
            value = _noted(trial, column) if column in _NOTED else _figure(figures, column)
            if value is not None:
                values.setdefault(column, {})[trial.block] = value
    rates = [figures.total_bw for _, figures in found]
    strained = sum("strained" in one.notes for one, _ in found)
    return Measured(run, cell, values, rule, stop_reason(rates, len(trials), rule), len(found), strained)


def _figure(figures: Figures, column: str) -> float | None:
    side, _, name = column.partition("_")
    direction = figures.read if side == "read" else figures.write
    value: float | None = getattr(direction, name) if direction else None
    return value


def _noted(trial: Trial, column: str) -> float | None:
    """What was counted beside the work."""
    text = trial.notes.get(column)
    return float(text) if text else None
