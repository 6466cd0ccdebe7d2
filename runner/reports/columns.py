"""The columns of the CSV files: name, unit and meaning. `results/README.md` shows these very tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.language.metrics import TOTAL
from runner.reports.summary import LATENCIES, METRICS
from runner.results.fio_json import PERCENTILES
from runner.statistics.percentile import needs

if TYPE_CHECKING:
    from collections.abc import Iterable


class Column(NamedTuple):
    """One column, as it is documented."""

    name: str
    unit: str
    meaning: str


IDENTITY = (
    Column("cell", "", "stable id of the cell: a hash of everything it resolves to"),
    Column("name", "", "readable name of the cell; also its folder below `cells/`"),
)
_PLACE = (
    Column("machine", "", "where the trials ran"),
    Column("synthetic", "true/false", "true: the numbers were invented by a dry run, nothing was measured"),
)
#: Stands for the axes, one column each.
AXES = Column("*axis*", "", "one column per axis, by its full name (`md.chunk`); empty where the cell has no such axis")

_LATENCIES = (
    "mean latency of a request, from its submission to its completion",
    "median of the same latency",
    "its 90th percentile",
    "its 95th percentile",
    "its 99th percentile",
    "its 99.9th percentile; empty of fewer than 10,000 requests",
    "its 99.99th percentile; empty of fewer than 100,000 requests",
    "the longest",
)


def _latencies(side: str) -> Iterable[Column]:
    return (Column(f"{side}_{name}", "ns", meaning) for name, meaning in zip(LATENCIES, _LATENCIES, strict=True))


TRIAL_HEAD = (
    *IDENTITY,
    Column("trial", "", "which repetition: the round it ran in; with `cell`, its identity"),
    Column("outcome", "", "`measured`, `broken` (the harness or the set-up failed) or `skipped`"),
    Column("reason", "", "why it is broken or skipped"),
    *_PLACE,
)
TRIAL_FIGURES = (
    Column("read_bw", "bytes/s", "read bandwidth; empty where nothing was read"),
    Column("write_bw", "bytes/s", "write bandwidth; empty where nothing was written"),
    Column("read_iops", "1/s", "read requests completed per second"),
    Column("write_iops", "1/s", "write requests completed per second"),
    *_latencies("read"),
    *_latencies("write"),
    Column("read_ios", "", "read requests that these figures rest on: of fewer than 10 they say little"),
    Column("write_ios", "", "write requests that these figures rest on"),
    Column("read_bytes", "bytes", "bytes read"),
    Column("write_bytes", "bytes", "bytes written"),
    Column("runtime", "s", "fio's own run time"),
    Column("cpu_usr", "%", "CPU time of fio in user mode"),
    Column("cpu_sys", "%", "CPU time of fio in the kernel"),
    Column("errors", "", "I/O errors that the job was told to carry on after"),
)
TRIAL_TAIL = (
    Column(
        "evenness", "", "bytes that the least used disk moved, as a part of those of the most used; 1: all used alike"
    ),
    Column(
        "iowait", "", "share of their time in which processors had nothing to do but to wait for I/O, of all of them"
    ),
    Column("bottleneck", "", "what held the work back, as far as what was counted beside it tells, and the evidence"),
    Column(
        "host_limited_share",
        "",
        "part of the time of all I/O that was lost to a host too slow for simulated disks; empty if there is none",
    ),
    Column(
        "host_limited", "", "the host could not keep up with simulated disks: by how much, and why; empty if it could"
    ),
    Column(
        "unsettled",
        "",
        "the steady state that was asked for was not attained, and by how much; its figures are not in those of the "
        "cell; empty if it was, or none was asked for",
    ),
    Column("seconds", "s", "wall time of the trial with all its tries, without building the stack"),
    Column(
        "attempts", "", "tries it took; more than one: a machine was lost on the way, or `--retry-broken` was asked for"
    ),
    Column("started", "ISO 8601, UTC", "when it began"),
    Column("notes", "", "what set-up says of itself and what ran, as `name: text`, joined by `; `"),
    Column("folder", "", "where its scripts and raw outputs lie, relative to the run"),
)
TRIALS = (*TRIAL_HEAD, AXES, *TRIAL_FIGURES, *TRIAL_TAIL)


def _few(percent: float) -> str:
    return f"; empty of fewer than {needs(percent):,}" if needs(percent) > 1 else ""


SUMMARY_HEAD = (
    *IDENTITY,
    Column("measured", "", "number of measured trials"),
    Column("broken", "", "number of broken trials"),
    Column("skipped", "", "number of skipped trials"),
    Column("reason", "", "why trials are broken or skipped, each reason once, joined by `; `"),
    Column(
        "least_ios",
        "",
        "fewest requests, of reads or writes, that a measured trial rests on: of fewer than 10 it says little",
    ),
    Column("host_limited", "", "measured trials in which the host could not keep up with simulated disks"),
    Column(
        "unsettled",
        "",
        "measured trials that never came to the steady state that was asked for; figures are of the others alone",
    ),
    Column("until", "", "half width that `until:` asks for, as a part of the mean (0.05: ± 5 %); empty: none"),
    Column(
        "reached",
        "true/false",
        "whether the total bandwidth is known that well, if not always as surely as stopping takes it (`stopped`); "
        "empty where `until` or figures are",
    ),
    Column(
        "stopped",
        "",
        "why no more trials follow: `fixed` (so many were asked for), `precise` (known to `until`), "
        "`max` (not as surely as stopping takes it, after as many as there may be), "
        "`budget` (not as surely as that, and there was no more to spend), "
        "`decided` (as many as guidelines took: `--until-decided`), `unfinished` (more are to follow)",
    ),
    Column(
        "states",
        "bytes/s",
        "bandwidths whose trials (8 and more) fall into two groups with nothing between, which no mean tells: "
        "how many there are around which; else empty",
    ),
    *_PLACE,
)
_SUMMARISED = {
    "bw": ("bytes/s", "mean over trials of bandwidth"),
    "iops": ("1/s", "mean over trials of requests per second"),
    "lat_mean": ("ns", "mean over trials of mean latency"),
    **{
        name: ("ns", f"{percent:g} % of the requests of all trials together took at most so long{_few(percent)}")
        for name, percent in PERCENTILES.items()
    },
}


def _estimate(metric: str) -> Iterable[Column]:
    side, measure = metric.split("_", 1)
    unit, what = _SUMMARISED[measure]
    yield Column(metric, unit, f"{'reading and writing together' if side == TOTAL else side}: {what}")
    yield Column(
        f"{metric}_low", unit, "lower bound of its confidence interval, never below 0; empty for a single trial"
    )
    unknown = "; empty, as `_rel`, where the longest request may be below it" if measure in PERCENTILES else ""
    yield Column(f"{metric}_high", unit, f"upper bound of its confidence interval; empty for a single trial{unknown}")
    yield Column(f"{metric}_rel", "", "half width of the interval as a part of it (0.05: ± 5 %)")


SUMMARY_FIGURES = tuple(column for metric in METRICS for column in _estimate(metric))
SUMMARY = (*SUMMARY_HEAD, AXES, Column("confidence", "", "confidence of the intervals (0.95)"), *SUMMARY_FIGURES)


def markdown(columns: Iterable[Column]) -> str:
    """The columns as a table for people."""
    rows = [f"| `{name}` | {unit} | {meaning} |" for name, unit, meaning in columns]
    return "\n".join(["| column | unit | meaning |", "| --- | --- | --- |", *rows]) + "\n"
