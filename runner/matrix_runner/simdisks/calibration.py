"""The calibration of a disk: jobs, those that are held out, the model, and what the jobs do not identify."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from matrix_runner.base.errors import BadInput
from matrix_runner.simdisks.clib import Library
from matrix_runner.simdisks.disk import Physics
from matrix_runner.simdisks.fit import Fit, Interval, Subject, keys_of, zones_of
from matrix_runner.simdisks.loop import Direction, Host, Pattern
from matrix_runner.simdisks.measured import Job, spots, turn

#: A disk that takes longer for a random read has an arm.
SLOWEST_FLASH = 2e-3
#: The jobs that identify a key, as fio's options.
READS, DEEP = "rw=randread bs=4k iodepth=1", "rw=randread bs=4k, iodepth 2 to 32"
WRITES, DEEP_WRITES = "rw=randwrite bs=4k iodepth=1", "rw=randwrite bs=4k, iodepth 2 to 32"
CLIFF = "rw=randwrite bs=4k with percentiles: most writes are fast, and few wait"
SEQUENCE, SAFE = "rw=read bs=256k, at several offsets", "rw=randwrite bs=4k iodepth=1 sync=1"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a model file that can be fitted."""

    name: str
    value: str  # of the fit
    jobs: str
    unit: str = ""


KEYS: Mapping[str, tuple[Key, ...]] = {
    "hdd": (
        Key("rpm", "rpm", READS),
        Key("seek.track", "track", READS, "s"),
        Key("seek.full", "full", READS, "s"),
        Key("queue", "queue", DEEP),
        Key("in_order", "in_order", DEEP),
        Key("write_cache.ranges", "ranges", DEEP_WRITES),
        Key("write_cache.choice", "choice", DEEP_WRITES),
    ),
    "ssd": (
        Key("read_latency", "read_latency", READS, "s"),
        Key("overhead", "overhead", DEEP, "s"),
        Key("channels", "channels", DEEP),
        Key("by_address", "by_address", DEEP, "true or false"),
        Key("bandwidth", "bandwidth", SEQUENCE, "B/s"),
        Key("write_latency", "write_latency", WRITES, "s"),
        Key("write_overhead", "write_overhead", DEEP_WRITES, "s"),
        Key("write_bandwidth", "write_bandwidth", "rw=write bs=256k", "B/s"),
        Key("flush", "flush", SAFE, "s"),
        Key("cliff.after", "cliff", CLIFF, "B"),
        Key("cliff.bandwidth", "cliff_rate", CLIFF, "B/s"),
    ),
}


@dataclass(frozen=True, slots=True)
class Estimate:
    key: Key
    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Unknown:
    """A key that the jobs do not identify: the model has a usual value."""

    name: str
    jobs: str


@dataclass(frozen=True, slots=True)
class Residual:
    pattern: Pattern
    direction: Direction
    measured: float
    modelled: float

    @property
    def off(self) -> float:
        return self.modelled / self.measured - 1


@dataclass(frozen=True, slots=True)
class Calibration:
    keys: Mapping[str, object]  # of the model file
    estimates: tuple[Estimate, ...]
    unknown: tuple[Unknown, ...]
    held_out: tuple[Residual, ...]  # of jobs that the fit did not see
    fitted: float  # the worst of the jobs that it saw


#: Of a random job, and the part of it that a sequential one needs.
SECONDS, IN_ORDER = 15.0, 0.25
PLACES, DEPTHS, LARGE = 16, (1, 2, 4, 8, 16, 32), 256 * 1024


def jobs_for(kind: str, *, writes: bool, seconds: float = SECONDS) -> dict[str, Pattern]:
    """Return the jobs that identify all keys of a disk; with `writes`, also those that destroy its content.

    `seconds`: the time of a random job.
    """
    found = {f"read-{depth}": Pattern(depth, 1.0) for depth in DEPTHS}
    found |= {f"large-{depth}": Pattern(depth, 1.0, 65536) for depth in (1, 8)}
    if kind == "hdd":
        starts = [round(number * 99 / (PLACES - 1)) / 100 for number in range(PLACES)]  # fio takes whole percents
        for number, first in enumerate(starts, 1):
            found[f"place-{number}"] = Pattern(4, 1.0, LARGE, random=False, first=first, last=first + 0.01)
        found["short"] = Pattern(1, 1.0, last=0.01)
    else:
        found["sequence"] = Pattern(8, 1.0, LARGE, random=False)
    if writes:
        found |= {f"write-{depth}": Pattern(depth, 0.0) for depth in DEPTHS}
        found |= {f"mixed-{depth}": Pattern(depth, 0.7) for depth in (1, 8)}
        found |= {"safe": Pattern(1, 0.0, safe=True), "write": Pattern(8, 0.0, LARGE, random=False)}
    return {name: replace(one, seconds=seconds * (1 if one.random else IN_ORDER)) for name, one in found.items()}


