"""The highest or lowest of several places, with all places that cannot be distinguished from it: Tukey's test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import dist, erfc, exp, inf, log, sqrt
from operator import mul
from statistics import fmean
from typing import Self

from matrix_runner.statistics.ratios import t_factor
from matrix_runner.statistics.rounds import cell_levels, residuals


@dataclass(frozen=True, slots=True)
class Extreme:
    """The place of the highest (or lowest) mean, and all candidates for the true one."""

    at: int
    candidates: tuple[int, ...]  # in order of the axis, `at` included


def find_extreme(
    samples: Sequence[Mapping[int, float]], confidence: float = 0.95, *, lowest: bool = False
) -> Extreme | None:
    """Return the highest place, with all places that cannot be distinguished from it; with `lowest`, the lowest.

    The best place is chosen by least squares on logarithms, so that the rounds in which it was measured give no
    advantage. Another one that clearly beats it in a paired comparison takes its place. A place is ruled out if the
    best one clearly beats it. None if no place is positive.
    """
    there = {place: sample for place, sample in enumerate(samples) if sample and min(sample.values()) > 0}
    if not there:
        return None
    sign = -1 if lowest else 1
    level = dict(zip(there, cell_levels([*there.values()]), strict=True))
    rule = _ClearDifference.among([*there.values()], confidence)
    best, passed = max(there, key=lambda place: sign * level[place]), set[int]()
    ahead = _ahead_of_others(best, there, rule, sign)
    while better := [place for place in there if ahead[place] < 0 and place not in passed]:
        passed.add(best)
        best = max(better, key=lambda place: sign * level[place])
        ahead = _ahead_of_others(best, there, rule, sign)
    return Extreme(best, tuple(place for place in there if ahead[place] <= 0))


def _ahead_of_others(
    best: int, there: Mapping[int, Mapping[int, float]], rule: "_ClearDifference", sign: int
) -> dict[int, float]:
    """Return by how much the best place clearly beats each other one, or is beaten (below 0); 0 if neither."""
    return {place: sign * rule.difference(there[best], sample) for place, sample in there.items()}


@dataclass(frozen=True, slots=True)
class _ClearDifference:
    """Tukey's test: with the stated confidence, no two of many equal places differ clearly.

    It uses the scatter of all places, and that of the pair if it is larger, because places may differ in their noise.
    """

    confidence: float
    factor: float  # the least difference, in standard errors
    variance: float  # of the difference of two places in one round

    @classmethod
    def among(cls, samples: Sequence[Mapping[int, float]], confidence: float) -> Self:
        squares, freedom = residuals(samples)
        if len(samples) < 2 or freedom < 1:
            return cls(confidence, inf, 0.0)
        return cls(confidence, range_factor(len(samples), freedom, confidence), 2 * squares / freedom)

    def difference(self, one: Mapping[int, float], other: Mapping[int, float]) -> float:
        """Return the mean difference of logarithms, 0 if it is not clear."""
        apart = [log(one[number] / other[number]) for number in one.keys() & other.keys()]
        n = len(apart)
        if n < 2 or self.factor == inf:
            return 0.0
        mean = fmean(apart)
        own = dist(apart, (mean,) * n) / sqrt(n * (n - 1))
        least = max(self.factor * sqrt(self.variance / n), max(self.factor, t_factor(n - 1, self.confidence)) * own)
        return mean if abs(mean) > least else 0.0


#: The grid for the distribution of the range: standard deviations, places in each, and widths between two places.
_REACH, _FINE, _WIDTHS = 8.5, 8, 4
_SCALES = 400


@lru_cache(maxsize=512)
def range_factor(places: int, freedom: int, confidence: float) -> float:
    """Return how many standard errors of a difference the range of equal places hardly exceeds (studentised range)."""
    within = _range_distribution(places)
    reach = _REACH / sqrt(2 * freedom)
    lowest = max(0.0, 1 - reach)
    inner = [number / _SCALES for number in range(1, _SCALES + 1)]
    # Close together near 0, where few degrees of freedom need it.
    scales = [lowest + (1 + reach - lowest) * one**3 for one in inner]
    weights = [
        one**2 * exp((freedom - 1) * log(scale) - freedom * (scale**2 - 1) / 2)
        for one, scale in zip(inner, scales, strict=True)
    ]
    enough, last = confidence * sum(weights), len(within) - 2
    steps = [scale * _FINE * _WIDTHS for scale in scales]
    few, many = 0.0, 1e6
    while many - few > 1e-6 * many:
        middle, reached = sqrt(max(few, 1e-3) * many), 0.0
        for step, weight in zip(steps, weights, strict=True):
            at = min(int(middle * step), last)
            reached += weight * min(1.0, within[at] + (middle * step - at) * (within[at + 1] - within[at]))
        few, many = (few, middle) if reached >= enough else (middle, many)
    return many / sqrt(2)


@lru_cache(maxsize=64)
def _range_distribution(places: int) -> list[float]:
    """Return the probability that the range of so many normal values is below each width of the grid."""
    half = int(_REACH * _FINE)
    density = [exp(-((at / _FINE) ** 2) / 2) for at in range(-half, half + 1)]
    share = places / sum(density)
    below = [erfc(-at / (_FINE * _WIDTHS) / sqrt(2)) / 2 for at in range(-3 * half * _WIDTHS, half * _WIDTHS + 1)]
    tops, found = below[2 * half * _WIDTHS :: _WIDTHS], list[float]()
    for width in range(2 * half * _WIDTHS + 1):
        bottoms = below[2 * half * _WIDTHS - width :: _WIDTHS]
        inside = ((top - bottom) ** (places - 1) for top, bottom in zip(tops, bottoms, strict=False))
        found.append(share * sum(map(mul, density, inside)))
    return found
