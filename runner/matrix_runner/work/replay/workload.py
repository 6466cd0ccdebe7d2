"""A workload that replays a trace: its requests at their times, on the top of the layout."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from matrix_runner.base.model import (
    ChangeSchema,
    Choice,
    Coords,
    Model,
    Variant,
    as_tuple,
    choices,
    constructed,
    scalar_or_list,
    texts,
)
from matrix_runner.base.quantities import format_size, resolve_memory, resolve_share
from matrix_runner.layers import Problem
from matrix_runner.work.fio.keys import WorkloadKeys
from matrix_runner.work.fio.output import Direction, Figures
from matrix_runner.work.fio.workload import FioWorkload
from matrix_runner.work.replay.trace import ACTIONS, READ, WRITE, Trace
from matrix_runner.work.workload import Load, NotReported, ReplayReport, Result, Workload, Written, parse_report

#: The file of requests beside the scripts of a cell, and the largest sector of a disk.
FILE, SECTOR = "trace.txt", 4096
_MOST_REPORTED = 1e9
#: Of one replay: fio and its logs keep all of them in the memory of the rig.
MOST_REQUESTS = 250_000
#: The keys of a workload that a replay has, beside `replay` and `speed`.
KEYS = frozenset({"runtime", "iodepth", "size", "direct"})
_DEPTH = 32
#: Seconds for the start of fio, before the first request: once, and for each request.
LEAD, LEAD_EACH = 1.0, 20e-6


def _read(value: object) -> object:
    traces = as_tuple(value)
    if not all(isinstance(one, Trace) for one in traces):
        raise ValueError("write the path of a trace, relative to this file, like traces/web.log")
    return traces


_Traces = Annotated[
    tuple[Any, ...],
    BeforeValidator(_read),
    PlainSerializer(lambda traces: [one.digest for one in traces]),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
    ChangeSchema(scalar_or_list),
]


_Speed = Annotated[float, Field(ge=0.01, le=100, strict=False)]


class ReplayKeys(Model):
    replay: _Traces | None = Field(
        None, description="a trace to replay, relative to the matrix: an iolog of fio or a binary file of blktrace"
    )
    speed: Annotated[tuple[_Speed, ...], BeforeValidator(as_tuple), ChangeSchema(scalar_or_list)] | None = Field(
        None, description="replay: how many times faster than recorded its requests begin; 1 if not given"
    )


class ReplayWorkload(FioWorkload):
    """The keys of a workload have the bounds of the requests."""

    kind: ClassVar[str] = "replay"
    job_template: ClassVar[str] = "replay.fio"

    trace: Any = None
    speed: float = 1.0
    count: int = 0  # requests of the trace that are replayed
    moves: tuple[int, int] = (0, 0)  # bytes that it reads, and that it writes
    least: int = 512  # the smallest request
    given: Any = None  # the keys as written

    @classmethod
    def of(cls, trace: Trace, speed: float, given: dict[str, Any]) -> "ReplayWorkload":
        runtime = given.get("runtime")
        count = len(trace.times) if runtime is None else trace.until(runtime * speed * 1e6)
        moved, sizes = [0, 0], trace.sizes[:count]
        for action, size in zip(trace.actions, sizes, strict=False):
            if action <= WRITE:
                moved[action] += size
        share = moved[WRITE] / max(1, sum(moved))
        values: dict[str, Any] = {
            "rw": "randrw" if 0 < share < 1 else "randwrite" if share else "randread",
            "bs": max(sizes, default=0),
            "iodepth": min(given.get("iodepth", _DEPTH), max(1, count)),
            "rwmixread": round((1 - share) * 100),
            "runtime": max(trace.times[max(count, 1) - 1] / speed / 1e6, 1e-3),
            "ioengine": "psync",
            "direct": given.get("direct", True),
            "size": given.get("size"),
        }
        own: dict[str, Any] = {"trace": trace, "speed": speed, "count": count, "moves": tuple(moved), "given": given}
        return cls.model_construct(**values, **own, least=min(filter(None, sizes), default=512))

    def content(self) -> Any:
        return {"replay": self.trace.digest, "speed": self.speed, **self.given}

    def problems(self) -> Iterator[Problem]:
        requests = self.trace.actions[: self.count]
        if READ not in requests and WRITE not in requests:
            yield Problem("runtime", "no read or write of the trace begins in this time")
        elif self.count > MOST_REQUESTS:
            remedy = "write `runtime` to replay only its beginning"
            yield Problem("replay", f"{self.count:,} requests; at most {MOST_REQUESTS:,} are possible; {remedy}")

    def script_values(self, span: int, slow: int) -> Mapping[str, object]:  # noqa: ARG002
        return {"file": FILE}

    def script_files(self, span: int, slow: int) -> Mapping[str, str]:
        """Return a line for each request: milliseconds since the start of fio, action, offset and length."""
        trace, pace, lead = self.trace, 1000 * self.speed / slow, round(self.lead * 1000)
        places = placed(list(zip(trace.offsets[: self.count], trace.sizes, strict=False)), span)
        found = zip(trace.times, trace.actions, places, strict=False)
        lines = (f"{lead + int(time / pace)} {ACTIONS[action]} {at} {size}" for time, action, (at, size) in found)
        return {FILE: "\n".join((*lines, ""))}

    def read_output(self, output: str, report: str, slow: int) -> Result:
        read = self.read_fio(output)
        found = parse_replay(report)
        figures = with_replay(read.figures, found)
        return replace(read, figures=figures and figures.in_real_units(slow), replay=found.in_real_units(slow))

    @property
    def lead(self) -> float:
        """Return the seconds before the first request, in which fio starts."""
        return LEAD + LEAD_EACH * self.count

    @property
    def sizes(self) -> tuple[int, int]:
        return self.least, self.bs

    @property
    def write_share(self) -> float:
        return self.moves[WRITE] / max(1, sum(self.moves))

    @property
    def pauses(self) -> bool:
        return True

    @property
    def is_timed(self) -> bool:
        return False

    @property
    def under_way(self) -> int:
        return self.iodepth

    def load(self, span: int) -> Load:  # noqa: ARG002 - the times of the trace end it
        written, passed = float(self.moves[WRITE]), sum(self.moves)
        timed = self.lead + (self.runtime or 0.0)
        return Load(written=written, passed=passed, requests=float(self.count), timed=timed)

    def misfit(self, capacity: int, devices: int | None, sector: int) -> Problem | None:  # noqa: ARG002 - whole sectors
        if devices is None:
            return self._larger_than(self.fileset(capacity).each) or self._files_misfit(capacity)
        if devices > 1:
            return Problem("replay", "a replay needs one device; `pick` chooses one of several")
        region = capacity if self.size is None else resolve_share(self.size, capacity)
        if region > capacity:
            room = format_size(capacity // 2**20 * 2**20)
            return Problem("size", f"{format_size(region)} are needed, and there are at most {room}")
        return self._larger_than(region)

    def _larger_than(self, region: int) -> Problem | None:
        if self.bs <= region:
            return None
        field = "replay" if self.size is None else "size"
        return Problem(field, f"{format_size(region)} are less than one request of {format_size(self.bs)}")


def placed(requests: list[tuple[int, int]], region: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each request in a region, in whole sectors.

    If the requests do not fit, their offsets shrink in proportion. A request that continues an earlier one still does,
    so that sequential work stays sequential, and one at a known offset is at the same place again.
    """
    region = region // SECTOR * SECTOR
    extent = max(offset + size for offset, size in requests)
    if _up(extent) <= region:
        for offset, size in requests:
            at = offset // SECTOR * SECTOR
            yield at, _up(offset + size) - at if size else 0
        return
    known: dict[int, int] = {}
    for offset, size in requests:
        if not size:
            yield 0, 0
            continue
        length = min(_up(size), region)
        at = known.get(offset, offset * region // extent // SECTOR * SECTOR)
        if at + length > region:
            at = 0 if offset in known else region - length
        known[offset], known[offset + size] = at, at + length
        yield at, length


def _up(size: int) -> int:
    return -(-size // SECTOR) * SECTOR


def parse_replay(text: str) -> ReplayReport:
    """Raise NotReported for a text that the script does not print."""
    names = ("requests", "late", "worst", "seconds")
    found = parse_report(text, "replay", names, _MOST_REPORTED)
    requests, late, worst, seconds = (found[name] for name in names)
    if requests < 1 or late > requests or seconds <= 0:
        raise NotReported(f"the replay began {requests:g} requests in {seconds:g} s")
    return ReplayReport(int(requests), int(late), float(worst), float(seconds))


def with_replay(figures: Figures | None, report: ReplayReport | None) -> Figures | None:
    """Correct the rates of a replay: fio also counts the time before the first request."""
    if figures is None or report is None:
        return figures

    def corrected(side: Direction | None) -> Direction | None:
        return side and replace(side, bw=side.bytes / report.seconds, iops=side.ios / report.seconds)

    sides: dict[str, Any] = {name: corrected(side) for name, side in figures.all_sides.items()}
    return replace(figures, **sides, runtime=report.seconds)


_OWN = ("replay", "speed")


def is_replay(axes: Mapping[str, Any]) -> bool:
    return not axes.keys().isdisjoint(_OWN)


def variants(written: Written) -> Iterator[Variant[Workload]]:
    if "replay" not in written.axes:
        written.flaw("speed", "'speed' has no effect without `replay`")
        return
    if other := next((axis for axis in written.axes if axis not in {*KEYS, *_OWN}), ""):
        written.flaw(other, f"the trace of `replay` says what runs; remove `{other}`")
        return
    for choice in choices(written.axes):
        yield from _variant(written, choice)


def _variant(written: Written, choice: Choice) -> Iterator[Variant[Workload]]:
    trace: Trace = choice.values["replay"]
    given = {key: value for key, value in choice.values.items() if key in KEYS}
    shown = texts(constructed(WorkloadKeys, given), given)
    if "size" in given:
        given["size"] = resolve_memory(given["size"], written.memory)
    work = ReplayWorkload.of(trace, choice.values.get("speed", 1.0), given)
    if "speed" in choice.values:
        shown["speed"] = f"{work.speed:g}"
    coords: Coords = (
        ("workload", written.name),
        ("workload.replay", trace.path),
        *((f"workload.{key}", text) for key, text in shown.items()),
    )
    problems = [*work.problems()]
    written.report(problems, coords, choice)
    if not problems:
        if trace.left_out:
            written.note(f"a replay leaves out the {trace.left_out:,} trims of {trace}")
        yield written.variant(work, coords)
