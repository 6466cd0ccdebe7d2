"""The confidence interval of a mean, by Student's t distribution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import dist, exp, inf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXACT = 1e-15
#: More steps than any realistic number of degrees of freedom needs.
_MOST = 10_000


def two_sided_p(distance: float, freedom: float) -> float:
    """Return the probability of a value at this distance from 0 or farther, on either side."""
    ratio = distance * distance / freedom
    if not ratio or ratio == inf:
        return 0.0 if ratio else 1.0
    a, b = freedom / 2, 0.5
    below, beyond = 1 / (1 + 1 / ratio), 1 / (1 + ratio)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) - a * log1p(ratio) - b * log1p(1 / ratio))
    # The fraction converges fast on one side of the middle; on the other, that of the complement does.
    if beyond < (a + 1) / (a + b + 2):
        return front * _fraction(beyond, a, b) / a
    return 1 - front * _fraction(below, b, a) / b


@lru_cache(maxsize=4096)
def t_factor(freedom: float, confidence: float) -> float:
    """Return how many standard errors on either side have this confidence."""
    if (1 + confidence) / 2 == 1:
        return inf
    found = NormalDist().inv_cdf((1 + confidence) / 2)
    # The probability is convex and the normal quantile is too small, so all Newton steps go in one direction and do not
    # overshoot.
    for _ in range(_MOST):
        step = (two_sided_p(found, freedom) - (1 - confidence)) / (2 * _density(found, freedom))
        found += step
        if step <= 1e-14 * found:
            break
    return found


def _density(at: float, freedom: float) -> float:
    half = freedom / 2
    return exp(lgamma(half + 0.5) - lgamma(half) - log(pi * freedom) / 2 - (half + 0.5) * log1p(at * at / freedom))


def _fraction(x: float, a: float, b: float) -> float:
    """Return 1 / (1 + d1 / (1 + d2 / (1 + ...))) by Lentz's method: a product whose factors converge to 1."""
    upper, lower, found = 1.0, 0.0, 1.0
    for step in range(1, _MOST):
        m = step // 2
        term = -(a + m) * (a + b + m) / (a + 2 * m + 1) if step % 2 else m * (b - m) / (a + 2 * m - 1)
        term *= x / (a + 2 * m)
        upper, lower = 1 + term / upper, 1 / (1 + term * lower)
        found *= upper * lower
        if abs(upper * lower - 1) < _EXACT:
            break
    return 1 / found


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the bounds of the true mean at the stated confidence."""

    mean: float
    low: float
    high: float
    n: int
    confidence: float

    @property
    def half_width(self) -> float:
        """In the unit of the values."""
        return (self.high - self.low) / 2

    @property
    def relative(self) -> float | None:
        """The half width relative to the mean (0.05 is ± 5 %); None if the mean is zero."""
        return self.half_width / abs(self.mean) if self.mean else None


def student_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the interval of the mean; None for fewer than two values, which have no spread."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if len(values) < 2:
        return None
    n, mean = len(values), fmean(values)
    # The sample standard deviation. `statistics.stdev` computes it in exact fractions and takes twenty times as long,
    # which is seconds for a report of thousands of cells.
    deviation = dist(values, (mean,) * n) / sqrt(n - 1)
    half = t_factor(n - 1, confidence) * deviation / sqrt(n)
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n, confidence=confidence)
