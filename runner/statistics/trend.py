"""What becomes of a figure along an axis: how steeply it goes, and where it is highest.

Samples are the values of one cell for each value of the axis, by block, in the order of the axis. They are compared
over the blocks that they share, as `compare.paired` does, with its assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from statistics import linear_regression
from typing import TYPE_CHECKING

from runner.statistics.blocks import levels
from runner.statistics.interval import student
from runner.statistics.ratios import paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.statistics.interval import Interval

    Sample = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Extreme:
    """Where the highest (or lowest) mean was seen, and all places that may have the highest true one."""

    at: int
    #: In the order of the axis; `at` is one of them.
    candidates: tuple[int, ...]
    #: With at least which confidence the true one is among them.
    confidence: float


def exponent(places: Sequence[float], samples: Sequence[Sample], confidence: float = 0.95) -> Interval | None:
    """How steeply a figure goes with a number: as its power of so much (1: in proportion, 0: not at all, -1:
    inversely).

    The slope of the least-squares line through the logarithms, found anew in every block that measured all of the axis;
    the interval is Student's over these. Nothing is assumed of the noise of single cells, and what a block does to all
    alike cancels. The curve need not be a straight line, but is summed up as one. None for less than two such blocks or
    places, or if anything is not positive.
    """
    blocks = _shared(samples)
    numbers = [*places, *(sample[block] for sample in samples for block in blocks)]
    if len(set(places)) < 2 or min(numbers) <= 0:
        return None
    steps = [log(place) for place in places]
    slopes = [linear_regression(steps, [log(sample[block]) for sample in samples]).slope for block in blocks]
    return student(slopes, confidence)


def highest(samples: Sequence[Sample], confidence: float = 0.95, *, lowest: bool = False) -> Extreme | None:
    """Where the figure is highest, with all places that cannot be told apart from it; `lowest`: where it is lowest.

    What looks best is so by least squares on logarithms, so no place gains by the blocks it happens to be measured in;
    should another surely beat it side by side all the same, that one is taken. A place is ruled out if the best-looking
    one beats it in a one-sided paired test at the stated confidence, corrected (Bonferroni) for which of the others
    looked best: so the truly highest one is among the candidates with at least that confidence. Tukey's test would
    assume equal noise everywhere, and could not use that blocks are shared. None where nothing is positive.
    """
    there = [place for place, sample in enumerate(samples) if _positive(sample)]
    if not there:
        return None
    sign = -1 if lowest else 1
    level = dict(zip(there, levels([samples[place] for place in there]), strict=True))
    best, passed = max(there, key=lambda place: sign * level[place]), set[int]()
    ahead = _ahead(best, there, samples, confidence, sign)
    while better := [place for place in there if ahead.get(place) is False and place not in passed]:
        passed.add(best)
        best = max(better, key=lambda place: sign * level[place])
        ahead = _ahead(best, there, samples, confidence, sign)
    return Extreme(best, tuple(place for place in there if not ahead.get(place)), confidence)


def _ahead(
    best: int, there: Sequence[int], samples: Sequence[Sample], confidence: float, sign: int
) -> dict[int, bool | None]:
    """Of each other place, whether the best-looking one surely beats it, is surely beaten by it (False), or neither."""
    found: dict[int, bool | None] = {}
    for place in there:
        ratio = paired(samples[place], samples[best], confidence) if place != best else None
        clear = ratio is not None and ratio.p / 2 <= (1 - confidence) / (len(there) - 1)
        found[place] = sign * log(ratio.ratio) > 0 if ratio and clear else None
    return found


def _shared(samples: Sequence[Sample]) -> list[int]:
    """The blocks in which all were measured."""
    return sorted(set(samples[0]).intersection(*samples[1:])) if samples else []


def _positive(sample: Sample) -> bool:
    return bool(sample) and min(sample.values()) > 0
