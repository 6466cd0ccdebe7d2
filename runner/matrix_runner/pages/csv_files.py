"""The columns and lines of `trials.csv`, `jobs.csv` (a row for each job), `summary.csv` and `found.csv`.

Lines come from trials or from plain rows of a journal.
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
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.table import BOOLS, estimate_values
from matrix_runner.pages.verdicts import knee_values
from matrix_runner.records.record import LOSSES, UNMEASURED, CellRow, Outcome, Trial
from matrix_runner.records.rows import notes_of, row_of
from matrix_runner.statistics.percentile import needs
from matrix_runner.statistics.stopping import stop_reason
from matrix_runner.work.metrics import (
    COSTS,
    FLUSH,
    OF_A_REBUILD,
    OF_A_SIDE,
    OF_A_TRIAL,
    OF_FLUSH,
    OF_SYNC,
    PERCENTILES,
    RATES,
    SIDES,
    SYNC,
    TOTAL,
    Figure,
)


class Column(NamedTuple):
    name: str
    unit: str
    meaning: str


IDENTITY = (
    Column("cell", "", "id of the cell: a hash of its content (disks, stack, tunables, workload …), equal in all runs"),
    Column("name", "", "readable name of the cell; also its folder below `cells/`"),
)
_PLACE = (
    Column("machine", "", "where the trials ran"),
    Column("synthetic", "true/false", "true: the dry machine invented the figures"),
)
#: Placeholder for the axes, one column each.
AXES = Column("AXIS", "", "one column per axis, by its full name (`md.chunk`); empty if the cell has no such axis")


def _one_of(names: Iterable[str]) -> str:
    *several, last = names
    return f"{', '.join(several)} or {last}"


#: Words on a side for the meanings of its figures.
_WORDS = {
    "read": {"side": "read", "requests": "read requests", "bandwidth": "read bandwidth", "done": "read"},
    "write": {"side": "write", "requests": "write requests", "bandwidth": "write bandwidth", "done": "written"},
    "trim": {"side": "trim", "requests": "trims", "bandwidth": "bandwidth of trims (discards)", "done": "trimmed"},
    FLUSH: {"side": "sync (fsync or fdatasync)", "requests": "fsyncs and fdatasyncs"},
}


def _column(side: str, figure: Figure) -> Column:
    words = {"them": f"{side}s", **_WORDS[side]}
    return Column(f"{side}_{figure.name}", figure.unit, figure.meaning.format_map(words))


TRIAL_HEAD = (
    *IDENTITY,
    Column("trial", "", "number of the round; `cell` and `trial` together identify a trial"),
    Column(
        "outcome",
        "",
        _one_of(f"`{one}`{f' ({one.about.brief})' if one.about.brief else ''}" for one in Outcome),
    ),
    Column("reason", "", f"why it is {_one_of(UNMEASURED)}"),
    *_PLACE,
)
_LATENCIES = [one for one in OF_A_SIDE if one.unit == "ns"]
_RATES = [one for one in OF_A_SIDE if one.name in RATES]
_AMOUNTS = sorted((one for one in OF_A_SIDE if not one.better), key=lambda one: one.unit)  # requests, then bytes
_SIDE_FIGURES = (
    *(_column(side, one) for one in _RATES for side in SIDES),
    *(_column(side, one) for side in SIDES for one in _LATENCIES),
    *(_column(side, one) for one in _AMOUNTS for side in SIDES),
)
_REBUILD_FIGURES = tuple(reversed(OF_A_REBUILD))
TRIAL_FIGURES = (
    *_SIDE_FIGURES,
    *(Column(one.name, one.unit, one.meaning) for one in OF_A_TRIAL),
    *(Column(f"{SYNC}_{one.name}", one.unit, one.meaning) for one in _REBUILD_FIGURES),
)
TRIAL_TAIL = (
    Column(
        "evenness",
        "",
        "how evenly the disks are used: bytes of the least used disk divided by bytes of the most used; 1: equal",
    ),
    Column(
        "iowait",
        "",
        "share of processor time in which processors waited for I/O (0.2: 20 %); empty in slow motion",
    ),
    Column("bottleneck", "", "what limited the speed, by the kernel counters of the trial, with the evidence"),
    Column(
        "host_limited_share",
        "",
        "share of the I/O time that was lost because the host was too slow or too busy (0.05: 5 %); without simulated "
        "disks: the share of the processors that other work used, if it was too large, else empty",
    ),
    Column("host_limited", "", "if the host was too slow or too busy: by how much, and why; else empty"),
    Column(
        "unsettled",
        "",
        "if the trial did not become steady: by how much; the figures of the cell exclude it; else empty",
    ),
    Column("slow", "", "factor of slow motion; figures are as without it; empty without slow motion"),
    Column("host", "", "host of a cluster that measured it; empty if the run used no cluster"),
    Column("seconds", "s", "time from start to end of the trial, with all attempts, without building the stack"),
    Column("attempts", "", "number of attempts; 2 or more if a rig was lost or `--retry-broken` was used"),
    Column("started", "ISO 8601, UTC", "start of the trial"),
    Column("notes", "", "notes of the set-up and the trial, as `name: text`, joined by `; `"),
    Column("folder", "", "folder of its scripts and raw outputs, inside of the run folder"),
)
_OF_SYNCS = [one for one in (*_RATES, *_AMOUNTS, *_LATENCIES) if not one.is_of_data]
TRIAL_SYNCS = tuple(_column(FLUSH, one) for one in _OF_SYNCS)
TRIAL_FACTS = (
    Column("saturated", "true/false", "true: a replay fell behind its trace, because the disks could not keep up"),
    Column("lost", "", "if it is host-limited: the share of the time that it lost (0.05: 5 %); else empty"),
    *(Column(f"lost_{name}", "", f"share of the time that was lost: {one.meaning}") for name, one in LOSSES.items()),
    *(Column(one.name, one.unit, f"{one.meaning}; empty if it was not counted") for one in COSTS),
)
TRIALS = (*TRIAL_HEAD, AXES, *TRIAL_FIGURES, *TRIAL_TAIL, *TRIAL_SYNCS, *TRIAL_FACTS)
JOB = Column("job", "", "name of the job; jobs with one name count together")
JOBS = (JOB, *TRIALS)


def _few(percent: float) -> str:
    return f"; empty below {needs(percent):,} requests" if needs(percent) > 1 else ""


SUMMARY_HEAD = (
    *IDENTITY,
    *(Column(one, "", f"number of {one} trials{f': {one.about.brief}' if one.about.brief else ''}") for one in Outcome),
    Column("reason", "", f"why trials are {_one_of(UNMEASURED)}, each reason once, joined by `; `"),
    Column(
        "least_ios",
        "",
        "smallest number of reads or of writes in a measured trial; below 10, the figures are unreliable",
    ),
    Column("host_limited", "", "number of host-limited trials: the host was too slow or too busy"),
    Column("unsettled", "", "number of trials that did not become steady; the figures exclude them"),
    Column(
        "until", "", "the wanted half width of the interval, relative to the mean (0.05: ± 5 %); empty without `until:`"
    ),
    Column(
        "reached",
        "true/false",
        "true: the interval of the total bandwidth is that narrow; the cell may still need more rounds "
        "(`stopped`); empty without `until:` or figures",
    ),
    Column(
        "stopped",
        "",
        "why the cell gets no more trials: `fixed` (`repeat:` is one number), `precise` (`until:` is reached), "
        "`max` (`max:` trials are done, and it is not certain that `until:` is reached), "
        "`budget` (the budget is used up, and it is not certain that `until:` is reached), "
        "`decided` (with `--until-decided`: no guideline needs more trials of it, the budget is used up, or 200 trials "
        "are done; with `--race`: it cannot be the best, or that is decided; with `find:`: the search has ended); "
        "or `unfinished` (it gets more trials)",
    ),
    Column(
        "states",
        "bytes/s or ns",
        "if the bandwidths or p99 of the trials (8 or more) fall into two separate groups, so that the mean is "
        "misleading: the number of trials around each value; else empty",
    ),
    *_PLACE,
)
_SUMMARISED = {
    one.name: (
        one.unit,
        one.mean or f"{one.percent:g} % of the requests of all trials took at most this long{_few(one.percent or 0)}",
    )
    for one in (*OF_A_REBUILD, *OF_A_SIDE)
    if one.is_summarised
}


_UNKNOWN = "; also empty, and `_rel` too, if it may lie above the longest measured latency"
_OF = {TOTAL: "reads, writes and trims together"}
_REBUILD, _SYNCED = "rebuild, resync, check or repair", "fsync and fdatasync"


def _with_interval(figure: Column, least: str = "", unknown: str = "") -> Iterable[Column]:
    name, unit, _ = figure
    yield figure
    yield Column(f"{name}_low", unit, f"lower bound of its confidence interval{least}; empty for a single trial")
    yield Column(f"{name}_high", unit, f"upper bound of its confidence interval; empty for a single trial{unknown}")
    yield Column(f"{name}_rel", "", "half width of the interval, relative to the figure (0.05: ± 5 %)")


def _estimate_columns(metric: str) -> Iterable[Column]:
    side, measure = metric.split("_", 1)
    unit, what = _SUMMARISED[measure]
    of = _OF.get(side, side)
    if side == SYNC:
        of = _SYNCED if measure in OF_FLUSH else _REBUILD
    unknown = _UNKNOWN if measure in PERCENTILES else ""
    return _with_interval(Column(metric, unit, f"{of}: {what}"), ", at least 0", unknown)


SUMMARY_FIGURES = tuple(column for metric in METRICS for column in _estimate_columns(metric))
SUMMARY = (*SUMMARY_HEAD, AXES, Column("confidence", "", "confidence of the intervals (0.95)"), *SUMMARY_FIGURES)


_AT_THE_LIMIT = (
    "the work at the limit, interpolated between the two values; if `above` or `below`, the work at that value"
)
FOUND_HEAD = (
    Column("search", "", "name of the cells without the searched axis"),
    *_PLACE,
    Column("axis", "", "the searched axis"),
    Column("while", "", "the limit of the latency; empty: the best value is searched"),
    Column("metric", "", "the figure of the work"),
    Column("unit", "", "its unit"),
    Column(
        "found",
        "",
        "where the limit lies: `between` two values; `above` the largest or `below` the smallest one. Without a limit: "
        "`best`, a value is within `practical:` of the best; `perhaps`, this is not decided. `unknown`: the search did "
        "not end, or its trials have too few figures",
    ),
    *_with_interval(Column("work", "unit", _AT_THE_LIMIT)),
    Column(
        "within", "", "the largest value within the limit; without one, the smallest within `practical:` of the best"
    ),
    Column("beyond", "", "the smallest value beyond the limit; without one, the best that was tried"),
    Column("trials", "", "number of trials of the search"),
    Column("keeps_default", "", "`true`: the default is within `practical:` of the best; empty: it is not compared"),
    Column("memory", "bytes", "memory that the value `within` takes, as far as known"),
)
FOUND = (*FOUND_HEAD, AXES)


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
    saturated, losses, costs = values[0], values[1 : -len(COSTS)], values[-len(COSTS) :]
    return as_fields([BOOLS[saturated], *("" if share is None else f"{share:.3f}" for share in losses), *costs])


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
