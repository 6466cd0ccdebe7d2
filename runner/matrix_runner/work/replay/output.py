"""The line in which a script reports a replay: how late its requests began, and how long all took together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.text import lines_of

if TYPE_CHECKING:
    from matrix_runner.work.fio.output import Direction, Figures

_WORD = "replay\t"
_MOST = 1e9
#: A request is late if it begins this much after its time in the trace, in seconds.
LATE = 0.01
#: A replay fell behind if a larger share of its requests is late.
MOST_LATE = 0.01


class NotReported(HarnessBroken):
    pass


@dataclass(frozen=True, slots=True)
class ReplayReport:
    requests: int
    late: int
    worst: float  # the largest delay of a request, in seconds
    seconds: float  # from the time of the first request to the end of the last one

    @property
    def fell_behind(self) -> bool:
        return self.late > MOST_LATE * self.requests

    def in_real_units(self, slow: int) -> ReplayReport:
        return replace(self, worst=self.worst / slow, seconds=self.seconds / slow)

    def __str__(self) -> str:
        share = f"{self.late / self.requests:.1%} of {self.requests:,} requests began over {LATE * 1000:g} ms late"
        return f"{share}, at most {self.worst * 1000:,.0f} ms"


def split_replay(output: str) -> tuple[str, str]:
    """Split the output of a script into the rest, and the JSON of the line; empty without such a line."""
    lines = lines_of(output, keepends=True)
    found = [line for line in lines if line.startswith(_WORD)]
    rest = "".join(line for line in lines if not line.startswith(_WORD)) if found else output
    return rest, found[-1].removeprefix(_WORD).strip() if found else ""


def parse_replay(text: str) -> ReplayReport:
    """Raise NotReported for a text that the script does not print."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NotReported(f"the report of the replay is no JSON: {text:.60}") from None
    names = ("requests", "late", "worst", "seconds")
    if not isinstance(found, dict) or not all(_is_number(found.get(name)) for name in names):
        raise NotReported(f"the report of the replay is not as a script writes it: {text:.60}")
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= _MOST
