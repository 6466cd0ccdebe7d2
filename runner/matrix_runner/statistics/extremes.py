"""The highest or lowest of several places, and those that may be the true one, by Tukey's test of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import dist, inf, log, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from matrix_runner.statistics.changes import cell_levels, log_table, round_effects
from matrix_runner.statistics.ratios import t_factor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Extreme:
    """The place of the highest (or lowest) mean, and all candidates for the true one."""

    at: int
    #: In order of the axis, `at` included.
    candidates: tuple[int, ...]
    #: The least confidence that the true one is a candidate.
    confidence: float


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
    return Extreme(best, tuple(place for place in there if ahead[place] <= 0), confidence)


def _ahead_of_others(
    best: int, there: Mapping[int, Mapping[int, float]], rule: _ClearDifference, sign: int
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
    def among(cls, samples: Sequence[Mapping[int, float]], confidence: float) -> _ClearDifference:
        freedom = sum(map(len, samples)) - len(samples) - len(set().union(*samples)) + 1
        if len(samples) < 2 or freedom < 1:
            return cls(confidence, inf, 0.0)
        import numpy as np

        table = log_table(samples)
        table -= round_effects(table)
        squares = float(np.nansum((table - np.nanmean(table, axis=1, keepdims=True)) ** 2))
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


#: The grid for the distribution of the range: standard deviations, and steps.
_REACH, _STEPS = 8.5, 500


@lru_cache(maxsize=512)
def range_factor(places: int, freedom: int, confidence: float) -> float:
    """Return how many standard errors of a difference the range of equal places hardly exceeds (studentised range)."""
    import numpy as np

    at = np.linspace(-_REACH, _REACH, 2 * _STEPS + 1)
    density = np.exp(-(at**2) / 2)
    density /= density.sum()
    below = np.cumsum(density) - density / 2
    widths = np.linspace(0, 2 * _REACH, _STEPS + 1)
    within = [places * (density * (below - np.interp(at - width, at, below)) ** (places - 1)).sum() for width in widths]
    reach, inner = _REACH / sqrt(2 * freedom), np.linspace(0, 1, 4 * _STEPS + 1)[1:]
    lowest = max(0.0, 1 - reach)
    scales = lowest + (1 + reach - lowest) * inner**3  # close together near 0, where few degrees of freedom need it
    weights = inner**2 * np.exp((freedom - 1) * np.log(scales) - freedom * (scales**2 - 1) / 2)
    weights /= weights.sum()
    few, many = 0.0, 1e6
    while many - few > 1e-6 * many:
        middle = sqrt(max(few, 1e-3) * many)
        reached = (weights * np.interp(middle * scales, widths, within)).sum() >= confidence
        few, many = (few, middle) if reached else (middle, many)
    return many / sqrt(2)
