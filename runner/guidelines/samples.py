"""The figures of a cell as guidelines use them, and the possible verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from runner.language.metrics import BESIDE
from runner.results.record import HOST_LIMITED
from runner.simdisks.server import lost_share
from runner.statistics.stopping import Rule, StopReason, stop_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.language.metrics import Metric
    from runner.results.fio_output import Figures
    from runner.results.record import CellRow, Trial


class Verdict(StrEnum):
    """The verdict on a guideline, or on one of its questions."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


_NOTED = frozenset(BESIDE.values())
#: The direction without I/O, by kind of workload.
_SILENT = {"read": "write", "randread": "write", "write": "read", "randwrite": "read"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell in a run: its figures by column and round, and its stopping rule."""

    run: str
    cell: CellRow
    columns: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    rule: Rule = Rule(1, 1)  # noqa: RUF009 - frozen
    stopped: StopReason = StopReason.FIXED
    #: The number of trials with figures.
    trials: int = 0
    #: Trials that are host-limited.
    host_limited: int = 0
    #: The share of the time that host-limited trials lost to the host, as a mean over all trials.
    lost_share: float = 0.0

    def has(self, metric: Metric) -> bool:
        """Return whether it has such a figure, or would have after a measurement.

        A read workload has no write figures.
        """
        if self.trials:
            return any(self.columns.get(column) for column in metric.columns)
        silent = _SILENT.get(self.cell.axes.get("workload.rw", ""), "")
        return not silent or not all(column.startswith(silent) for column in metric.columns)

    def rounds(self, metric: Metric) -> dict[int, float]:
        """Return a figure by round. A direction without I/O counts as zero in sums."""
        found: dict[int, float] = {}
        for column in metric.columns:
            for round_number, value in self.columns.get(column, {}).items():
                found[round_number] = found.get(round_number, 0.0) + value
        floored = {round_number: max(value, metric.floor) for round_number, value in found.items()}
        return {round_number: value for round_number, value in floored.items() if value > 0}


def measured_cells(
    run: str, cells: Iterable[CellRow], trials: Mapping[str, Sequence[Trial]], rule: Rule, columns: Collection[str]
) -> Iterator[Measured]:
    """Yield the cells of a run with the requested figures."""
    for cell in cells:
        yield measured_cell(run, cell, trials.get(cell.id, ()), rule, columns)


def measured_cell(run: str, cell: CellRow, trials: Sequence[Trial], rule: Rule, columns: Collection[str]) -> Measured:
    """Return one cell. Its trials are in order of rounds."""
    found = [(one, figures) for one in trials if (figures := one.counted)]
    values: dict[str, dict[int, float]] = {}
    for trial, figures in found:
        for column in columns:
            value = _noted(trial, column) if column in _NOTED else _figure(figures, column)
            if value is not None:
                values.setdefault(column, {})[trial.round] = value
    rates = [figures.total_bw for _, figures in found]
    lost = [lost_share(note) for one, _ in found if (note := one.notes.get(HOST_LIMITED))]
    stopped = stop_reason(rates, len(trials), rule)
    return Measured(run, cell, values, rule, stopped, len(found), len(lost), sum(lost) / max(1, len(found)))


def _figure(figures: Figures, column: str) -> float | None:
    side, _, name = column.partition("_")
    direction = figures.read if side == "read" else figures.write
    value: float | None = getattr(direction, name) if direction else None
    return value


def _noted(trial: Trial, column: str) -> float | None:
    """Return a number from the notes of a trial."""
    text = trial.notes.get(column)
    return float(text) if text else None
