"""What a job file does at most (size, time, largest request, share of writes), and the workload of all its jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from runner.base.quantities import format_size
from runner.language.fio_options import FileSet
from runner.language.job_file import (
    Option,
    Sections,
    effective,
    file_names,
    is_global,
    on_target,
    relative_names,
    reported_names,
)
from runner.language.workload import SYNCHRONOUS, Workload
from runner.layers import Problem

_POWERS = {unit: 1 << (10 * power) for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6}
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(d|h|m|s|ms|msec|us|usec)?", re.IGNORECASE)
_DEFAULT_ENGINE, _DEFAULT_BS = "psync", 4096
_MOST_JOBS = 4096


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


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text.strip()):
        raise UnknownBound
    return int(text)


def _extent(text: str) -> int | Fraction:
    """Parse a size, or a share like 10%."""
    if found := re.fullmatch(r"(\d{1,3})%", text.strip()):
        return Fraction(int(found[1]), 100)
    return parse_fio_size(text)


def _block_sizes(options: Mapping[str, Option]) -> list[int]:
    if "bssplit" in options:  # size/percent:size/percent, and commas between directions
        parts = [part.partition("/")[0] for part in re.split(r"[:,]", options["bssplit"].value or "")]
    elif "bsrange" in options:
        parts = re.split(r"[,-]", options["bsrange"].value or "")
    else:
        parts = (options["bs"].value or "" if "bs" in options else str(_DEFAULT_BS)).split(",")
    if not any(parts):
        raise UnknownBound
    return [parse_fio_size(part) for part in parts if part]


def _write_share(kind: str, options: Mapping[str, Option]) -> float:
    if kind in {"read", "randread"}:
        return 0.0
    if kind not in {"rw", "readwrite", "randrw"}:
        return 1.0
    shares = []
    if "rwmixwrite" in options:
        shares.append(_count(options["rwmixwrite"].value or "") / 100)
    if "rwmixread" in options:
        shares.append(1 - _count(options["rwmixread"].value or "") / 100)
    return max(shares, default=0.5)


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
    times: int
    requests: int | None
    pace: float  # bytes/s; 0: no limit
    think: float  # seconds for each request

    def region(self, capacity: int) -> int:
        if self.fills or self.size is None:
            return capacity
        return _bytes_of(self.size, capacity)

    def end(self, capacity: int) -> int:
        """Return how large a device the job needs at least."""
        size = self.size if isinstance(self.size, int) else self.bs[0]
        return size + _bytes_of(self.offset, capacity)

    def moved(self, capacity: int) -> int:
        """Return the bytes of all its copies; 0 if time ends it."""
        if self.runtime is not None:
            return 0
        once = self.region(capacity) if self.moved_once is None else _bytes_of(self.moved_once, capacity)
        if self.requests is not None:
            once = min(once, self.requests * self.bs[1])
        return once * self.times * self.numjobs

    def seconds(self, capacity: int) -> float:
        """Return the time that does not depend on the speed of the disks, without the ramp."""
        if self.runtime is not None:
            return self.runtime
        alone = self.moved(capacity) / self.numjobs
        return (alone / self.pace if self.pace else 0.0) + alone / self.bs[0] * self.think

    def laid_out(self, capacity: int) -> int:
        one = self.file_size * self.files if self.file_size is not None else self.region(capacity)
        one += _bytes_of(self.offset, capacity)
        return one if self.file_names else one * self.numjobs


def _bytes_of(extent: int | Fraction, capacity: int) -> int:
    return int(extent * capacity) if isinstance(extent, Fraction) else extent


@dataclass
class _Values:
    """The options of one job; collects those whose value only fio knows."""

    job: str
    options: Mapping[str, Option]
    unknown: list[str]

    def get(self, name: str, parse: Callable[[str], Any], default: Any) -> Any:
        if name not in self.options:
            return default
        return self.of(lambda: parse(self.options[name].value or ""), f"{self.options[name]}", name, default)

    def of(self, value: Callable[[], Any], shown: str, name: str, default: Any) -> Any:
        try:
            return value()
        except UnknownBound:
            remedy = f"write a plain value, for example with set: {{{self.job}.{name}: …}}"
            self.unknown.append(f"[{self.job}]: how much {shown[:60]} is, only fio knows; {remedy}")
            return default

    def true(self, name: str) -> bool:
        return name in self.options and self.options[name].is_true


def bounds_of(sections: Sections) -> tuple[tuple[JobBound, ...], list[str]]:
    """Return the bounds of all jobs, and what is wrong or unknown about them."""
    wrong: list[str] = []
    found = tuple(_bound(_Values(name, options, wrong)) for name, options in effective(sections))
    names = [one.name for one in found]
    for at, one in enumerate(found):
        if one.wait_for and one.wait_for not in names[:at]:
            wrong.append(f"[{one.name}] waits for '{one.wait_for}', which is no job before it")
    if sum(one.numjobs for one in found) > _MOST_JOBS:
        wrong.append(f"these are {sum(one.numjobs for one in found):,} jobs; fio runs at most {_MOST_JOBS:,}")
    return found, wrong


def _bound(values: _Values) -> JobBound:
    options = values.options
    kind = values.get("rw", lambda text: text.partition(":")[0].partition(",")[0].strip(), "read")
    sizes = values.of(lambda: _block_sizes(options), "bs", "bs", [_DEFAULT_BS])
    engine = values.get("ioengine", str, _DEFAULT_ENGINE)
    ends = values.get("runtime", parse_fio_time, None)
    if values.true("time_based") and not ends:
        values.unknown.append(f"[{values.job}] is time_based without an end; write set: {{{values.job}.runtime: 30}}")
    direct = values.true("direct") or ("buffered" in options and not values.true("buffered"))
    share = values.of(lambda: _write_share(kind, options), "rwmix", "rwmixread", 1.0)
    read_back = 2 if "verify" in options and share and options.get("verify", Option("", "")).value != "0" else 1
    rates = values.get("rate", _least_of(parse_fio_size), 0)
    per_second = values.get("rate_iops", _least_of(_count), 0)
    blocks = max(1, values.get("thinktime_blocks", _count, 1))
    return JobBound(
        name=values.job,
        kind=kind,
        numjobs=max(1, values.get("numjobs", _count, 1)),
        depth=1 if engine in SYNCHRONOUS else max(1, values.get("iodepth", _count, 1)),
        bs=(max(1, min(sizes)), max(1, *sizes)),
        write_share=share,
        direct=direct,
        engine=engine,
        runtime=ends or None,
        ramp=values.get("ramp_time", parse_fio_time, 0.0),
        delay=values.get("startdelay", lambda text: max(map(parse_fio_time, text.split("-"))), 0.0),
        stonewall=values.true("stonewall"),
        wait_for=values.get("wait_for", str, ""),
        size=values.get("size", _extent, None),
        offset=values.get("offset", _extent, 0),
        file_size=values.get("filesize", lambda text: max(map(parse_fio_size, text.split("-"))), None),
        files=max(1, values.get("nrfiles", _count, 1)),
        file_names=relative_names(options["filename"].value or "") if "filename" in options else "",
        moved_once=values.get("io_size", _extent, None),
        fills=values.true("fill_device"),
        times=max(1, values.get("loops", _count, 1)) * read_back,
        requests=values.get("number_ios", parse_fio_size, None),
        pace=float(rates or per_second * min(sizes)),
        think=values.get("thinktime", lambda text: parse_fio_time(text, "us"), 0.0) / blocks,
    )


def _least_of(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Parse one value for each direction; 0 is no limit, and others limit the job together."""
    return lambda text: min((one for one in map(parse, filter(None, text.split(","))) if one), default=0)


