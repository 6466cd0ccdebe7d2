"""Jobs of fio that show what a disk does: those of whole devices without pauses, as a calibration takes them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf

from matrix_runner.answers.fio_import import Group
from matrix_runner.base.quantities import parse_size
from matrix_runner.simdisks.loop import DIRECTIONS, PERCENTILES, Direction, Figures, Pattern
from matrix_runner.simdisks.measured import Job
from matrix_runner.statistics.percentile import percentiles
from matrix_runner.work.fio.output import Direction as Side

#: Of options that pace requests, choose other places or change their size.
_OTHER = (
    *("rate", "rate_iops", "thinktime", "zonesize", "zonemode", "bsrange", "bssplit", "random_distribution"),
    *("rwmixwrite", "read_iolog", "fdatasync", "latency_target", "verify", "steadystate"),
)
_READS = {"read": 1.0, "randread": 1.0, "write": 0.0, "randwrite": 0.0}
_ONE_AT_A_TIME = {"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"}


DEEPEST = 256
#: Requests a second, bytes a second and seconds that a disk can have.
_RATES, _BANDWIDTHS, _SHORTEST = (1e-2, 1e8), (1e3, 1e12), 1e-9


class Unfit(ValueError):
    """The job says too little about a disk alone: why."""


def disk_job(group: Group, path: str, size: int | None) -> Job:
    """Return what a group of jobs says about a disk of this size (None: unknown); raise `Unfit` otherwise."""
    options = group.options
    if group.figures is None:
        raise Unfit(group.failure)
    if mixture := next((name for name, value in options.items() if "|" in value), ""):
        raise Unfit(f"several jobs with different {mixture} at the same time")
    if other := next((name for name in _OTHER if name in options), ""):
        raise Unfit(f"the option {other}")
    if options.get("direct", "0") not in {"1", "true"}:
        raise Unfit("requests through the page cache (no direct=1)")
    pattern = _pattern(options, size, group.figures.runtime)
    figures: dict[Direction, Figures | None] = {
        side: _figures(found, group.percentiles.get(side, {}), pattern.block) if found else None
        for side in DIRECTIONS
        for found in [group.figures.sides.get(side)]
    }
    if "trim" in group.figures.sides or (pattern.reads == 1) > (figures["write"] is None):
        raise Unfit("trims, or another direction than declared")
    return Job(path, pattern, figures["read"], figures["write"])


def matrix_text(name: str, size: int, jobs: Mapping[str, Pattern], *, fill: bool = False) -> str:
    """Return the matrix that runs these jobs on a disk of this size, alone. `fill`: after it was written once."""
    layers = "disk, precondition: {how: fill}" if fill else "disk"
    keys = {job: ", ".join(f"{key}: {value}" for key, value in _keys(one)) for job, one in jobs.items()}
    lines = [f"name: {name}", f"disks: {{count: 1, size: {size}B}}", f"layouts: {{alone: [{layers}]}}", "repeat: 1"]
    return "\n".join([*lines, "workloads:", *(f"  {job}: {{{text}}}" for job, text in keys.items())]) + "\n"


def _keys(pattern: Pattern) -> Iterator[tuple[str, object]]:
    """Yield the keys of a workload, of which `_pattern` makes this pattern again."""
    way = {1.0: "read", 0.0: "write"}.get(pattern.reads, "rw")
    yield "rw", f"rand{way}" if pattern.random else way
    if way == "rw":
        yield "rwmixread", round(pattern.reads * 100)
    yield from {"bs": f"{pattern.block}B", "iodepth": pattern.depth, "runtime": f"{pattern.seconds:g}s"}.items()
    if (part := pattern.last - pattern.first) < 1:
        yield from {"offset": f"{pattern.first:.0%}", "size": f"{part:.0%}"}.items()
    if pattern.safe:
        yield "sync", "dsync"


def _pattern(options: Mapping[str, str], size: int | None, seconds: float) -> Pattern:
    way, processes = options.get("rw", "read"), _number(options, "numjobs", 1)
    random = way.startswith("rand")
    if way not in _READS and way != "randrw":
        raise Unfit(f"rw={way}")
    if not random and processes > 1:
        raise Unfit("several sequential processes")
    engine = options.get("ioengine", "psync")
    depth = processes * (1 if engine in _ONE_AT_A_TIME else _number(options, "iodepth", 1))
    if depth > DEEPEST:
        raise Unfit(f"more than {DEEPEST} requests in flight, most of which wait in the kernel")
    first, part = _share(options.get("offset", "0"), size), _share(options.get("size", "100%"), size)
    safe = options.get("fsync") == "1" or options.get("sync", "0") not in {"0", "none", "false"}
    reads = _READS.get(way, _number(options, "rwmixread", 50) / 100)
    if depth < 1 or not 0 <= reads <= 1:
        raise Unfit("iodepth, numjobs or rwmixread that fio refuses")
    if first >= 1:
        raise Unfit("an offset at or beyond the end of the disk (--size)")
    return Pattern(
        depth,
        reads,
        _bytes(options.get("bs", "4KiB")),
        random=random,
        first=first,
        last=min(1.0, first + (part or 1.0)),
        safe=safe and reads < 1,
        seconds=float(f"{seconds:.2g}"),
    )


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    with suppress(ValueError):
        return int(options.get(name, default))
    raise Unfit(f"{name}={options[name]}")


def _bytes(text: str) -> int:
    with suppress(ValueError):
        return parse_size(text) or 1
    raise Unfit(f"bs={text}")


def _share(text: str, size: int | None) -> float:
    if text.endswith("%"):
        with suppress(ValueError):
            if 0 <= (share := float(text.removesuffix("%")) / 100) <= 1:
                return share
        raise Unfit(f"an offset or a size of {text}")
    length = _bytes(text) if text != "0" else 0
    if length and not size:
        raise Unfit("an offset or a size in bytes, and the size of the disk is unknown (--size)")
    return length / size if size else 0.0


def _figures(side: Side, own: Mapping[float, float], block: int) -> Figures:
    """Return seconds. Without latencies, the percentiles are empty, and the mean follows from the rate."""
    mean = (side.lat_mean or 0.0) / 1e9 or 1 / max(side.iops, _RATES[0])
    figures = ((side.iops, *_RATES), (side.iops * block, *_BANDWIDTHS), (mean, _SHORTEST, inf))
    if not all(low <= figure <= high for figure, low, high in figures):
        raise Unfit("rates or latencies that no disk has")
    values: list[float | None] = [own.get(float(share)) for share in PERCENTILES]
    if side.latencies:
        values = [*percentiles(side.latencies.unpack(), PERCENTILES)]
    known = tuple(value / 1e9 for value in values if value)
    return Figures(side.iops, mean, (side.lat_max or 0.0) / 1e9, 0.0, known if len(known) == len(values) else ())