def hold_out(jobs: Sequence[Job]) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Return the jobs to fit, and the others.

    Of depths or places, the second one and every third after it are held out, but not the last. Without
    depths 4 and 8, the order that a disk fixes ahead would be unknown. Mixed jobs and larger blocks are held out.
    """
    several = defaultdict[tuple[object, ...], set[Pattern]](set)
    small = min((job.pattern.block for job in jobs if job.pattern.random), default=0)
    for one in (job.pattern for job in jobs):
        if one.reads in {0, 1} and not (one.random and one.block > small):
            width = round(one.last - one.first, 3)
            several[one.reads, one.block, one.random, one.safe, width].add(one)
    fitted = set[Pattern]()
    for group in several.values():
        ranked = sorted(group, key=lambda one: (one.first, one.depth))
        fitted |= {*group} - {*ranked[1:-1:3]}
    return (
        tuple(job for job in jobs if job.pattern in fitted),
        tuple(job for job in jobs if job.pattern not in fitted),
    )


def calibrate(
    library: Library,
    jobs: Sequence[Job],
    size: int,
    physics_of: Callable[[Mapping[str, object]], Physics],
    known: Mapping[str, object],
) -> Calibration:
    """Fit a model to jobs. `known`: keys that are not fitted."""
    fitted, held = hold_out(jobs)
    kind = known.get("kind") or kind_of(fitted)
    keys: dict[str, object] = {"kind": kind, **known}
    unknown = []
    if kind == "hdd" and not {"outer", "zones"} & keys.keys():
        places = [
            (
                (one.pattern.first + min(one.pattern.last, one.pattern.first + 0.1)) / 2,
                one.rate("read") * one.pattern.block,
            )
            for one in spots(fitted)
            if one.pattern.reads == 1 and not one.pattern.random
        ]
        keys |= zones_of(places or [(0.0, _USUAL_RATE)])
        unknown += [Unknown("zones", SEQUENCE)] if len(dict(places)) < 2 else []
    subject = Subject(keys, Host(size, turn(jobs)), fitted)
    fit = Fit(library, subject, physics_of)
    values = fit.run()
    intervals = fit.intervals(values)
    estimates = []
    for key in KEYS[str(kind)]:
        found = intervals.get(key.value)
        if found and (found.low, found.high) != (None, None):
            estimates.append(Estimate(key, values[key.value], found))
        elif key.name not in known:
            unknown.append(Unknown(key.name, key.jobs))
    keys = keys_of(subject, values)
    try:
        physics = physics_of(keys)
    except ValueError as error:
        raise BadInput("no model fits these jobs: a key is beyond its bounds", details=str(error)) from None

    def residuals(several: Sequence[Job]) -> list[Residual]:
        return [
            Residual(one.pattern, side, one.rate(side), modelled[side].iops if side in modelled else 0.0)
            for one in spots(several)
            for modelled in [fit.model(physics, one.pattern)]
            for side in one.jobs[0].figures
        ]

    worst = max((abs(one.off) for one in residuals(fitted)), default=1.0)
    return Calibration(keys, tuple(estimates), tuple(unknown), tuple(residuals(held)), worst)


_USUAL_RATE = 150e6


def kind_of(jobs: Sequence[Job]) -> str:
    """Return `hdd` for a disk with an arm. Raise BadInput if no job shows it."""
    alone = [
        job.read.mean / job.pattern.depth
        for job in jobs
        if job.read and job.pattern.random and job.pattern.reads == 1 and not job.stopped
    ]
    if not alone and not any(job.write and job.pattern.random and not job.stopped for job in jobs):
        raise BadInput(
            "no job has random reads or writes, so no model can be fitted", resolution=f"measure at least `{READS}`"
        )
    return "hdd" if alone and min(alone) > SLOWEST_FLASH else "ssd"
