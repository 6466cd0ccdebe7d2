"""`find` of a workload: the most work, within a limit of latency or without one, searched over one axis of numbers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from matrix_runner.base.model import Model, written
from matrix_runner.base.quantities import parse_time
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.layers import LAYERS, Problem
from matrix_runner.work.fio.bounds import SYNCHRONOUS
from matrix_runner.work.metrics import KNOWN, SIDES, Metric

#: The values of `iodepth` that a search tries if the workload lists no values.
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: The axes of a search, in the order of preference, and their names among the axes of a workload.
AXES = {"rate_iops": "fio.rate_iops", "iodepth": "iodepth", "numjobs": "numjobs"}
#: Rates of work by short names, and latencies as in `read.p99`. Their full names are possible, too.
_WORK = {name.removeprefix("total."): one for name, one in KNOWN.items() if one.unit in {"bytes/s", "1/s"}}
_LATENCIES = {name.replace(".lat_", "."): one for name, one in KNOWN.items() if ".lat_" in name}
_LIMIT = re.compile(r"\s*([^\s<=>]+)\s*(<=?)\s*([^\s<=>].*?)\s*")
_HOW = "write it like `read.p99 < 5ms`"


def _named(name: str, known: Mapping[str, Metric], what: str) -> Metric:
    if name in known or KNOWN.get(name) in known.values():
        return known.get(name) or KNOWN[name]
    if name in KNOWN or name in _WORK or name in _LATENCIES:
        raise ValueError(f"{name} is no {what}; known are {', '.join(known)}")
    raise ValueError(f"there is no metric {name}; {did_you_mean(name, known)}")


def _work(text: str) -> str:
    return _named(text, _WORK, "rate of work").name


@dataclass(frozen=True, slots=True)
class Limit:
    metric: Metric
    nanoseconds: float
    text: str  # as written, for reports

    @classmethod
    def parsed(cls, text: str) -> "Limit":
        found = _LIMIT.fullmatch(text)
        if found is None:
            raise ValueError(f"not a limit; {_HOW}")
        metric = _named(found[1], _LATENCIES, "latency")
        if found[3].replace(".", "", 1).isdigit():
            raise ValueError(f"the limit {found[3]} has no unit; did you mean {found[3]}ms?")
        if not (seconds := parse_time(found[3])):
            raise ValueError(f"no request takes {found[3]}; {_HOW}")
        return cls(metric, seconds * 1e9, f"{found[1]} {found[2]} {found[3]}")


def _limit(text: str) -> str:
    return Limit.parsed(text).text


class Find(Model):
    """The most work: within a limit of latency, or the best value of any axis. Not all values are tried."""

    max: Annotated[str, AfterValidator(_work), WithJsonSchema({"enum": list(_WORK)})] = Field(
        description="the figure of the work: iops or bw of reads and writes together, or a figure of one direction"
    )
    limit: Annotated[
        str | None,
        AfterValidator(lambda text: None if text is None else _limit(text)),
        WithJsonSchema({"type": "string", "examples": ["read.p99 < 5ms"]}),
    ] = Field(
        None,
        alias="while",
        description="a latency and its limit, like read.p99 < 5ms; read.lat_p99 is the same. Without it, the search is "
        "for the smallest value that is as good as the best, up to `practical`",
    )
    over: str | None = Field(
        None,
        description="the axis to search over: with `while`, iodepth, numjobs or rate_iops (that below `fio:`); "
        "without it any axis of numbers, like tune.stripe_cache_size or md.chunk",
    )

    @property
    def metric(self) -> Metric:
        return KNOWN[self.max]

    @property
    def within(self) -> Limit:
        return Limit.parsed(self.limit or "")

    @property
    def is_for_best(self) -> bool:
        return self.limit is None

    @property
    def axis(self) -> str:
        """Return the axis in the coordinates of cells."""
        over = self.over or "iodepth"
        outside = over.partition(".")[0] in {"tune", "workload", *LAYERS} and "." in over
        return over if outside else f"workload.{AXES.get(over, over)}"

    def as_written(self) -> dict[str, str]:
        return self.model_dump(by_alias=True, exclude_none=True)


class Searched(Model):
    """The key of a workload that is searched, not swept."""

    find: Find | None = Field(
        None,
        description="search the most work, also within a latency, over the values of one axis, instead of trying all",
    )


Axes = dict[str, Any]


def written_workload(declared: Searched) -> Axes:
    """Return the axes of a workload as `written` does, without `find`, and with the values that a search tries."""
    axes = {name: values for name, values in written(declared).items() if not name.startswith("find.")}
    if declared.find and "iodepth" not in axes and _over(declared.find, axes) == "iodepth" and _may_queue(axes):
        axes["iodepth"] = DEPTHS
    return axes


def _may_queue(axes: Axes) -> bool:
    return _is_plain(axes) and not SYNCHRONOUS.issuperset(axes.get("ioengine", ("libaio",)))


def _is_plain(axes: Axes) -> bool:
    return "rw" in axes and not any(name.partition(".")[0] in {"preset", "job", "jobs"} for name in axes)


def _several(axes: Axes) -> list[str]:
    return [name for name, axis in AXES.items() if len(axes.get(axis, ())) > 1]


def _over(find: Find, axes: Axes) -> str:
    """Return the axis of a search: the one that it names or that has a list, else the depth."""
    return find.over or next(iter(_several(axes)), "iodepth")


def resolved(find: Find, declared: Searched) -> Find:
    """Return `find` of a workload with the axis that it searches over."""
    return find.model_copy(update={"over": _over(find, written_workload(declared))})


def find_problems(find: Find, axes: Axes) -> Iterator[Problem]:
    if not _is_plain(axes):
        what = "a preset is one program" if "preset" in axes else "a search needs one job, and these may be several"
        yield Problem("find", f"{what}; write `find` in a workload with `rw`")
        return
    over, several = _over(find, axes), _several(axes)
    if not find.is_for_best and over not in AXES:
        yield Problem("find.over", f"a search with `while` goes over {', '.join(AXES)}; leave out `while` for {over}")
        return
    if find.over is None and len(several) > 1:
        yield Problem("find", f"{' and '.join(several)} have several values; add `over: {several[0]}` to `find`")
        return
    figures = {"max": find.metric}
    if not find.is_for_best:
        yield from _axis_problems(over, axes)
        figures["while"] = find.within.metric
    for field, metric in figures.items():
        side = metric.name.partition(".")[0]
        for rw in axes["rw"]:
            if side in SIDES and not (rw in {"rw", "randrw"} or side in rw):
                yield Problem(f"find.{field}", f"rw={rw} has no {metric.name}")


def _axis_problems(over: str, axes: Axes) -> Iterator[Problem]:
    values = axes.get(AXES[over], ())
    where = " below `fio:`" if over == "rate_iops" else ""
    if engines := [one for one in axes.get("ioengine", ()) if over == "iodepth" and one in SYNCHRONOUS]:
        why = f"ioengine={engines[0]} sends one request at a time, so `iodepth` is no axis to search over"
        yield Problem("find", f"{why}; use libaio or io_uring, or write a list of `numjobs`")
    elif len(set(values)) < 2:
        yield Problem("find", f"there is no axis to search over; write several values of `{over}`{where}")
    elif wrong := [one for one in values if not (isinstance(one, int) and one > 0) or isinstance(one, bool)]:
        yield Problem(AXES[over], f"'{wrong[0]}': a search needs whole numbers from 1 on")
