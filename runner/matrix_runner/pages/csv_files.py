"""`trials.csv`, `jobs.csv` (a row for each job), `summary.csv` and `found.csv`, with the meaning of each column.

plain_csv.py writes the same rows for large runs: change both.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from matrix_runner.answers.cell_figures import METRICS, CellFigures
from matrix_runner.base.text import without_formula
from matrix_runner.pages.knees import knee_values
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.table import BOOLS, estimate_values
from matrix_runner.records.record import LOSSES, UNMEASURED, CellRow, Outcome, Trial
from matrix_runner.statistics.percentile import needs
from matrix_runner.work.fio.output import Figures
from matrix_runner.work.metrics import (
    FLUSH,
    OF_A_REBUILD,
    OF_A_SIDE,
    OF_A_TRIAL,
    OF_DIRECTION,
    OF_FLUSH,
    OF_TRIAL,
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
    Column("iowait", "", "share of processor time in which processors were idle because of I/O (0.2: 20 %)"),
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
        "are done; with `find:`: the search has ended); "
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


def _estimate_columns(metric: str) -> Iterable[Column]:
    side, measure = metric.split("_", 1)
    unit, what = _SUMMARISED[measure]
    of = _OF.get(side, side)
    if side == SYNC:
        of = _SYNCED if measure in OF_FLUSH else _REBUILD
    yield Column(metric, unit, f"{of}: {what}")
    yield Column(f"{metric}_low", unit, "lower bound of its confidence interval, at least 0; empty for a single trial")
    unknown = _UNKNOWN if measure in PERCENTILES else ""
    yield Column(f"{metric}_high", unit, f"upper bound of its confidence interval; empty for a single trial{unknown}")
    yield Column(f"{metric}_rel", "", "half width of the interval, relative to the figure (0.05: ± 5 %)")


SUMMARY_FIGURES = tuple(column for metric in METRICS for column in _estimate_columns(metric))
SUMMARY = (*SUMMARY_HEAD, AXES, Column("confidence", "", "confidence of the intervals (0.95)"), *SUMMARY_FIGURES)


FOUND_HEAD = (
    Column("search", "", "name of the cells without the searched axis"),
    *_PLACE,
    Column("axis", "", "the searched axis"),
    Column("while", "", "the limit of the latency"),
    Column("metric", "", "the figure of the work"),
    Column("unit", "", "its unit"),
    Column(
        "found",
        "",
        "where the limit lies: `between` two values; `above` the largest or `below` the smallest one; or `unknown`: "
        "the search did not end, or its trials have too few figures",
    ),
    Column(
        "work",
        "unit",
        "the work at the limit, interpolated between the two values; if `above` or `below`, the work at that value",
    ),
    Column("work_low", "unit", "lower bound of its confidence interval; empty for a single trial"),
    Column("work_high", "unit", "upper bound of its confidence interval; empty for a single trial"),
    Column("work_rel", "", "half width of the interval, relative to the figure (0.05: ± 5 %)"),
    Column("within", "", "the largest value within the limit"),
    Column("beyond", "", "the smallest value beyond the limit"),
    Column("trials", "", "number of trials of the search"),
)
FOUND = (*FOUND_HEAD, AXES)


def markdown(columns: Iterable[Column]) -> str:
    rows = [f"| `{name}` | {unit} | {meaning} |" for name, unit, meaning in columns]
    return "\n".join(["| column | unit | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def trials_header(axes: Iterable[str]) -> list[str]:
    return _header(TRIAL_HEAD, axes, (*TRIAL_FIGURES, *TRIAL_TAIL, *TRIAL_SYNCS, *TRIAL_FACTS), TRIALS)


def jobs_header(axes: Iterable[str]) -> list[str]:
    return _header((JOB, *TRIAL_HEAD), axes, (*TRIAL_FIGURES, *TRIAL_TAIL, *TRIAL_SYNCS, *TRIAL_FACTS), JOBS)


def summary_header(axes: Iterable[str]) -> list[str]:
    return _header(SUMMARY_HEAD, axes, SUMMARY[len(SUMMARY_HEAD) + 1 :], SUMMARY)


_values_of_side, _NO_SIDE = attrgetter(*OF_DIRECTION), (None,) * len(OF_DIRECTION)
_values_of_trial = attrgetter(*OF_TRIAL)
_BY_SIDE = [f"{side}_{name}" for side in SIDES for name in OF_DIRECTION]
_in_order = itemgetter(*(_BY_SIDE.index(column.name) for column in _SIDE_FIGURES))
NOTES = ("evenness", "iowait", "bottleneck", "host_limited_share", "host_limited", "unsettled", "slow", "host")
_NO_FIGURES = (None,) * len(TRIAL_FIGURES)
_facts_of = attrgetter(*(column.name for column in TRIAL_FACTS))
_sync_values, _NO_SYNCS = attrgetter(*(one.name for one in _OF_SYNCS)), (None,) * len(TRIAL_SYNCS)


def trials_csv(recorded: RunData) -> Iterator[str]:
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, BOOLS[recorded.synthetic])
    rows = (
        _trial_row(cell, trial, shared, places)
        for cell in recorded.cells
        for places in (places_of(cell, axes),)
        for trial in recorded.by_cell[cell.id]
    )
    return as_lines(chain([trials_header(axes)], rows))


def jobs_csv(recorded: RunData) -> str:
    """Return the table of trials with a row for each job; empty if no trial has several jobs."""
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, BOOLS[recorded.synthetic])
    rows = [
        row
        for cell in recorded.cells
        for row in job_rows(cell, recorded.by_cell[cell.id], shared, places_of(cell, axes))
    ]
    return "".join(as_lines([jobs_header(axes), *rows])) if rows else ""


def job_rows(
    cell: CellRow, trials: Iterable[Trial], shared: tuple[str, str], places: Sequence[str]
) -> Iterator[list[Any]]:
    for trial in trials:
        for name, figures in (trial.figures.jobs if trial.figures else {}).items():
            yield [name, *_trial_row(cell, replace(trial, figures=figures), shared, places)]


def summary_csv(recorded: RunData) -> Iterator[str]:
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, BOOLS[recorded.synthetic])
    rows = (
        summary_row(one, shared, places_of(one.cell, axes), recorded.confidence, recorded.until)
        for one in recorded.summaries
    )
    return as_lines(chain([summary_header(axes)], rows))


def found_csv(recorded: RunData) -> str:
    """Return a row for each search."""
    axes = axis_names(cell for one in recorded.knees for cell in one.search.cells)
    axes = [axis for axis in axes if any(axis in one.search.axes for one in recorded.knees)]
    rows = [
        [name, recorded.machine, BOOLS[recorded.synthetic], *values, *(one.search.axes.get(axis, "") for axis in axes)]
        for one in recorded.knees
        for name, *values in (knee_values(one).values(),)
    ]
    return "".join(as_lines([_header(FOUND_HEAD, axes, (), FOUND), *rows])) if rows else ""


def axis_names(cells: Iterable[CellRow]) -> list[str]:
    return list(dict.fromkeys(axis for cell in cells for axis in cell.axes))


def places_of(cell: CellRow, axes: Iterable[str]) -> list[str]:
    return [cell.axes.get(axis, "") for axis in axes]


def _header(before: Iterable[Column], axes: Iterable[str], after: Iterable[Column], all_: Iterable[Any]) -> list[str]:
    """Return the column names; an axis with the name of another column gets the prefix `axis.`."""
    taken = {column.name for column in all_}
    named = [f"axis.{axis}" if axis in taken else axis for axis in axes]
    return [*(column.name for column in before), *named, *(column.name for column in after)]


def _trial_row(cell: CellRow, trial: Trial, shared: tuple[str, str], places: Sequence[str]) -> list[Any]:
    return [
        *(cell.id, cell.name, trial.round, trial.outcome.value, trial.reason),
        *shared,
        *places,
        *(_figures(trial.figures) if trial.figures else _NO_FIGURES),
        *(trial.notes.get(note, "") for note in NOTES),
        *(trial.seconds, trial.attempts, trial.started),
        "; ".join(f"{name}: {text}" for name, text in trial.notes.items()),
        trial.folder,
        *(_sync_values(trial.figures.sync) if trial.figures and trial.figures.sync else _NO_SYNCS),
        *fact_fields(*_facts_of(trial.facts)),
    ]


def fact_fields(saturated: bool, *losses: float | None) -> list[str]:
    return [BOOLS[saturated], *("" if share is None else f"{share:.3f}" for share in losses)]


def _figures(figures: Figures) -> tuple[Any, ...]:
    found = map(figures.sides.get, SIDES)
    by_side = tuple(chain.from_iterable(_values_of_side(side) if side else _NO_SIDE for side in found))
    rebuild = [getattr(figures.rebuild, one.name, None) for one in _REBUILD_FIGURES]
    return (*_in_order(by_side), *_values_of_trial(figures), *rebuild)


def summary_row(
    summary: CellFigures, shared: tuple[str, str], places: Iterable[str], confidence: float, until: float | None
) -> list[Any]:
    figures: list[Any] = [None] * 4 * len(METRICS)
    for name, estimate in summary.figures.items():
        at = 4 * _PLACES[name]
        figures[at : at + 4] = estimate_values(estimate)
    states = "; ".join(
        f"{name}: {one.n_low} around {one.low:.0f}, {one.n_high} around {one.high:.0f}"
        for name, one in summary.states.items()
    )
    return [
        *(summary.cell.id, summary.cell.name),
        *(summary.counts.get(outcome, 0) for outcome in Outcome),
        "; ".join(summary.reasons),
        *(summary.least_ios, summary.host_limited, summary.unsettled),
        *(until, BOOLS.get(summary.reaches(until)), str(summary.stopped), states),
        *shared,
        *places,
        confidence,
        *figures,
    ]


_PLACES = {metric: at for at, metric in enumerate(METRICS)}


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


def as_lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield lines: the whole text of a large run would need much memory."""
    return (f"{as_fields(row)}\n" for row in rows)
