"""The most that one job of fio does: its bytes, its time, its requests and its share of writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from matrix_runner.work.fio.options import SYNCHRONOUS
from matrix_runner.work.fio.values import (
    DEFAULT_BS,
    READS,
    Option,
    UnknownBound,
    block_sizes,
    count,
    extent,
    least_of,
    parse_fio_size,
    parse_fio_time,
    relative_names,
    write_share,
)

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

    def meets(self, other: JobBound, capacity: int) -> bool:
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
