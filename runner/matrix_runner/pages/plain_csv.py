"""Lines of trials.csv and summary.csv for large runs, from plain rows of a journal.

csv_files.py makes the same lines from trials: change both. The figures of a row become text once for both files, and
so do the parts that many lines share.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from matrix_runner.answers.cell_figures import METRICS
from matrix_runner.pages.csv_files import (
    NOTES,
    TRIAL_FACTS,
    TRIAL_FIGURES,
    TRIAL_SYNCS,
    as_fields,
    fact_fields,
    number_fields,
    places_of,
)
from matrix_runner.pages.table import BOOLS
from matrix_runner.records.record import CellRow, Outcome
from matrix_runner.records.rows import notes_of
from matrix_runner.statistics.stopping import Rule, stop_reason
from matrix_runner.work.metrics import OF_SYNC, RATES, SIDES, SYNC, TOTAL

_HEAD, _TAIL = ("cell", "round", "outcome", "reason"), ("seconds", "attempts", "started", "folder", "notes")
_FIGURES, _SYNCS = (tuple(column.name for column in columns) for columns in (TRIAL_FIGURES, TRIAL_SYNCS))
#: The columns of a row: those of the journal.
_FACTS, _OTHERS = tuple(column.name for column in TRIAL_FACTS), ("settled", "slow", "host")
COLUMNS = (*_HEAD, *_FIGURES, *_SYNCS, *_TAIL, *_FACTS, *_OTHERS)
Row = tuple[Any, ...]
_AT = {name: at for at, name in enumerate(COLUMNS)}
_SECONDS, _STARTED, _NOTES, _RUNTIME = (_AT[name] for name in ("seconds", "started", "notes", "runtime"))
_FIRST, _SYNC_AT = len(_HEAD), len(_HEAD) + len(_FIGURES)
_LAST = _SYNC_AT + len(_SYNCS)
_NO_SYNCS = "," * (len(_SYNCS) - 1)
_bws_of, _iops_of = (itemgetter(*(_AT[f"{side}_{rate}"] for side in SIDES)) for rate in RATES)
_counts_of = itemgetter(*(_AT[f"{side}_ios"] for side in SIDES))
_TOTALS = tuple(f"{TOTAL}_{rate}" for rate in RATES)
_SUMMARISED = (*_FIGURES, *_TOTALS, *_SYNCS)
_summarised = itemgetter(*map(_SUMMARISED.index, METRICS))
_NO_INTERVAL = "," * 3  # a mean without its bounds
_SYNC_BW = _AT[f"{SYNC}_{next(iter(OF_SYNC))}"]
#: The counts of a cell with a single trial that counts, by its outcome.
_COUNTS = {one.value: ",".join("1" if other is one else "0" for other in Outcome) for one in Outcome if one.counts}
_HOST, _FACTS_AT = _AT["host"], slice(_AT[_FACTS[0]], _AT[_FACTS[-1]] + 1)
_doubts_of, _NO_DOUBT = itemgetter(*(_AT[name] for name in ("settled", "slow", "saturated", "lost"))), (1, 1, 0, None)


class _Noted(NamedTuple):
    columns: str
    joined: str


@lru_cache(maxsize=4096)
def _noted(text: str) -> _Noted:
    notes = notes_of(text)
    joined = "; ".join(f"{name}: {value}" for name, value in notes.items())
    return _Noted(as_fields([*map(notes.get, NOTES)]), joined)


@lru_cache(maxsize=4096)
def _facts(values: tuple[Any, ...]) -> str:
    return as_fields(fact_fields(*values))


def is_plain(row: Row) -> bool:
    """Return whether the summary of a cell with this trial alone is the figures of the trial.

    Its percentiles are then those of the trial, which its longest latency limits, and those of a histogram are not.
    """
    if row[2] not in _COUNTS or row[3] or row[_RUNTIME] is None or _doubts_of(row) != _NO_DOUBT:
        return False
    return all((bw is None) == (iops is None) for bw, iops in zip(_bws_of(row), _iops_of(row), strict=True))


class Place(NamedTuple):
    """The text of what all lines of a cell have."""

    identity: str
    axes: str  # with the machine before them


class PlainLines:
    """Makes lines from rows."""

    def __init__(self, shared: tuple[str, str], confidence: float, until: float | None, rule: Rule) -> None:
        self._shared, self._confidence, self._until, self._rule = shared, confidence, until, rule

    @cached_property
    def _stop(self) -> Mapping[bool | None, str]:
        stopped = str(stop_reason((), 1, self._rule))
        return {reached: as_fields((self._until, text, stopped)) for reached, text in BOOLS.items()}

    def place_of(self, cell: CellRow, axes: Iterable[str]) -> Place:
        return Place(as_fields((cell.id, cell.name)), as_fields((*self._shared, *places_of(cell, axes))))

    def of_trial(self, place: Place, row: Row, figures: str) -> str:
        noted = _noted(row[_NOTES])
        seconds, attempts, started, folder = row[_LAST:_NOTES]
        outcome, tail = as_fields(row[1:_FIRST]), as_fields((seconds, attempts, started, noted.joined, folder))
        rest = f"{noted.columns},{tail},{_syncs_of(row)},{_facts(tuple(row[_FACTS_AT]))}"
        return f"{place.identity},{outcome},{place.axes},{figures},{rest}\n"

    def of_cell(self, place: Place, row: Row, figures: str) -> str:
        """Return the line of a cell with a single trial, which `is_plain`."""
        least_ios = min(_known(_counts_of(row)), default="")
        totals = _total(_bws_of(row)), _total(_iops_of(row))
        means = _summarised((*figures.split(","), *totals, *_syncs_of(row).split(",")))
        figures = f"{_NO_INTERVAL},".join(means)
        stop = self._stop[self.reaches(row)]
        counts = f"{_COUNTS[row[2]]},,{least_ios},0,0,{stop},"  # no reason, no states
        return f"{place.identity},{counts},{place.axes},{self._confidence},{figures}{_NO_INTERVAL}\n"

    def reaches(self, row: Row) -> bool | None:
        if self._until is None:
            return None
        return False if row[_SYNC_BW] is not None or _known(_bws_of(row)) else None


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def figures_of(row: Row) -> str:
    return number_fields(row[_FIRST:_SYNC_AT])


def _syncs_of(row: Row) -> str:
    return _NO_SYNCS if row[_SYNC_AT] is None else number_fields(row[_SYNC_AT:_LAST])


def _total(rates: Sequence[float | None]) -> str:
    known = _known(rates)
    return str(sum(known)) if known else ""


def outcome_of(row: Row) -> Outcome:
    return Outcome(row[2])


def seconds_of(row: Row) -> float:
    return float(row[_SECONDS])


def host_of(row: Row) -> str | None:
    return row[_HOST] or None


def start_of(row: Row) -> str:
    return str(row[_STARTED])
