"""Alarms of a night: the figures that are slower than the accepted level, one alarm for each cause."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import TYPE_CHECKING

from matrix_runner.answers.accepted import accepted_level
from matrix_runner.answers.causes import Cause, find_causes
from matrix_runner.answers.comparison import Line, Speed, compare_sides
from matrix_runner.answers.pairs import Side
from matrix_runner.answers.stored_samples import LATENCIES, USUAL_RATES, read_samples
from matrix_runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matrix_runner.answers.selectors import CellSelection
    from matrix_runner.language.references import Baseline, KnownChange
    from matrix_runner.records.store import RunRow, SharedStore

#: Differences up to this size count as equal; the confidence of verdicts.
WITHIN, CONFIDENCE = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class Alarm:
    """Figures that became slower together."""

    lines: Sequence[Line]  # the strongest first
    cause: Cause

    @property
    def name(self) -> str:
        return self.cause.name(self.lines[0].name)

    @property
    def speed(self) -> float:
        """Return how many times as fast these figures are as before, on average."""
        return exp(fmean(line.log_speed for line in self.lines))


def find_alarms(lines: Sequence[Line], chosen: CellSelection | None = None) -> list[Alarm]:
    """Group slower figures, or those of some cells, by cause.

    A figure that cannot be told is as before if it moved less than half as far as the others.
    """
    slower = [
        line
        for line in lines
        if line.speed is Speed.SLOWER and (chosen is None or chosen.takes(line.pair.right[0].cell))
    ]
    least = min((-line.log_speed for line in slower), default=0.0) / 2
    taken = {line.cells for line in slower}  # another figure of such a cell may be as before
    unmoved = [
        line
        for line in lines
        if line.cells not in taken and (line.speed is not Speed.UNKNOWN or -line.log_speed < least)
    ]
    moved = [(line.pair.right[0].cell.axes, line.log_speed) for line in slower]
    causes = find_causes(moved, [line.pair.right[0].cell.axes for line in unmoved])
    return [Alarm([slower[at] for at in cause.members], cause) for cause in causes]


def read_accepted_level(
    store: SharedStore, night: RunRow, baselines: Sequence[Baseline], known: Sequence[KnownChange]
) -> list[RunRow]:
    """Return the runs that a night is compared with."""

    def is_slower(run: RunRow, level: Sequence[RunRow]) -> bool:
        found = read_samples(store, [run, *level], (*USUAL_RATES, *LATENCIES), histograms=False)
        before, now = ([one for one in found if (one.run is run) == is_night] for is_night in (False, True))
        try:
            sides = Side("level", before), Side(run.name, now)
            return bool(compare_sides(*sides, "run", (), within=WITHIN, confidence=CONFIDENCE, known=known).slower)
        except BadInput:  # they have no common cell
            return False

    return accepted_level(night, store.runs(), baselines, is_slower)


@dataclass(frozen=True, slots=True)
class Known:
    """An accepted change, and what became of it in a comparison."""

    change: KnownChange
    lines: int
    gone: int


def known_changes(lines: Iterable[Line]) -> list[Known]:
    found: dict[int, Known] = {}
    for line in lines:
        for change in line.known:
            before = found.get(id(change), Known(change, 0, 0))
            found[id(change)] = Known(change, before.lines + 1, before.gone + any(change is one for one in line.gone))
    return list(found.values())
