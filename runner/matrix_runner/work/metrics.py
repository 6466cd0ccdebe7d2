"""The figures of a trial, and the metrics that guidelines may name."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

#: Figures of one direction: name and unit.
_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max")
OF_DIRECTION: dict[str, str] = {
    "bw": "bytes/s",
    "iops": "1/s",
    "bytes": "bytes",
    "ios": "",
    **{f"lat_{name}": "ns" for name in _LATENCIES},
}
SIDES = ("read", "write", "trim")
FLUSH = "sync"  # fsync and fdatasync: a side that moves no data, so it counts in no total
ALL_SIDES = (*SIDES, FLUSH)
OF_FLUSH: dict[str, str] = {name: unit for name, unit in OF_DIRECTION.items() if name not in {"bw", "bytes"}}
#: The figures of each side: name and unit.
OF_SIDE: dict[str, dict[str, str]] = {**dict.fromkeys(SIDES, OF_DIRECTION), FLUSH: OF_FLUSH}
LARGE = 64 * 1024  # requests of this size or more are shown as bandwidth, smaller ones as requests per second
_SECTOR = 512
# fio rounds bandwidth down to whole bytes per second, so requests of 64 KiB would look slightly smaller.
LEAST_LARGE = LARGE - _SECTOR / 2
TOTAL = "total"  # all directions together: the headline of mixed work
RATES = ("bw", "iops")  # more is better for these, less for latencies
#: Shares from the monitors, and the notes of a trial that hold them.
BESIDE: dict[str, str] = {"cpu.iowait": "iowait", "disks.evenness": "evenness", "disks.strain": "host_limited_share"}
LOST = ("cpu.iowait", "disks.strain")  # less is better for these
REBUILD = "rebuild"  # a rebuild, resync, check or repair of an array
SYNC = "sync"  # the same in names of columns
OF_SYNC: dict[str, str] = {"bw": "bytes/s", "seconds": "s"}
DECIMALS: dict[str, int] = {"iowait": 4, "evenness": 3, "host_limited_share": 4}  # decimals of these notes


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    columns: tuple[str, ...]
    unit: str
    job: str = ""  # the job that it is of; empty: all jobs together

    @property
    def more_is_better(self) -> bool:
        return self.unit not in {"ns", "s"} and self.name not in LOST

    @property
    def is_of_rebuild(self) -> bool:
        return self.name.startswith(f"{REBUILD}.")

    @property
    def is_of_requests(self) -> bool:
        return bool(self.job) or (self.name.partition(".")[0] in {*ALL_SIDES, TOTAL})

    @property
    def floor(self) -> float:
        """Return half of the last recorded digit, which replaces a share of 0, because ratios need more than 0."""
        return 0.5 * 10 ** -DECIMALS[self.columns[0]] if self.unit == "share" else 0.0


def _known() -> dict[str, Metric]:
    judged = {name: unit for name, unit in OF_DIRECTION.items() if unit in {"bytes/s", "1/s", "ns"}}
    found = [Metric(f"{side}.{name}", (f"{side}_{name}",), unit) for name, unit in judged.items() for side in SIDES]
    found += [Metric(f"total.{name}", tuple(f"{side}_{name}" for side in SIDES), judged[name]) for name in RATES]
    found += [Metric(f"{REBUILD}.{name}", (f"{SYNC}_{name}",), unit) for name, unit in OF_SYNC.items()]
    found += [
        Metric(f"{FLUSH}.{name}", (f"{FLUSH}_{name}",), unit) for name, unit in judged.items() if name in OF_FLUSH
    ]
    found += [Metric(name, (note,), "share") for name, note in BESIDE.items()]
    return {one.name: one for one in found}


def is_large(bw: float, iops: float) -> bool:
    """Return whether requests of these rates are large enough to be shown as bandwidth."""
    return bw >= LEAST_LARGE * iops


#: Options of fio with which work waits on purpose, so that its rate says little.
_PACES = tuple(f"workload.fio.{name}" for name in ("rate", "rate_iops", "thinktime"))


def is_paced(axes: Mapping[str, str]) -> bool:
    return any(axes.get(name, "0") != "0" for name in _PACES)


def sides_of(figures: Collection[str]) -> tuple[str, ...]:
    found = tuple(side for side in SIDES if f"{side}_bw" in figures)
    return (TOTAL, *found) if len(found) > 1 else found


_OF_KINDS = {"read": ("read",), "write": ("write",), "trim": ("trim",), "trimwrite": ("trim", "write")}
_OF_KINDS |= dict.fromkeys(("rw", "readwrite"), ("read", "write"))


def sides_of_kind(kind: str) -> tuple[str, ...]:
    """Return the directions of a kind of work, as in `rw`; all for an unknown kind."""
    return _OF_KINDS.get(kind.removeprefix("rand"), SIDES)


def shown_sides(cells: Iterable[Collection[str]]) -> tuple[str, ...]:
    """Return the directions of a table, from the figures of its cells. Trims are rare, so they need a reason."""
    has_trims = any("trim_bw" in figures for figures in cells)
    return SIDES if has_trims else SIDES[:2]


def headline(rates: Mapping[str, float]) -> str | None:
    """Name the figure that ranks, shows and stops a cell: the total of mixed work, because its split is random.

    Of a rebuild, it is the rate of the array, also beside other work.
    """
    if f"{SYNC}_bw" in rates:
        return f"{SYNC}_bw"
    sides = sides_of(rates)
    if not sides:
        return None
    bw, iops = (sum(rates.get(f"{side}_{rate}", 0.0) for side in SIDES) for rate in RATES)
    return f"{sides[0]}_{'bw' if is_large(bw, iops) else 'iops'}"


#: The result of a search (`find:`), which is no figure of a trial.
FOUND: dict[str, Metric] = {
    f"found.{name}": Metric(f"found.{name}", (f"found_{name}",), OF_DIRECTION[name]) for name in RATES
}
KNOWN: dict[str, Metric] = _known()  # metrics by name: `read.bw`; `total.bw` is the sum of all directions
OF_JOBS: tuple[str, ...] = tuple(name for name, one in KNOWN.items() if one.is_of_requests)  # the metrics of each job


#: Former names of metrics, which work until version 1.0: `sync` is now the side of fsync alone.
FORMER: dict[str, str] = {f"{SYNC}.{name}": f"{REBUILD}.{name}" for name in OF_SYNC}


def metric_named(name: str) -> Metric:
    """Return a metric by its name, for one job by `JOB.read.bw`. Raise KeyError if it does not exist."""
    name = FORMER.get(name, name)
    if name in KNOWN:
        return KNOWN[name]
    job, _, figure = name.rpartition(".")
    job, _, side = job.rpartition(".")
    own = f"{side}.{figure}"
    if not job or own not in OF_JOBS:
        raise KeyError(name)
    return Metric(name, tuple(f"{job}.{column}" for column in KNOWN[own].columns), KNOWN[own].unit, job)


def split_column(column: str) -> tuple[str, str]:
    """Split `JOB.read_bw` after the job."""
    job, _, own = column.rpartition(".")
    return job, own
