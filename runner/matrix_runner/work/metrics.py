"""The figures of a trial, and the metrics that guidelines may name."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a trial. That of a side has a column for each side, such as `read_bw`."""

    name: str
    unit: str
    meaning: str  # of its column in trials.csv, with words of the side in braces
    mean: str = ""  # the meaning of its mean over trials in summary.csv; empty: it has none there
    better: int = 0  # 1: more is better, -1: less is better, 0: neither
    percent: float | None = None  # of a percentile, which is computed from all requests and never averaged
    average: str = "avg"  # over the trials of a cell, in SQL
    is_of_data: bool = False  # only sides that move data have it
    heading: str = ""  # of its column in report.html

    @property
    def is_summarised(self) -> bool:
        return bool(self.mean) or self.percent is not None


#: The figures of a side, in the order of the fields of `Direction`.
OF_A_SIDE = (
    Figure("bw", "bytes/s", "{bandwidth}; empty without {them}", "mean bandwidth of the trials", 1, is_of_data=True),
    Figure("iops", "1/s", "{requests} completed per second", "mean number of requests per second of the trials", 1),
    Figure("bytes", "bytes", "bytes {done}", is_of_data=True),
    Figure("ios", "", "{requests} that were measured; with fewer than 10, the figures are unreliable"),
    Figure(
        *("lat_mean", "ns", "mean latency of a {side}, from its submission to its completion"),
        *("mean of the mean latencies of the trials", -1),
    ),
    Figure("lat_p50", "ns", "median of the same latency", "", -1, 50.0),
    Figure("lat_p90", "ns", "its 90th percentile", "", -1, 90.0),
    Figure("lat_p95", "ns", "its 95th percentile", "", -1, 95.0),
    Figure("lat_p99", "ns", "its 99th percentile", "", -1, 99.0),
    Figure("lat_p999", "ns", "its 99.9th percentile; empty below 10,000 requests", "", -1, 99.9),
    Figure("lat_p9999", "ns", "its 99.99th percentile; empty below 100,000 requests", "", -1, 99.99),
    Figure("lat_max", "ns", "the longest", "", -1, average="max"),
)
#: The figures of all sides together.
OF_A_TRIAL = (
    Figure("runtime", "s", "run time that fio reports"),
    Figure("cpu_usr", "%", "processor time of fio in user mode", "", -1),
    Figure("cpu_sys", "%", "processor time of fio in the kernel", "", -1),
    Figure("errors", "", "number of I/O errors, if the job continues after errors (`fio: {continue_on_error: …}`)"),
)
#: Those of a rebuild.
OF_A_REBUILD = (
    Figure("bw", "bytes/s", "its rate: the bytes of one device of the array, divided by this time; else empty", "", 1),
    Figure(
        *("seconds", "s", "time of the rebuild, resync, check or repair (`sync_action`); else empty"),
        *("mean time of the trials", -1),
    ),
)
SIDES = ("read", "write", "trim")
FLUSH = "sync"  # fsync and fdatasync: a side that moves no data, so it counts in no total
ALL_SIDES = (*SIDES, FLUSH)
OF_DIRECTION: dict[str, str] = {one.name: one.unit for one in OF_A_SIDE}
OF_FLUSH: dict[str, str] = {one.name: one.unit for one in OF_A_SIDE if not one.is_of_data}
#: The figures of each side: name and unit.
OF_SIDE: dict[str, dict[str, str]] = {**dict.fromkeys(SIDES, OF_DIRECTION), FLUSH: OF_FLUSH}
OF_TRIAL: dict[str, str] = {one.name: one.unit for one in OF_A_TRIAL}
OF_LATENCY: tuple[str, ...] = tuple(one.name for one in OF_A_SIDE if one.unit == "ns")
PERCENTILES: dict[str, float] = {one.name: one.percent for one in OF_A_SIDE if one.percent is not None}
LARGE = 64 * 1024  # requests of this size or more are shown as bandwidth, smaller ones as requests per second
_SECTOR = 512
# fio rounds bandwidth down to whole bytes per second, so requests of 64 KiB would look slightly smaller.
LEAST_LARGE = LARGE - _SECTOR / 2
#: A request stalls its trial if it takes a larger share of its time than this, and so many times the mean.
STALL = (0.1, 10.0)
TOTAL = "total"  # all directions together: the headline of mixed work
RATES = tuple(one.name for one in OF_A_SIDE if one.better > 0)
#: The unit of what the machine did for each request.
PER_REQUEST = "per request"


