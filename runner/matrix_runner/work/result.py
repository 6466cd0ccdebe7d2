"""The result of a trial of any kind of work, and the line in which its script reports what fio does not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.text import lines_of

if TYPE_CHECKING:
    from matrix_runner.work.fio.output import Figures
    from matrix_runner.work.replay.output import ReplayReport


class NotReported(HarnessBroken):
    pass


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
