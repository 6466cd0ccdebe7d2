"""`trials.csv`, one row per trial, and `summary.csv`, one row per cell, with the meaning of each column."""

import csv
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from runner.language.metrics import TOTAL
from runner.reports.run_data import LATENCIES, METRICS, CellSummary, RunData
from runner.reports.table import BOOLS, estimate_values
from runner.results.fio_output import PERCENTILES, Figures
from runner.results.record import CellRow, Outcome, Trial
from runner.statistics.percentile import needs


class Column(NamedTuple):
    name: str
    unit: str
    meaning: str


IDENTITY = (
    Column("cell", "", "stable id of the cell: a hash of everything it resolves to"),
    Column("name", "", "readable name of the cell; also its folder below `cells/`"),
)
_PLACE = (
    Column("machine", "", "where the trials ran"),
    Column("synthetic", "true/false", "true: the dry machine invented the numbers"),
)
#: Placeholder for the axes, one column each.
AXES = Column("*axis*", "", "one column per axis, by its full name (`md.chunk`); empty if the cell has no such axis")

_LATENCIES = (
    "mean latency of a request, from its submission to its completion",
    "median of the same latency",
    "its 90th percentile",
    "its 95th percentile",
    "its 99th percentile",
    "its 99.9th percentile; empty below 10,000 requests",
    "its 99.99th percentile; empty below 100,000 requests",
    "the longest",
)


def _latencies(side: str) -> Iterable[Column]:
    return (Column(f"{side}_{name}", "ns", meaning) for name, meaning in zip(LATENCIES, _LATENCIES, strict=True))


TRIAL_HEAD = (
    *IDENTITY,
    Column("trial", "", "repetition: the round of the trial; with `cell`, its identity"),
    Column("outcome", "", "`measured`, `broken` (the harness or the set-up failed) or `skipped`"),
    Column("reason", "", "why it is broken or skipped"),
    *_PLACE,
)
TRIAL_FIGURES = (
    Column("read_bw", "bytes/s", "read bandwidth; empty without reads"),
    Column("write_bw", "bytes/s", "write bandwidth; empty without writes"),
    Column("read_iops", "1/s", "read requests completed per second"),
    Column("write_iops", "1/s", "write requests completed per second"),
    *_latencies("read"),
    *_latencies("write"),
    Column("read_ios", "", "read requests that these figures rest on; figures of fewer than 10 are unreliable"),
    Column("write_ios", "", "write requests that these figures rest on"),
    Column("read_bytes", "bytes", "bytes read"),
    Column("write_bytes", "bytes", "bytes written"),
    Column("runtime", "s", "fio's own run time"),
    Column("cpu_usr", "%", "CPU time of fio in user mode"),
    Column("cpu_sys", "%", "CPU time of fio in the kernel"),
    Column("errors", "", "I/O errors after which the job was set to continue"),
)
TRIAL_TAIL = (
    Column("evenness", "", "bytes of the least used disk, as a part of those of the most used; 1: equal use"),
    Column("iowait", "", "share of the time of all processors in which they only waited for I/O"),
    Column("bottleneck", "", "what limited the work, judged by the counters of the trial, and the evidence"),
    Column(
        "host_limited_share",
        "",
        "share of the I/O time lost because the host was too slow for simulated disks; empty without simulated disks",
    ),
    Column(
        "host_limited", "", "the host could not keep up with simulated disks: by how much, and why; empty if it could"
    ),
    Column(
        "unsettled",
        "",
        "the wanted steady state was not reached, and by how much; the figures of the cell exclude this trial; else "
        "empty",
    ),
    Column("seconds", "s", "wall time of the trial with all attempts, without building the stack"),
    Column("attempts", "", "number of attempts; more than one: a rig was lost, or `--retry-broken` was used"),
    Column("started", "ISO 8601, UTC", "start of the trial"),
    Column("notes", "", "notes of the set-up and the trial, as `name: text`, joined by `; `"),
    Column("folder", "", "folder of its scripts and raw outputs, relative to the run"),
)
TRIALS = (*TRIAL_HEAD, AXES, *TRIAL_FIGURES, *TRIAL_TAIL)


def _few(percent: float) -> str:
    return f"; empty below {needs(percent):,}" if needs(percent) > 1 else ""