def _cost(name: str, unit: str, heading: str, meaning: str) -> Figure:
    return Figure(name, unit, meaning, better=-1, heading=heading)


#: Figures of the monitors, which are facts of a trial.
OF_THE_MONITORS = (
    Figure("iowait", "share", ""),
    Figure("evenness", "share", ""),
    Figure("host_limited_share", "share", ""),
    _cost(
        *("cpu_per_io", "ns", "processor time of a request"),
        "processor time of the kernel and of fio for each request; emulated processors are many times slower",
    ),
    _cost("switches_per_io", PER_REQUEST, "context switches", "context switches of the machine for each request"),
    _cost(
        *("ipis_per_io", PER_REQUEST, "interrupts between processors"),
        "interrupts from processor to processor (IPIs) for each request",
    ),
    _cost(
        *("host_cpu_per_io", "ns", "processor time of the host"),
        "processor time of the host for each request: of QEMU and the servers of its disks",
    ),
)
BESIDE: dict[str, str] = {"cpu.iowait": "iowait", "disks.evenness": "evenness", "disks.strain": "host_limited_share"}
BESIDE |= {"cpu.per_io": "cpu_per_io", "cpu.switches": "switches_per_io", "cpu.ipis": "ipis_per_io"}
BESIDE |= {"cpu.host_per_io": "host_cpu_per_io"}
#: What a request costs the machine, each a fact of its trials.
COSTS = tuple(one for one in OF_THE_MONITORS if one.better)
LOST = ("cpu.iowait", "disks.strain")  # less is better for these
REBUILD = "rebuild"  # a rebuild, resync, check or repair of an array
SYNC = "sync"  # the same in names of columns
OF_SYNC: dict[str, str] = {one.name: one.unit for one in OF_A_REBUILD}
#: A computed column of the store: the directions in which a trial has figures, and those with large requests, as bits.
WORK = "work"
STALLED = 1 << 8  # a bit of it, as `Figures.is_stalled` says


def work_bit(side: str, *, large: bool = False) -> int:
    return 1 << (*SIDES, SYNC).index(side) << 4 * large


#: Decimals of these, as recorded.
DECIMALS: dict[str, int] = {"iowait": 4, "evenness": 3, "host_limited_share": 4, "switches_per_io": 4, "ipis_per_io": 4}
#: All figures by column.
COLUMNS: dict[str, Figure] = {
    **{f"{side}_{one.name}": one for one in OF_A_SIDE for side in SIDES},
    **{one.name: one for one in sorted(OF_A_TRIAL, key=lambda one: one.better)},
    **{f"{TOTAL}_{one.name}": one for one in OF_A_SIDE if one.name in RATES},
    **{one.name: one for one in OF_THE_MONITORS},
    **{f"{SYNC}_{one.name}": one for one in OF_A_REBUILD},
    **{f"found_{one.name}": one for one in OF_A_SIDE if one.name in RATES},
    **{f"{FLUSH}_{one.name}": one for one in OF_A_SIDE if not one.is_of_data},
}


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    columns: tuple[str, ...]
    unit: str
    job: str = ""  # the job that it is of; empty: all jobs together

    @property
    def more_is_better(self) -> bool:
        return self.unit not in {"ns", "s", PER_REQUEST} and self.name not in LOST

    @property
    def is_of_rebuild(self) -> bool:
        return self.name.startswith(f"{REBUILD}.")

    @property
    def is_of_requests(self) -> bool:
        return bool(self.job) or (self.name.partition(".")[0] in {*ALL_SIDES, TOTAL})

    @property
    def floor(self) -> float:
        """Return half of the last recorded digit, which replaces 0, because ratios need more than 0."""
        return 0.5 * 10 ** -DECIMALS[self.columns[0]] if self.columns[0] in DECIMALS else 0.0


def _known() -> dict[str, Metric]:
    judged = {one.name: one.unit for one in OF_A_SIDE if one.better}
    found = [Metric(f"{side}.{name}", (f"{side}_{name}",), unit) for name, unit in judged.items() for side in SIDES]
    found += [Metric(f"total.{name}", tuple(f"{side}_{name}" for side in SIDES), judged[name]) for name in RATES]
    found += [Metric(f"{REBUILD}.{name}", (f"{SYNC}_{name}",), unit) for name, unit in OF_SYNC.items()]
    found += [
        Metric(f"{FLUSH}.{name}", (f"{FLUSH}_{name}",), unit) for name, unit in judged.items() if name in OF_FLUSH
    ]
    found += [Metric(name, (column,), COLUMNS[column].unit) for name, column in BESIDE.items()]
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
