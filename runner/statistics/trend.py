"""The course of a metric along an axis: its scaling exponent, and its highest or lowest place.

Samples are the values of one cell per value of the axis, by round. They are compared over shared rounds as by
`ratios.paired_ratio`, with the same assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from statistics import linear_regression
from typing import TYPE_CHECKING

from runner.statistics.changes import cell_levels
from runner.statistics.ratios import paired_ratio, student_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.statistics.ratios import Interval

    Sample = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Extreme:
    """The place of the highest (or lowest) mean, and all candidates for the true one."""

    at: int
    #: In order of the axis, `at` included.
    candidates: tuple[int, ...]
    #: The least confidence that the true one is a candidate.
    confidence: float


def scaling_exponent(places: Sequence[float], samples: Sequence[Sample], confidence: float = 0.95) -> Interval | None:
    """Return the power by which a metric scales with a number: 1 is proportional, 0 constant, -1 inversely.

    It is the least-squares slope of the logarithms, computed in every round that measured the whole axis; the interval
    is Student's over these slopes. It makes no assumption about the noise of single cells. Common effects of a round
    cancel. A curve that is not straight is summarised as a line. Return None for fewer than two such rounds or places,
    or if any value is not positive.
    """
    rounds = _shared_rounds(samples)
    numbers = [*places, *(sample[round_number] for sample in samples for round_number in rounds)]
    if len(set(places)) < 2 or min(numbers) <= 0:
        return None
    steps = [log(place) for place in places]
    slopes = [
        linear_regression(steps, [log(sample[round_number]) for sample in samples]).slope for round_number in rounds
    ]
    return student_interval(slopes, confidence)


def find_extreme(samples: Sequence[Sample], confidence: float = 0.95, *, lowest: bool = False) -> Extreme | None:
    """Return the highest place, with all places that cannot be distinguished from it; with `lowest`, the lowest.

    The best place is chosen by least squares on logarithms, so that the rounds in which it was measured give no
    advantage. If another place clearly beats it in a paired comparison, that one is taken. A place is ruled out if the
    best one beats it in a one-sided paired test, with Bonferroni's correction for the choice of the best: so the true
    one is a candidate with at least the stated confidence. Tukey's test would assume equal noise everywhere and ignore
    shared rounds. Return None if no place is positive.
    """
    there = [place for place, sample in enumerate(samples) if _positive(sample)]
    if not there:
        return None
    sign = -1 if lowest else 1
    level = dict(zip(there, cell_levels([samples[place] for place in there]), strict=True))
    best, passed = max(there, key=lambda place: sign * level[place]), set[int]()
    ahead = _beaten_by_best(best, there, samples, confidence, sign)
    while better := [place for place in there if ahead.get(place) is False and place not in passed]:
        passed.add(best)
        best = max(better, key=lambda place: sign * level[place])
        ahead = _beaten_by_best(best, there, samples, confidence, sign)
    return Extreme(best, tuple(place for place in there if not ahead.get(place)), confidence)


def _beaten_by_best(
    best: int, there: Sequence[int], samples: Sequence[Sample], confidence: float, sign: int
) -> dict[int, bool | None]:
    """Return for each other place: True if the best one clearly beats it, False if it clearly beats the best one, else
    None.
    """
    found: dict[int, bool | None] = {}
    for place in there:
        ratio = paired_ratio(samples[place], samples[best], confidence) if place != best else None
        clear = ratio is not None and ratio.p / 2 <= (1 - confidence) / (len(there) - 1)
        found[place] = sign * log(ratio.ratio) > 0 if ratio and clear else None
    return found


def _shared_rounds(samples: Sequence[Sample]) -> list[int]:
    """Return the rounds in which all were measured."""
    return sorted(set(samples[0]).intersection(*samples[1:])) if samples else []


def _positive(sample: Sample) -> bool:
    return bool(sample) and min(sample.values()) > 0
