"""The confidence interval of a mean, by Student's t.

It assumes independent trials that are roughly normal in their mean. Random order in rounds gives the first, many
requests per trial the second. With few trials and a heavy tail the interval is too narrow, so `n` is always shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import dist, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from runner.statistics.students_t import t_factor

if TYPE_CHECKING:
    from collections.abc import Sequence


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