SUMMARY_HEAD = (
    *IDENTITY,
    Column("measured", "", "number of measured trials"),
    Column("broken", "", "number of broken trials"),
    Column("skipped", "", "number of skipped trials"),
    Column("reason", "", "why trials are broken or skipped, each reason once, joined by `; `"),
    Column(
        "least_ios",
        "",
        "fewest requests, of reads or writes, in a measured trial; figures of fewer than 10 are unreliable",
    ),
    Column("host_limited", "", "measured trials in which the host could not keep up with simulated disks"),
    Column("unsettled", "", "measured trials that did not reach the wanted steady state; figures exclude them"),
    Column(
        "until", "", "half width that `until:` asks for, as a part of the mean (0.05: ± 5 %); empty without `until:`"
    ),
    Column(
        "reached",
        "true/false",
        "whether the interval of the total bandwidth is that narrow; stopping needs more (`stopped`); empty "
        "without `until` or figures",
    ),
    Column(
        "stopped",
        "",
        "why no more trials follow: `fixed` (a fixed number was wanted), `precise` (`until` is reached), "
        "`max` (`until` is not surely reached after the maximum of trials), "
        "`budget` (`until` is not surely reached, and the budget is spent), "
        "`decided` (guidelines are decided: `--until-decided`), `unfinished` (more trials follow)",
    ),
    Column(
        "states",
        "bytes/s",
        "bandwidths whose trials (8 and more) fall into two separate groups, which a mean hides: the number of trials "
        "around each value; else empty",
    ),
    *_PLACE,
)
_SUMMARISED = {
    "bw": ("bytes/s", "mean over trials of bandwidth"),
    "iops": ("1/s", "mean over trials of requests per second"),
    "lat_mean": ("ns", "mean over trials of mean latency"),
    **{
        name: ("ns", f"{percent:g} % of the requests of all trials took at most this long{_few(percent)}")
        for name, percent in PERCENTILES.items()
    },
}


def _estimate_columns(metric: str) -> Iterable[Column]:
    side, measure = metric.split("_", 1)
    unit, what = _SUMMARISED[measure]
    yield Column(metric, unit, f"{'reading and writing together' if side == TOTAL else side}: {what}")
    yield Column(f"{metric}_low", unit, "lower bound of its confidence interval, at least 0; empty for a single trial")
    unknown = "; empty, as `_rel`, if the longest request may be below it" if measure in PERCENTILES else ""
    yield Column(f"{metric}_high", unit, f"upper bound of its confidence interval; empty for a single trial{unknown}")
    yield Column(f"{metric}_rel", "", "half width of the interval as a part of it (0.05: ± 5 %)")


SUMMARY_FIGURES = tuple(column for metric in METRICS for column in _estimate_columns(metric))
SUMMARY = (*SUMMARY_HEAD, AXES, Column("confidence", "", "confidence of the intervals (0.95)"), *SUMMARY_FIGURES)


def markdown(columns: Iterable[Column]) -> str:
    rows = [f"| `{name}` | {unit} | {meaning} |" for name, unit, meaning in columns]
    return "\n".join(["| column | unit | meaning |", "| --- | --- | --- |", *rows]) + "\n"


_direction_values = attrgetter("bw", "iops", *LATENCIES, "ios", "bytes")
_NO_DIRECTION = (None,) * (len(LATENCIES) + 4)
_NOTES = ("evenness", "iowait", "bottleneck", "host_limited_share", "host_limited", "unsettled")
_NO_FIGURES = (None,) * len(TRIAL_FIGURES)


def trials_csv(recorded: RunData) -> str:
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, BOOLS[recorded.synthetic])
    rows = (
        _trial_row(cell, trial, shared, places)
        for cell in recorded.cells
        for places in ([cell.axes.get(axis, "") for axis in axes],)
        for trial in recorded.by_cell[cell.id]
    )
    return _table(_header(TRIAL_HEAD, axes, (*TRIAL_FIGURES, *TRIAL_TAIL), TRIALS), rows)


def summary_csv(recorded: RunData) -> str:
    axes = axis_names(recorded.cells)
    shared = (recorded.machine, BOOLS[recorded.synthetic])
    rows = (_summary_row(one, shared, axes, recorded.confidence, recorded.until) for one in recorded.summaries)
    return _table(_header(SUMMARY_HEAD, axes, SUMMARY[len(SUMMARY_HEAD) + 1 :], SUMMARY), rows)


def axis_names(cells: Iterable[CellRow]) -> list[str]:
    return list(dict.fromkeys(axis for cell in cells for axis in cell.axes))


def _header(before: Iterable[Column], axes: Iterable[str], after: Iterable[Column], all_: Iterable[Any]) -> list[str]:
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
    read, write = (_direction_values(side) if side else _NO_DIRECTION for side in (figures.read, figures.write))
    rest = (figures.runtime, figures.cpu_usr, figures.cpu_sys, figures.errors)
    sums = (read[-2], write[-2], read[-1], write[-1])
    return (read[0], write[0], read[1], write[1], *read[2:-2], *write[2:-2], *sums, *rest)


def _summary_row(
    summary: CellSummary, shared: tuple[str, str], axes: Iterable[str], confidence: float, until: float | None
) -> list[Any]:
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
        *(summary.cell.axes.get(axis, "") for axis in axes),
        confidence,
        *(value for metric in METRICS for value in estimate_values(summary.figures.get(metric))),
    ]


class _Lines(list[str]):
    """Collects rows. The writer ends them with CR LF, because only then it quotes a lone CR inside a field."""

    def write(self, row: str) -> None:
        self.append(row[:-2])


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows(rows)
    return "\n".join(lines) + "\n"
