"""A workload that is a test of SNIA: the jobs of one round, one after another, and what all rounds do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

from pydantic import Field

from matrix_runner.base.model import Coords, Model, Variant, choices, constructed, texts
from matrix_runner.base.quantities import format_size, resolve_share
from matrix_runner.layers import Problem
from matrix_runner.statistics.stopping import WINDOW
from matrix_runner.work.fio.bounds import Option, option_text
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.jobs.file import Section
from matrix_runner.work.jobs.workload import JobWorkload, bounds_of
from matrix_runner.work.pts.output import TESTS, Point, PtsTest, pts_result
from matrix_runner.work.workload import Load, Result, Workload, Written, notes_of

NO_AGEING = "the model of the disk has no `ageing:`; use `model: ageing-ssd`, add `ageing:`, or remove `model:`"
RUNTIME = 60.0  # seconds of a point in a round
FILL = 2  # times that the device is written before the rounds
#: Seconds of fio in each round and beside each point: usual ones, and those of a busy host that emulates the processor.
_START, _JOB, _SLOW_START, _SLOW_JOB = 0.3, 0.2, 20.0, 5.0
_USUAL = 7  # rounds until the steady state, as an estimate


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
    def made(cls, preset: str, values: Mapping[str, Any]) -> "PtsWorkload":
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
        tested = pts_result(output, self.test, (self.points[0].name, *self.tracked), self.deviations, slow)
        return replace(tested, notes={**notes_of(output), **tested.notes})

    @property
    def points(self) -> tuple[Point, ...]:
        return points_of(self.preset, {"bs": self.jobs[0].bs[0]})

    @property
    def tracked(self) -> tuple[str, ...]:
        own = self.jobs[0].bs[0]
        return tuple(Point(read, size or own).name for read, size in self.test.tracked)

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

    def load(self, span: int) -> Load:
        """Return the load of the preconditioning, and the time of all rounds."""
        filled = FILL * self.used(span) if self.test.fill is not None else 0
        each, jobs = super().load(span).timed, len(self.jobs)
        return Load(
            moved=filled,
            written=float(filled),
            passed=filled,
            timed=(each + _START + _JOB * jobs) * min(self.rounds, 4 * self.test.apart + _USUAL),
            time_limit=each * self.rounds,
            restarts=(_SLOW_START + _SLOW_JOB * jobs) * self.rounds,
        )

    def recorded_bytes(self, span: int, counted: int, runtime: float, in_rounds: int | None) -> float:  # noqa: ARG002
        # The figures of a trial are those of its last rounds.
        return float(in_rounds or 0) + self.load(span).moved

    def _files_misfit(self, capacity: int) -> Problem | None:  # noqa: ARG002
        return Problem("preset", "tests of SNIA purge and fill a device; use a layout without a file system")

    def _device_misfit(self, capacity: int, devices: int) -> Problem | None:
        if devices > 1:
            return Problem("preset", f"tests of SNIA need one device, and there are {devices}; use `pick` or an array")
        largest = self.bs
        if self.used(capacity) < largest:
            return Problem("preset", f"the device is smaller than one request of {format_size(largest)}")
        return super()._device_misfit(capacity, devices)

    def _unaligned(self, sector: int) -> Problem | None:
        found = super()._unaligned(sector)
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


def is_pts(axes: Mapping[str, Any]) -> bool:
    return "rounds" in axes or _has_tests(axes)


def _has_tests(axes: Mapping[str, Any]) -> bool:
    return any(preset in TESTS for preset in axes.get("preset", ()))


def variants(written: Written) -> Iterator[Variant[Workload]]:
    if not _has_tests(written.axes):
        written.flaw("rounds", "'rounds' has no effect: it ends tests of SNIA (`preset`)")
        return
    if others := [preset for preset in written.axes["preset"] if preset not in TESTS]:
        what = f"{others[0]} is a program, and the others are tests of SNIA; write it in another workload"
        written.flaw("preset", what)
        return
    for preset in written.axes["preset"]:
        axes = {**written.axes, "preset": (preset,)}
        if TESTS[preset].each_size:
            axes = {"bs": TESTS[preset].sizes, **axes}
        yield from _variants(written, preset, axes)


def _variants(written: Written, preset: str, axes: Mapping[str, tuple[Any, ...]]) -> Iterator[Variant[Workload]]:
    several = [f"workload.{axis}" for axis, values in axes.items() if len(values) > 1]
    several += ["workload.preset"] if len(written.axes["preset"]) > 1 else []
    for choice in choices(axes):
        fields = {key: one for key, one in choice.values.items() if key in WorkloadKeys.model_fields}
        shown = texts(constructed(WorkloadKeys, fields), fields)
        shown |= {key: str(one) for key, one in choice.values.items() if key in {"preset", "rounds"}}
        coords: Coords = (
            ("workload", written.name),
            *((f"workload.{key}", shown[key]) for key in ("preset", *choice.values) if key in shown),
        )
        coords = tuple(dict(coords).items())
        problems = problems_of(preset, choice.values)
        work = None if problems else PtsWorkload.made(preset, choice.values)
        problems += work.slow_problems(written.slow) if work else ()
        written.report(problems, coords, choice)
        if work and not problems:
            yield written.variant(work, coords, several)
