"""A workload that replays a trace: its requests at their times, on the top of the layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from matrix_runner.base.axes import as_tuple, scalar_or_list
from matrix_runner.base.model import ChangeSchema, Model
from matrix_runner.base.quantities import format_size, resolve_share
from matrix_runner.layers import Problem
from matrix_runner.work.fio.workload import Workload
from matrix_runner.work.replay.output import parse_replay, with_replay
from matrix_runner.work.replay.requests import FILE, trace_text
from matrix_runner.work.replay.trace import READ, WRITE, Trace

if TYPE_CHECKING:
    from matrix_runner.work.result import Result

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


class ReplayWorkload(Workload):
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
    def of(cls, trace: Trace, speed: float, given: dict[str, Any]) -> ReplayWorkload:
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

    def settled(self) -> Workload:
        return self

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
        return {FILE: trace_text(self, span, slow)}

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
    def verifies(self) -> bool:
        return False

    @property
    def trims(self) -> bool:
        return False

    @property
    def pauses(self) -> bool:
        return True

    @property
    def is_timed(self) -> bool:
        return False

    @property
    def under_way(self) -> int:
        return self.iodepth

    def timed(self, span: int) -> float:  # noqa: ARG002 - the times of the trace end it
        return self.lead + (self.runtime or 0.0)

    def moved(self, span: int) -> int:  # noqa: ARG002
        return 0

    def written(self, span: int) -> float:  # noqa: ARG002
        return float(self.moves[WRITE])

    def passed(self, span: int) -> int:  # noqa: ARG002
        return sum(self.moves)

    def requests(self, span: int) -> float:  # noqa: ARG002
        return float(self.count)

    def unaligned(self, sector: int) -> Problem | None:  # noqa: ARG002 - requests are aligned to sectors
        return None

    def misfit(self, capacity: int, devices: int) -> Problem | None:
        if devices > 1:
            return Problem("replay", "a replay needs one device; `pick` chooses one of several")
        region = capacity if self.size is None else resolve_share(self.size, capacity)
        if region > capacity:
            room = format_size(capacity // 2**20 * 2**20)
            return Problem("size", f"{format_size(region)} are needed, and there are at most {room}")
        return self._larger_than(region)

    def files_misfit(self, capacity: int) -> Problem | None:
        return self._larger_than(self.fileset(capacity).each) or super().files_misfit(capacity)

    def _larger_than(self, region: int) -> Problem | None:
        if self.bs <= region:
            return None
        field = "replay" if self.size is None else "size"
        return Problem(field, f"{format_size(region)} are less than one request of {format_size(self.bs)}")
