"""The lines of `trials.csv`, `jobs.csv`, `summary.csv` and `found.csv`, from trials or from plain rows of a journal.

The figures of a row become text once for both files, and so do the parts that many lines share.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from matrix_runner.answers.axes import names_of
from matrix_runner.answers.cell_figures import METRICS, CellFigures
from matrix_runner.base.text import without_formula
from matrix_runner.pages.csv_columns import (
    AXES,
    FOUND,
    JOBS,
    SUMMARY,
    TRIAL_FACTS,
    TRIAL_FIGURES,
    TRIAL_SYNCS,
    TRIALS,
    Column,
)
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.table import BOOLS, estimate_values
from matrix_runner.pages.verdicts import knee_values
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.rows import notes_of, row_of
from matrix_runner.statistics.stopping import stop_reason
from matrix_runner.work.metrics import OF_SYNC, RATES, SIDES, SYNC, TOTAL

_HEAD, _TAIL = ("cell", "round", "outcome", "reason"), ("seconds", "attempts", "started", "folder", "notes")
_FIGURES, _SYNCS, _FACTS = ([one.name for one in columns] for columns in (TRIAL_FIGURES, TRIAL_SYNCS, TRIAL_FACTS))
#: The columns of a row: those of the journal.
COLUMNS = (*_HEAD, *_FIGURES, *_SYNCS, *_TAIL, *_FACTS, "settled", "slow", "host")
Row = tuple[Any, ...]
AT = {name: at for at, name in enumerate(COLUMNS)}
_FIRST, _SYNC_AT = len(_HEAD), len(_HEAD) + len(_FIGURES)
_LAST = _SYNC_AT + len(_SYNCS)
_NOTES, _FACTS_AT = AT["notes"], slice(AT[_FACTS[0]], AT[_FACTS[-1]] + 1)
_NO_SYNCS = "," * (len(_SYNCS) - 1)
#: Notes with a column of their own.
_NOTED = ("evenness", "iowait", "bottleneck", "host_limited_share", "host_limited", "unsettled", "slow", "host")
_bws_of, _iops_of = (itemgetter(*(AT[f"{side}_{rate}"] for side in SIDES)) for rate in RATES)
_counts_of = itemgetter(*(AT[f"{side}_ios"] for side in SIDES))
_PLACES = {metric: at for at, metric in enumerate(METRICS)}
_summarised = itemgetter(*map((*_FIGURES, *(f"{TOTAL}_{rate}" for rate in RATES), *_SYNCS).index, METRICS))
_NO_INTERVAL = "," * 3  # a mean without its bounds
_SYNC_BW = AT[f"{SYNC}_{next(iter(OF_SYNC))}"]
#: The counts of a cell with a single trial that counts, by its outcome.
_COUNTS = {one.value: ",".join("1" if other is one else "0" for other in Outcome) for one in Outcome if one.counts}
_doubts_of, _NO_DOUBT = itemgetter(*(AT[name] for name in ("settled", "slow", "saturated", "lost"))), (1, 1, 0, None)


class Place(NamedTuple):
    """The text of what all lines of a cell have."""

    identity: str
    axes: str  # with the machine before them


class Lines:
    """Makes the lines of a run. `cells`: all that have lines, by which columns of axes follow."""

    def __init__(self, recorded: RunData, cells: Iterable[CellRow]) -> None:
        self._shared = (recorded.machine, BOOLS[recorded.synthetic])
        self._confidence, self._until, self._rule = recorded.confidence, recorded.until, recorded.rule
        self._axes = names_of(cell.axes for cell in cells)

    def head(self, columns: Sequence[Column]) -> str:
        return _head(columns, self._axes)

    def place_of(self, cell: CellRow) -> Place:
        axes = [cell.axes.get(axis, "") for axis in self._axes]
        return Place(as_fields((cell.id, cell.name)), as_fields((*self._shared, *axes)))

    def of_trial(self, place: Place, row: Row, figures: str) -> str:
        columns, noted = _noted(row[_NOTES])
        seconds, attempts, started, folder = row[_LAST:_NOTES]
        outcome, tail = as_fields(row[1:_FIRST]), as_fields((seconds, attempts, started, noted, folder))
        rest = f"{columns},{tail},{_syncs_of(row)},{_facts(row[_FACTS_AT])}"
        return f"{place.identity},{outcome},{place.axes},{figures},{rest}\n"

    def of_trials(self, cell: CellRow, trials: Iterable[Trial]) -> Iterator[str]:
        place = self.place_of(cell)
        for row in map(_row_of_trial, trials):
            yield self.of_trial(place, row, figures_of(row))

    def of_jobs(self, cell: CellRow, trials: Iterable[Trial]) -> Iterator[str]:
        place = self.place_of(cell)
        for trial in trials:
            for name, figures in (trial.figures.jobs if trial.figures else {}).items():
                row = _row_of_trial(replace(trial, figures=figures))
                of_job = place._replace(identity=as_fields((name, cell.id, cell.name)))
                yield self.of_trial(of_job, row, figures_of(row))

    def of_cell(self, summary: CellFigures) -> str:
        figures: list[Any] = [None] * 4 * len(METRICS)
        for name, estimate in summary.figures.items():
            at = 4 * _PLACES[name]
            figures[at : at + 4] = estimate_values(estimate)
        states = "; ".join(
            f"{name}: {one.n_low} around {one.low:.0f}, {one.n_high} around {one.high:.0f}"
            for name, one in summary.states.items()
        )
        place, reached = self.place_of(summary.cell), BOOLS.get(summary.reaches(self._until))
        counts = [
            *(summary.counts.get(outcome, 0) for outcome in Outcome),
            "; ".join(summary.reasons),
            *(summary.least_ios, summary.host_limited, summary.unsettled),
            *(self._until, reached, str(summary.stopped), states),
        ]
        return f"{place.identity},{as_fields(counts)},{place.axes},{as_fields((self._confidence, *figures))}\n"

    def of_plain_cell(self, place: Place, row: Row, figures: str) -> str:
        """Return the line of a cell with a single trial, which `is_plain`."""
        totals = map(_total, (_bws_of(row), _iops_of(row)))
        means = _summarised((*figures.split(","), *totals, *_syncs_of(row).split(",")))
        stop = as_fields((self._until, BOOLS[self.reaches(row)], str(stop_reason((), 1, self._rule))))
        counts = f"{_COUNTS[row[2]]},,{min(_known(_counts_of(row)), default='')},0,0,{stop},"  # no reason, no states
        estimates = f"{_NO_INTERVAL},".join(means)
        return f"{place.identity},{counts},{place.axes},{self._confidence},{estimates}{_NO_INTERVAL}\n"

    def reaches(self, row: Row) -> bool | None:
        if self._until is None:
            return None
        return False if row[_SYNC_BW] is not None or _known(_bws_of(row)) else None


def is_plain(row: Row) -> bool:
    """Return whether the summary of a cell with this trial alone is the figures of the trial.

    Its percentiles are then those of the trial, which its longest latency limits, and those of a histogram are not.
    """
    if row[2] not in _COUNTS or row[3] or row[AT["runtime"]] is None or _doubts_of(row) != _NO_DOUBT:
        return False
    return all((bw is None) == (iops is None) for bw, iops in zip(_bws_of(row), _iops_of(row), strict=True))


def trials_csv(recorded: RunData) -> Iterator[str]:
    lines = Lines(recorded, recorded.cells)
    yield lines.head(TRIALS)
    for cell in recorded.cells:
        yield from lines.of_trials(cell, recorded.by_cell[cell.id])


def jobs_csv(recorded: RunData) -> str:
    """Return the table of trials with a row for each job; empty if no trial has several jobs."""
    lines = Lines(recorded, recorded.cells)
    rows = [row for cell in recorded.cells for row in lines.of_jobs(cell, recorded.by_cell[cell.id])]
    return "".join((lines.head(JOBS), *rows)) if rows else ""


def summary_csv(recorded: RunData) -> Iterator[str]:
    lines = Lines(recorded, recorded.cells)
    yield lines.head(SUMMARY)
    yield from map(lines.of_cell, recorded.summaries)


def found_csv(recorded: RunData) -> str:
    """Return a row for each search."""
    axes = names_of(cell.axes for one in recorded.knees for cell in one.search.cells)
    axes = [axis for axis in axes if any(axis in one.search.axes for one in recorded.knees)]
    rows = [
        [name, recorded.machine, BOOLS[recorded.synthetic], *values, *(one.search.axes.get(axis, "") for axis in axes)]
        for one in recorded.knees
        for name, *values in (knee_values(one).values(),)
    ]
    return "".join((_head(FOUND, axes), *(f"{as_fields(row)}\n" for row in rows))) if rows else ""


def _head(columns: Sequence[Column], axes: Iterable[str]) -> str:
    """Return the column names; an axis with the name of another column gets the prefix `axis.`."""
    taken = {column.name for column in columns}
    named = [f"axis.{axis}" if axis in taken else axis for axis in axes]
    names = [name for column in columns for name in (named if column is AXES else (column.name,))]
    return f"{as_fields(names)}\n"


def _row_of_trial(trial: Trial) -> Row:
    row = row_of(trial)
    row["notes"] = orjson.dumps(row["notes"]).decode()
    return tuple(map(row.get, COLUMNS))


def figures_of(row: Row) -> str:
    return number_fields(row[_FIRST:_SYNC_AT])


def _syncs_of(row: Row) -> str:
    return _NO_SYNCS if row[_SYNC_AT] is None else number_fields(row[_SYNC_AT:_LAST])


@lru_cache(maxsize=4096)
def _noted(text: str) -> tuple[str, str]:
    """Return the columns of notes, and all notes in one text."""
    notes = notes_of(text)
    return as_fields([*map(notes.get, _NOTED)]), "; ".join(f"{name}: {value}" for name, value in notes.items())


@lru_cache(maxsize=4096)
def _facts(values: tuple[Any, ...]) -> str:
    saturated, *losses, cost = values
    return as_fields([BOOLS[saturated], *("" if share is None else f"{share:.3f}" for share in losses), cost])


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _total(rates: Sequence[float | None]) -> str:
    known = _known(rates)
    return str(sum(known)) if known else ""


_NUMBERS = frozenset((float, int, type(None)))


class _Fields:
    """Makes text of a row. The writer ends it with CR LF, because only then it quotes a lone CR inside a field."""

    def write(self, row: str) -> str:
        return row[:-2]


#: Returns the text of numbers in a row. It is the fastest way.
number_fields: Callable[[Sequence[Any]], str] = csv.writer(_Fields(), lineterminator="\r\n").writerow


def as_fields(row: Sequence[Any]) -> str:
    """Return the text of a row, or of two or more neighbours in it, without the end of the line."""
    # Most values are numbers. To call a function for each would take longer than to write it.
    return number_fields([value if value.__class__ in _NUMBERS else without_formula(value) for value in row])