def _ends(jobs: Sequence[JobBound], seconds: Callable[[JobBound], float]) -> dict[str, float]:
    """Return when each job ends, by its name: those behind `stonewall` and `wait_for` begin later."""
    barrier = 0.0
    ends: dict[str, float] = {}
    for job in jobs:
        barrier = max(ends.values(), default=0.0) if job.stonewall else barrier
        end = max(barrier, ends.get(job.wait_for, 0.0)) + seconds(job)
        ends[job.name] = max(end, ends.get(job.name, 0.0))
    return ends


def chained(jobs: Sequence[JobBound], seconds: Callable[[JobBound], float]) -> float:
    """Return when the last job ends."""
    return max(_ends(jobs, lambda job: job.delay + seconds(job)).values())


def _side_by_side(jobs: Sequence[JobBound]) -> int:
    """Return the most requests under way at a time."""
    most = now = 0
    for job in jobs:
        now = (0 if job.stonewall else now) + job.numjobs * job.depth
        most = max(most, now)
    return most


class JobWorkload(Workload):
    """All jobs of a job file together. The keys of a workload have bounds of all jobs."""

    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()
    in_files: bool = False
    jobs: Any = ()  # the bounds of each job
    reported: Any = ()  # the names of jobs and groups in fio's JSON

    @property
    def phases(self) -> Mapping[str, int]:
        return {name: round(end) for name, end in _ends(self.jobs, lambda _: 1.0).items()}

    @property
    def job_names(self) -> tuple[str, ...]:
        return self.reported if len(self.reported) > 1 else ()

    @classmethod
    def of(cls, sections: Sections, jobs: tuple[JobBound, ...], *, in_files: bool) -> JobWorkload:
        lines = on_target(sections, in_files=in_files)
        random = any(job.kind.startswith("rand") for job in jobs)
        share = max(job.write_share for job in jobs)
        only = "write" if share == 1 and all(job.write_share == 1 for job in jobs) else "rw"
        kind = only if share else "read"
        engines = {job.engine for job in jobs}
        timed = all(job.runtime is not None for job in jobs)
        whole = chained(jobs, lambda job: job.ramp + (job.runtime or 0.0))
        without_ramp = chained(jobs, lambda job: job.runtime or 0.0)
        values: dict[str, Any] = {
            "rw": f"rand{kind}" if random else kind,
            "bs": max(job.bs[1] for job in jobs),
            "iodepth": _side_by_side(jobs),
            "rwmixread": int((1 - share) * 100),
            "runtime": without_ramp if timed else None,
            "ramp": whole - without_ramp,
            "ioengine": "mmap" if "mmap" in engines else min(engines) if engines <= SYNCHRONOUS else "libaio",
            "direct": all(job.direct for job in jobs),
            "new": in_files,
            # A rate limit or think time lets disks wait on purpose.
            "fio": {"rate": 1} if any(job.pace or job.think for job in jobs) else {},
        }
        return cls.model_construct(
            **values, sections=lines, in_files=in_files, jobs=jobs, reported=reported_names(sections)
        )

    def content(self) -> Any:
        return self.sections

    def on(self, memory: int) -> Workload:  # noqa: ARG002 - sizes of a job file do not depend on memory
        return self

    def settled(self) -> Workload:
        return self

    def problems(self) -> Iterator[Problem]:
        for job in self.jobs:
            if job.direct and job.engine == "mmap":
                yield Problem("job", f"[{job.name}]: mmap always uses the page cache; write direct=0")
        if self.in_files:
            sized = {name for job in self.jobs if _has_size(job) for name in file_names(job.file_names) if name}
            for job in self.jobs:
                if not _has_size(job) and not (job.file_names and sized.issuperset(file_names(job.file_names))):
                    remedy = f"write set: {{{job.name}.size: 1g}}"
                    yield Problem("job", f"[{job.name}] has no size, which files in a file system need; {remedy}")

    @property
    def under_way(self) -> int:
        return self.iodepth

    @property
    def is_timed(self) -> bool:
        return any(job.runtime is not None for job in self.jobs)

    def passed(self, span: int) -> int:
        return self.moved(span)

    def timed(self, span: int) -> float:
        return chained(self.jobs, lambda job: float(job.ramp + job.seconds(span)))

    def moved(self, span: int) -> int:
        return sum(job.moved(span) for job in self.jobs)

    def requests(self, span: int) -> float:
        return float(sum(job.moved(span) / job.bs[0] for job in self.jobs))

    def span(self, capacity: int, devices: int = 1) -> int:  # noqa: ARG002 - each job has a region of its own
        return capacity

    @property
    def lays_out(self) -> bool:
        return self.in_files

    def fileset(self, capacity: int) -> FileSet:
        """Return all files as one. A name that several jobs use counts once."""
        named: dict[str, int] = {}
        total = 0
        for job in self.jobs:
            if not _has_size(job):
                continue
            size = job.laid_out(capacity)
            if job.file_names:
                named[job.file_names] = max(size, named.get(job.file_names, 0))
            else:
                total += size
        return FileSet(1, 1, total + sum(named.values()))

    def files_misfit(self, capacity: int) -> Problem | None:
        if any(job.fills for job in self.jobs) or (total := self.fileset(capacity).total) <= capacity:
            return None
        remedy = "write a smaller size, for example with `set: {size: …}`"
        files = f"its files would take {format_size(total)}"
        return Problem("job", f"{files}; at least {format_size(capacity // 2**20 * 2**20)} are free; {remedy}")

    def misfit(self, capacity: int, devices: int) -> Problem | None:  # noqa: ARG002
        for job in self.jobs:
            if (end := job.end(capacity)) > capacity:
                there = format_size(capacity // 2**20 * 2**20)
                return Problem("job", f"[{job.name}] needs {format_size(end)}, and there are at most {there}")
        return None

    def unaligned(self, sector: int) -> Problem | None:
        for job in self.jobs:
            if job.direct and (job.bs[0] % sector or job.bs[1] % sector):
                rule = f"direct I/O needs whole sectors of {format_size(sector)}"
                return Problem("job", f"[{job.name}]: {rule}, and {format_size(job.bs[0])} is not")
        return None

    @property
    def first(self) -> int:
        """Return the position of the first job among all sections."""
        return next(at for at, (name, _) in enumerate(self.sections) if not is_global(name))


def _has_size(job: JobBound) -> bool:
    return job.size is not None or job.file_size is not None or job.fills
