"""The result of a trial of any kind of work, and the line in which its script reports what fio does not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.text import lines_of

if TYPE_CHECKING:
    from matrix_runner.work.fio.output import Figures


class NotReported(HarnessBroken):
    pass


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


@dataclass(frozen=True, slots=True)
class Result:
    figures: Figures | None = None
    unsettled: str = ""  # the steady state that was not reached; else empty
    verified: str = ""  # how much fio read back
    notes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # of the trial
    replay: ReplayReport | None = None  # how late its requests began
    steady: bool | None = None  # of a test of SNIA: it reached its steady state
    written_in_rounds: int | None = None  # bytes


def split_report(output: str, kind: str) -> tuple[str, str]:
    """Split the output of a script into the rest, and the JSON of its report; empty without a report."""
    lines, word = lines_of(output, keepends=True), f"{kind}\t"
    found = [line for line in lines if line.startswith(word)]
    if not found:
        return output, ""
    return "".join(line for line in lines if not line.startswith(word)), found[-1].removeprefix(word).strip()


def notes_of(output: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    for line in lines_of(output):
        if line.startswith("note\t") and line.count("\t") >= 2:
            _, name, text = line.split("\t", 2)
            notes[name] = f"{notes[name]}; {text}" if name in notes else text
    return notes


def parse_report(text: str, kind: str, names: Sequence[str], most: float) -> dict[str, float]:
    """Return the numbers of a report. Raise NotReported for a text that the script does not print."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NotReported(f"the report of the {kind} is no JSON: {text:.60}") from None
    if not isinstance(found, dict) or not all(_is_number(found.get(name), most) for name in names):
        raise NotReported(f"the report of the {kind} is not as a script writes it: {text:.60}")
    return found


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= most
