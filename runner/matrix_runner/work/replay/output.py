"""The line in which a script reports a replay: how late its requests began, and how long all took together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from matrix_runner.work.result import NotReported, parse_report

if TYPE_CHECKING:
    from matrix_runner.work.fio.output import Direction, Figures

_MOST = 1e9
#: A request is late if it begins this much after its time in the trace, in seconds.
LATE = 0.01
#: A replay fell behind if a larger share of its requests is late.
MOST_LATE = 0.01


@dataclass(frozen=True, slots=True)
class ReplayReport:
    requests: int
    late: int
    worst: float  # the largest delay of a request, in seconds
    seconds: float  # from the time of the first request to the end of the last one

    @property
    def fell_behind(self) -> bool:
        return self.late > MOST_LATE * self.requests

    def behind(self, length: float) -> float:
        """Return the share of its time by which a replay of `length` seconds took longer."""
        return max(0.0, 1 - length / self.seconds)

    def in_real_units(self, slow: int) -> ReplayReport:
        return replace(self, worst=self.worst / slow, seconds=self.seconds / slow)

    def __str__(self) -> str:
        share = f"{self.late / self.requests:.1%} of {self.requests:,} requests began over {LATE * 1000:g} ms late"
        return f"{share}, at most {self.worst * 1000:,.0f} ms"


def parse_replay(text: str) -> ReplayReport:
    """Raise NotReported for a text that the script does not print."""
    names = ("requests", "late", "worst", "seconds")
    found = parse_report(text, "replay", names, _MOST)
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
