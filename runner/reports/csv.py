"""Recorded trials as tidy tables: `trials.csv`, one row per trial, and `summary.csv`, one row per cell.

Columns and units are in `columns.py`. Numbers are written so that reading them gives the same float. Values are escaped
only by the rules of CSV (RFC 4180), so a value may begin with `=`: import files from other people as text.
"""

from __future__ import annotations

import csv
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from runner.reports import columns
from runner.reports.summary import LATENCIES, METRICS
from runner.results.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.reports.run_data import RunData
    from runner.reports.summary import CellSummary
    from runner.results.fio_output import Direction, Figures
    from runner.results.record import CellRow, Trial
    from runner.statistics.changes import States
    from runner.statistics.stopping import Estimate

_direction_values = attrgetter("bw", "iops", *LATENCIES, "ios", "bytes")
_NO_DIRECTION = ("",) * (len(LATENCIES) + 4)
_NOTES = ("evenness", "iowait", "bottleneck", "host_limited_share", "host_limited", "unsettled")
_NO_FIGURES = ("",) * len(columns.TRIAL_FIGURES)


def trials_csv(recorded: RunData) -> str:
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, _format_bool(recorded.synthetic))
    head = _header(columns.TRIAL_HEAD, axes, (*columns.TRIAL_FIGURES, *columns.TRIAL_TAIL), columns.TRIALS)
    return _table(
        head,
        (
            _trial_row(cell, trial, shared, places)
            for cell in recorded.cells
            for places in ([cell.axes.get(axis, "") for axis in axes],)
            for trial in recorded.by_cell[cell.id]
        ),
    )


def summary_csv(recorded: RunData) -> str:
    """Write one row per cell, also for cells without a trial yet."""
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, _format_bool(recorded.synthetic))
    head = _header(columns.SUMMARY_HEAD, axes, columns.SUMMARY[len(columns.SUMMARY_HEAD) + 1 :], columns.SUMMARY)
    until = recorded.until
    rows = (_summary_row(one, shared, axes, recorded.confidence, until) for one in recorded.summaries)
    return _table(head, rows)


def axis_names(cells: Iterable[CellRow]) -> list[str]:
    """Return the axes of all cells, in the order of their first use."""
    return list(dict.fromkeys(axis for cell in cells for axis in cell.axes))


def _header(
    before: Iterable[columns.Column], axes: Iterable[str], after: Iterable[columns.Column], all_: Iterable[Any]
) -> list[str]:
    """Return the column names; an axis with the name of another column gets the prefix `axis.`."""
    taken = {column.name for column in all_}
    named = [f"axis.{axis}" if axis in taken else axis for axis in axes]
    return [*(column.name for column in before), *named, *(column.name for column in after)]


def _trial_row(cell: CellRow, trial: Trial, shared: tuple[str, str], places: list[str]) -> list[Any]:
    return [
        *(cell.id, cell.name, trial.round, trial.outcome.value, trial.reason),
        *shared,
        *places,
        *(_figures(trial.figures) if trial.figures else _NO_FIGURES),
        *(trial.notes.get(note, "") for note in _NOTES),
        *(trial.seconds, trial.attempts, trial.started),
        "; ".join(f"{name}: {text}" for name, text in trial.notes.items()),
        trial.folder,
    ]


def _figures(figures: Figures) -> tuple[Any, ...]:
    read, write = _direction(figures.read), _direction(figures.write)
    rest = (figures.runtime, figures.cpu_usr, figures.cpu_sys, figures.errors)
    sums = (read[-2], write[-2], read[-1], write[-1])
    return (read[0], write[0], read[1], write[1], *read[2:-2], *write[2:-2], *sums, *rest)


def _direction(direction: Direction | None) -> tuple[Any, ...]:
    return _NO_DIRECTION if direction is None else _direction_values(direction)


def _aim(summary: CellSummary, until: float | None) -> tuple[Any, Any]:
    reached = summary.reaches(until)
    return ("" if until is None else until, "" if reached is None else _format_bool(reached))


def _summary_row(
    summary: CellSummary, shared: tuple[str, str], axes: Iterable[str], confidence: float, until: float | None
) -> list[Any]:
    return [
        *(summary.cell.id, summary.cell.name),
        *(summary.counts.get(outcome, 0) for outcome in Outcome),
        "; ".join(summary.reasons),
        "" if summary.least_ios is None else summary.least_ios,
        summary.host_limited,
        summary.unsettled,
        *_aim(summary, until),
        str(summary.stopped),
        _states(summary.states),
        *shared,
        *(summary.cell.axes.get(axis, "") for axis in axes),
        confidence,
        *(value for metric in METRICS for value in _estimate(summary.figures.get(metric))),
    ]


def _estimate(estimate: Estimate | None) -> tuple[Any, ...]:
    if estimate is None:
        return ("", "", "", "")
    figures = (estimate.mean, *estimate.bounds, estimate.relative)
    return tuple("" if value is None else value for value in figures)


def _states(states: Mapping[str, States]) -> str:
    return "; ".join(
        f"{name}: {one.n_low} around {one.low:.0f}, {one.n_high} around {one.high:.0f}" for name, one in states.items()
    )


def _format_bool(value: bool) -> str:
    return "true" if value else "false"


class _Lines(list[str]):
    """Collect rows.

    The writer ends them with CR LF, because only then it quotes a lone CR inside a field.
    """

    def write(self, row: str) -> None:
        self.append(row[:-2])


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows(rows)
    return "\n".join(lines) + "\n"
