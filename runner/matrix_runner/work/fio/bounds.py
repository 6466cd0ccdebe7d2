"""Options of fio as text: what their values stand for, and the most that a job with them does."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from matrix_runner.base.findings import Place

#: Other names of an option. Only those that this program reads or replaces.
_ALIASES = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "nr_files": "nrfiles",
    "timeout": "runtime",
    "io_limit": "io_size",
    "fill_fs": "fill_device",
    "fileoffset": "offset",
    "iomem": "mem",
    "wait_for_previous": "stonewall",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
}


@dataclass(frozen=True, slots=True)
class Option:
    key: str
    value: str | None
    place: Place | None = field(default=None, compare=False)  # None: `set` of the matrix has it

    @property
    def name(self) -> str:
        return option_name(self.key)

    @property
    def is_true(self) -> bool:
        return self.value is None or self.value.strip() not in {"0", "false"}

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"


def option_text(value: object) -> str:
    """Return a value of YAML as fio reads it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def option_name(key: str) -> str:
    return _ALIASES.get(key, key)


_POWERS = {unit: 1 << (10 * power) for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}
#: fio ignores the end of a range where it reads one size.
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([kmgtp]?)i?b?(?:-.*)?", re.IGNORECASE | re.ASCII)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6}
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(d|h|m|s|ms|msec|us|usec)?", re.IGNORECASE | re.ASCII)
DEFAULT_BS = 4096
#: Engines with one request at a time. They ignore `iodepth`.
SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "splice", "mmap"})
READS = frozenset({"read", "randread"})
TRIMS = frozenset({"trim", "randtrim"})
MIXED = frozenset({"rw", "randrw"})


class UnknownBound(ValueError):
    """A value that only fio knows, such as `$ncpus`."""


def parse_fio_size(text: str) -> int:
    """Parse fio's size. Suffixes are powers of 1024, with `kb_base=1000` an upper bound."""
    text = text.strip()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", text, re.IGNORECASE):
        return int(text, 16)
    found = _SIZE.fullmatch(text)
    if not found:
        raise UnknownBound
    return int(Fraction(found[1]) * _POWERS[found[2].lower()])


def parse_fio_time(text: str, unit: str = "s") -> float:
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise UnknownBound
    return float(found[1]) * _SECONDS[(found[2] or unit).lower()]


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise UnknownBound
    return int(text)


def extent(text: str) -> int | Fraction:
    """Parse a size, or a share like 10%."""
    if found := re.fullmatch(r"([0-9]{1,3})%+", text.strip()):
        return Fraction(int(found[1]), 100)
    return parse_fio_size(text)


def block_sizes(options: Mapping[str, Option]) -> list[int]:
    if "bssplit" in options:  # size/percent:size/percent, and commas between directions
        parts = [part.partition("/")[0] for part in re.split(r"[:,]", options["bssplit"].value or "")]
    elif "bsrange" in options:
        parts = re.split(r"[,-]", options["bsrange"].value or "")
    else:
        parts = (options["bs"].value or "" if "bs" in options else str(DEFAULT_BS)).split(",")
    if not any(parts):
        raise UnknownBound
    return [parse_fio_size(part) for part in parts if part]


def write_share(kind: str, options: Mapping[str, Option]) -> float:
    if kind in READS | TRIMS:
        return 0.0
    if kind not in MIXED | {"readwrite"}:
        return 1.0
    shares = []
    if "rwmixwrite" in options:
        shares.append(count(options["rwmixwrite"].value or "") / 100)
    if "rwmixread" in options:
        shares.append(1 - count(options["rwmixread"].value or "") / 100)
    return max(shares, default=0.5)


