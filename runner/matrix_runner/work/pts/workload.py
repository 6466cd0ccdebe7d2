"""The tests of SNIA's Performance Test Specification 2.0.2: their points, figures, and the jobs of one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal

from pydantic import Field

from matrix_runner.base.model import Model
from matrix_runner.base.quantities import format_size, resolve_share
from matrix_runner.layers import Problem
from matrix_runner.statistics.steady import WINDOW
from matrix_runner.work.fio.values import Option, option_text
from matrix_runner.work.jobs.file import Section
from matrix_runner.work.jobs.workload import JobWorkload, bounds_of
from matrix_runner.work.pts.output import pts_result
from matrix_runner.work.result import Result, notes_of

KIB = 1024
NO_AGEING = "the model of the disk has no `ageing:`; use `model: ageing-ssd`, add `ageing:`, or remove `model:`"
RUNTIME = 60.0  # seconds of a point in a round
FILL = 2  # times that the device is written before the rounds
#: Seconds of fio in each round and beside each point: usual ones, and those of a busy host that emulates the processor.
_START, _JOB, _SLOW_START, _SLOW_JOB = 0.3, 0.2, 20.0, 5.0
_USUAL = 7  # rounds until the steady state, as an estimate


@dataclass(frozen=True, slots=True)
class Point:
    read: int  # per cent of the requests
    size: int  # bytes of a request

    @property
    def name(self) -> str:
        size = f"{self.size // KIB}k" if self.size % KIB == 0 else str(self.size)
        return f"r{self.read}w{100 - self.read}-{size}"


Figure = Literal["iops", "bw", "lat"]


@dataclass(frozen=True, slots=True)
class PtsTest:
    title: str
    mixes: tuple[int, ...]  # per cent of reads, in the order of the specification
    sizes: tuple[int, ...]
    tracked: tuple[tuple[int, int], ...]  # mixes and sizes of the points that must be steady
    figure: Figure  # of these points
    iodepth: int
    numjobs: int
    rounds: int
    random: bool = True
    #: A device is written twice before, in requests of this size; 0: its own size; None: it stays purged.
    fill: int | None = 128 * KIB
    apart: int = 1  # rounds between the values of a window
    capacities: int = 0  # it ends when the capacity is written as often; 0: no such end
    fixed: frozenset[str] = frozenset()  # keys that the specification sets
    each_size: bool = False  # each size is a test of its own, with its own purge

    @property
    def is_curve(self) -> bool:
        """Return whether the course of the rounds is its result, with or without a steady state."""
        return self.capacities > 0


_IOPS_SIZES = tuple(size * KIB for size in (1024, 128, 64, 32, 16, 8, 4))
TESTS: Mapping[str, PtsTest] = {
    "snia-iops": PtsTest(
        "IOPS",
        mixes=(100, 95, 65, 50, 35, 5, 0),
        sizes=(*_IOPS_SIZES, 512),
        tracked=((0, 4 * KIB), (65, 64 * KIB), (100, 1024 * KIB)),
        figure="iops",
        iodepth=32,
        numjobs=4,
        rounds=25,
    ),
    "snia-throughput": PtsTest(
        "throughput",
        mixes=(100, 0),
        sizes=(1024 * KIB, 128 * KIB),
        tracked=((0, 0),),
        figure="bw",
        iodepth=32,
        numjobs=1,
        rounds=25,
        random=False,
        fill=0,
        each_size=True,
    ),
    "snia-latency": PtsTest(
        "latency",
        mixes=(100, 65, 0),
        sizes=(8 * KIB, 4 * KIB, 512),
        tracked=((0, 4 * KIB),),
        figure="lat",
        iodepth=1,
        numjobs=1,
        rounds=25,
        fixed=frozenset({"iodepth", "numjobs"}),
    ),
    "snia-wsat": PtsTest(
        "write saturation",
        mixes=(0,),
        sizes=(4 * KIB,),
        tracked=((0, 4 * KIB),),
        figure="iops",
        iodepth=32,
        numjobs=4,
        rounds=360,
        fill=None,
        apart=30,
        capacities=4,
    ),
}


class PtsKeys(Model):
    rounds: int | None = Field(
        None, ge=WINDOW, le=1440, description="tests of SNIA: largest number of rounds; a steady test ends earlier"
    )


class PtsWorkload(JobWorkload):
    """The jobs are those of one round, one after another."""

    kind: ClassVar[str] = "pts"

    preset: str = ""
    rounds: int = 25
    active: int | str = "100%"  # the part of the device that is used

    @classmethod
    def made(cls, preset: str, values: Mapping[str, Any]) -> PtsWorkload:
        """Make the workload from the written values, with at most one `bs`."""
        known = TESTS[preset]
        sections = sections_of(preset, values)
        bounds, _ = bounds_of(sections)
        own = {"preset": preset, "rounds": values.get("rounds", known.rounds), "active": values.get("size", "100%")}
        return cls.of(sections, bounds, in_files=False).model_copy(update=own)

    @property
    def test(self) -> PtsTest:
        return TESTS[self.preset]

    def content(self) -> Any:
        return {"preset": self.preset, "rounds": self.rounds, "sections": self.sections}

    def script_values(self, span: int, slow: int) -> Mapping[str, object]:  # noqa: ARG002
        return {
            "title": self.test.title,
            "tracked": self.tracked,
            "figure": self.test.figure,
            "rounds": self.rounds,
            "apart": self.test.apart,
            "fill": self.fill,
            "times": FILL,
            "active": self.active,
            "most_written": self.test.capacities * span,
        }

    @property
    def has_whole_runtime(self) -> bool:
        return False  # its figures are those of the last rounds

    def script_failed(self, status: int, report: str) -> bool:  # noqa: ARG002
        return status != 0

    def read_output(self, output: str, report: str, slow: int) -> Result:  # noqa: ARG002
        tested = pts_result(output, self, slow)
        return replace(tested, notes={**notes_of(output), **tested.notes})

    @property
    def points(self) -> tuple[Point, ...]:
        return points_of(self.preset, {"bs": self.jobs[0].bs[0]})

    @property
    def tracked(self) -> tuple[str, ...]:
        own = self.jobs[0].bs[0]
        return tuple(Point(read, size or own).name for read, size in self.test.tracked)

    @property
    def job_names(self) -> tuple[str, ...]:
        return self.reported if len(self.reported) > 1 else ()

    @property
    def trims(self) -> bool:
        return True  # the purge

    def trim_problem(self, why: str) -> Problem:
        return Problem("preset", f"a test of SNIA begins with a purge, which discards the device: {why or NO_AGEING}")

    @property
    def fill(self) -> int | None:
        """Return the size of the requests that fill the device; None if it stays purged."""
        return self.jobs[0].bs[0] if self.test.fill == 0 else self.test.fill

    def used(self, span: int) -> int:
        return resolve_share(self.active, span)

    @property
    def deviations(self) -> str:
        """Return how the run differs from the specification; empty if it does not."""
        runtime = self.jobs[0].runtime or 0.0
        found = [f"{runtime:g} s instead of 60 s for each point"] if runtime != RUNTIME else []
        if self.rounds < self.test.rounds:
            found.append(f"at most {self.rounds} rounds instead of {self.test.rounds}")
        return "; ".join(found)

    def moved(self, span: int) -> int:
        return FILL * self.used(span) if self.test.fill is not None else 0

    def written(self, span: int) -> float:
        return float(self.moved(span))

    def recorded_bytes(self, span: int, counted: int, runtime: float, in_rounds: int | None) -> float:  # noqa: ARG002
        # The figures of a trial are those of its last rounds.
        return float(in_rounds or 0) + self.moved(span)

    def timed(self, span: int) -> float:
        each = super().timed(span) + _START + _JOB * len(self.jobs)
        return each * min(self.rounds, 4 * self.test.apart + _USUAL)

    def time_limit(self, span: int) -> float:
        return super().timed(span) * self.rounds

    @property
    def restarts(self) -> float:
        return (_SLOW_START + _SLOW_JOB * len(self.jobs)) * self.rounds

    def files_misfit(self, capacity: int) -> Problem | None:  # noqa: ARG002
        return Problem("preset", "tests of SNIA purge and fill a device; use a layout without a file system")

    def misfit(self, capacity: int, devices: int) -> Problem | None:
        if devices > 1:
            return Problem("preset", f"tests of SNIA need one device, and there are {devices}; use `pick` or an array")
        largest = self.bs
        if self.used(capacity) < largest:
            return Problem("preset", f"the device is smaller than one request of {format_size(largest)}")
        return super().misfit(capacity, devices)

    def unaligned(self, sector: int) -> Problem | None:
        found = super().unaligned(sector)
        return found and Problem("preset", found.message)


def points_of(preset: str, values: Mapping[str, Any]) -> tuple[Point, ...]:
    test = TESTS[preset]
    sizes: Sequence[int] = (values["bs"],) if test.each_size else test.sizes
    return tuple(Point(read, size) for read, size in product(test.mixes, sizes))


def sections_of(preset: str, values: Mapping[str, Any]) -> tuple[Section, ...]:
    test = TESTS[preset]
    common = {
        "ioengine": values.get("ioengine", "libaio"),
        "direct": "1",
        "iodepth": str(values.get("iodepth", test.iodepth)),
        "numjobs": str(values.get("numjobs", test.numjobs)),
        "time_based": "1",
        "runtime": f"{round(values.get('runtime', RUNTIME) * 1000)}ms",
        "size": option_text(values.get("size", "100%")),
        "refill_buffers": "1",
        "group_reporting": "1",
        "stonewall": "1",
        **({"norandommap": "1"} if test.random else {}),
    }
    return tuple(_section(point, test, common) for point in points_of(preset, values))


def _section(point: Point, test: PtsTest, common: Mapping[str, str]) -> Section:
    only = {100: "read", 0: "write"}.get(point.read)
    options = {"rw": f"rand{only or 'rw'}" if test.random else only or "rw", "bs": str(point.size)}
    options |= {} if only else {"rwmixread": str(point.read)}
    return Section(point.name, tuple(Option(key, value) for key, value in {**options, **common}.items()))


def problems_of(preset: str, values: Mapping[str, Any]) -> list[Problem]:
    """Return the keys that a test of SNIA sets itself, or that have no meaning for it."""
    test = TESTS[preset]
    free = {"preset", "iodepth", "numjobs", "runtime", "size", "ioengine", "rounds"}
    free |= {"bs"} if test.each_size else set()
    found = [
        Problem(key, f"`{key}` is set by the specification for {preset}; remove it")
        for key in values
        if key not in free or key in test.fixed
    ]
    bs = values.get("bs")
    if test.each_size and bs is not None and bs not in test.sizes:
        sizes = " and ".join(map(format_size, test.sizes))
        found.append(Problem("bs", f"'{format_size(bs)}': {preset} has requests of {sizes}"))
    if isinstance(size := values.get("size"), str) and not size.endswith("%"):
        found.append(Problem("size", f"'{size}' is no part of a device; write a percentage, like 75%"))
    return found
