"""The columns of `trials.csv`, `jobs.csv` (a row for each job), `summary.csv` and `found.csv`, with their meanings."""

from collections.abc import Iterable
from typing import NamedTuple

from matrix_runner.answers.cell_figures import METRICS
from matrix_runner.records.record import LOSSES, UNMEASURED, Outcome
from matrix_runner.statistics.percentile import needs
from matrix_runner.work.metrics import (
    COLUMNS,
    FLUSH,
    OF_A_REBUILD,
    OF_A_SIDE,
    OF_A_TRIAL,
    OF_FLUSH,
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
    Column("cpu_per_io", "ns", f"{COLUMNS['cpu_per_io'].meaning}; empty if it was not counted"),
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