def least_of(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Parse one value for each direction; 0 is no limit, and others limit the job together."""
    return lambda text: min((one for one in map(parse, filter(None, text.split(","))) if one), default=0)


def file_names(value: str) -> list[str]:
    """Split fio's list of files: a colon separates them, unless a backslash is before it."""
    return [name.replace("\\:", ":") for name in re.split(r"(?<!\\):", value)]


def relative_names(value: str) -> str:
    """Return names below the directory of the layout. The path of another place becomes part of the name."""
    return ":".join(relative_name(name).replace(":", "\\:") for name in file_names(value))


def is_elsewhere(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")


def relative_name(name: str) -> str:
    return "_".join(part for part in name.split("/") if part not in {"", ".", ".."}) if is_elsewhere(name) else name


_DEFAULT_ENGINE = "psync"
_ZONES = re.compile(r"=\s*\d+z$", re.IGNORECASE)
#: Options that flush what was written, each with a latency of its own.
SYNCS = ("fsync", "fdatasync", "sync_file_range", "end_fsync", "fsync_on_close")


@dataclass(frozen=True, slots=True)
class JobBound:
    """One section of a job file."""

    name: str
    kind: str
    numjobs: int
    depth: int  # requests of one job at a time
    bs: tuple[int, int]  # the smallest and the largest request
    write_share: float
    direct: bool
    engine: str
    runtime: float | None  # seconds without ramp; None: a size ends it
    ramp: float
    delay: float
    stonewall: bool
    wait_for: str
    size: int | Fraction | None
    offset: int | Fraction
    file_size: int | None
    files: int
    file_names: str
    moved_once: int | Fraction | None  # io_size
    fills: bool
    loops: int
    verifies: bool
    apart: bool  # its copies have regions of their own
    requests: int | None
    pace: float  # bytes/s; 0: no limit
    think: float  # seconds for each request
    syncs: bool  # it calls fsync, fdatasync or sync_file_range

    def region(self, capacity: int) -> int:
        if self.fills or self.size is None:
            return capacity
        return bytes_of(self.size, capacity)

    def end(self, capacity: int) -> int:
        """Return how large a device the job needs at least."""
        size = self.size if isinstance(self.size, int) else self.bs[0]
        return size + bytes_of(self.offset, capacity)

    def moved(self, capacity: int) -> int:
        """Return the bytes of all its copies; 0 if time ends it."""
        if self.runtime is not None:
            return 0
        once = self.region(capacity) if self.moved_once is None else bytes_of(self.moved_once, capacity)
        if self.requests is not None:
            once = min(once, self.requests * self.bs[1])
        return once * self.passes * self.numjobs

    @property
    def passes(self) -> int:
        """Return how often it moves its bytes. To verify, fio reads again what it wrote."""
        return self.loops * (2 if self.verifies and self.kind not in READS else 1)

    def written(self, capacity: int) -> float:
        """Return the bytes that all its copies write; 0 if time ends it."""
        return self.moved(capacity) * self.loops / self.passes * self.write_share

    @property
    def changes(self) -> bool:
        return self.kind not in READS

    def meets(self, other: "JobBound", capacity: int) -> bool:
        """Return whether both have a common part of one device."""
        mine, its = (bytes_of(one.offset, capacity) for one in (self, other))
        return mine < its + other.region(capacity) and its < mine + self.region(capacity)

    def seconds(self, capacity: int) -> float:
        """Return the time that does not depend on the speed of the disks, without the ramp."""
        if self.runtime is not None:
            return self.runtime
        alone = self.moved(capacity) / self.numjobs
        return (alone / self.pace if self.pace else 0.0) + alone / self.bs[0] * self.think

    def laid_out(self, capacity: int) -> int:
        one = self.file_size * self.files if self.file_size is not None else self.region(capacity)
        one += bytes_of(self.offset, capacity)
        return one if self.file_names else one * self.numjobs


def bytes_of(extent: int | Fraction, capacity: int) -> int:
    return int(extent * capacity) if isinstance(extent, Fraction) else extent


@dataclass
class Values:
    """The options of one job; collects those whose value only fio knows."""

    job: str
    options: Mapping[str, Option]
    unknown: list[tuple[str, str]] = field(default_factory=list)  # name, and why

    def get(self, name: str, parse: Callable[[str], Any], default: Any) -> Any:
        if name not in self.options:
            return default
        return self.of(lambda: parse(self.options[name].value or ""), f"{self.options[name]}", name, default)

    def of(self, value: Callable[[], Any], shown: str, name: str, default: Any) -> Any:
        try:
            return value()
        except UnknownBound:
            why = f"how much {shown[:60]} is, only fio knows; write a plain value"
            if _ZONES.search(shown):
                why = f"{shown[:60]} counts the zones of a zoned disk, which no layer has; write a size"
            self.unknown.append((name, why))
            return default

    def true(self, name: str) -> bool:
        return name in self.options and self.options[name].is_true


def bound_of(values: Values) -> JobBound:
    options = values.options
    kind = values.get("rw", lambda text: text.partition(":")[0].partition(",")[0].strip(), "read")
    of_sizes = next((one for one in ("bssplit", "bsrange", "bs") if one in options), "bs")
    sizes = values.of(lambda: block_sizes(options), str(options.get(of_sizes, "bs")), of_sizes, [DEFAULT_BS])
    engine = values.get("ioengine", str, _DEFAULT_ENGINE)
    ends = values.get("runtime", parse_fio_time, None)
    direct = values.true("direct") or ("buffered" in options and not values.true("buffered"))
    direct = direct and engine != "mmap"  # which always uses the page cache, and then only drops its pages
    share = values.of(lambda: write_share(kind, options), "rwmix", "rwmixread", 1.0)
    rates = values.get("rate", least_of(parse_fio_size), 0), values.get("rate_iops", least_of(count), 0) * min(sizes)
    blocks = max(1, values.get("thinktime_blocks", count, 1))
    return JobBound(
        name=values.job,
        kind=kind,
        numjobs=max(1, values.get("numjobs", count, 1)),
        depth=1 if engine in SYNCHRONOUS else max(1, values.get("iodepth", count, 1)),
        bs=(max(1, min(sizes)), max(1, *sizes)),
        write_share=share,
        direct=direct,
        engine=engine,
        runtime=ends or None,
        ramp=values.get("ramp_time", parse_fio_time, 0.0),
        delay=values.get("startdelay", lambda text: max(map(parse_fio_time, text.split("-"))), 0.0),
        stonewall=values.true("stonewall"),
        wait_for=values.get("wait_for", str, ""),
        size=values.get("size", extent, None),
        offset=values.get("offset", extent, 0),
        file_size=values.get("filesize", lambda text: max(map(parse_fio_size, text.split("-"))), None),
        files=max(1, values.get("nrfiles", count, 1)),
        file_names=relative_names(options["filename"].value or "") if "filename" in options else "",
        moved_once=values.get("io_size", extent, None),
        fills=values.true("fill_device"),
        loops=max(1, values.get("loops", count, 1)),
        verifies=values.get("verify", str, "0").strip() not in {"", "0", "none"},
        apart="offset_increment" in options,
        requests=values.get("number_ios", parse_fio_size, None),
        pace=float(min(filter(None, rates), default=0)),
        think=values.get("thinktime", lambda text: parse_fio_time(text, "us"), 0.0) / blocks,
        syncs=share > 0 and any(name in options and (options[name].value or "1").strip() != "0" for name in SYNCS),
    )
