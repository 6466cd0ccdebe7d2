"""A mean and how far it can be trusted.

Student's t: assumes trials that are independent and roughly normal in their mean. Blocks in random order give the
first, several requests per trial the second; with few trials and a heavy tail the interval is too narrow, never silent:
`n` always goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import dist, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from runner.statistics.students_t import factor

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds between which the true one lies, at the stated confidence."""

    mean: float
    low: float
    high: float
    n: int
    confidence: float

    @property
    def half_width(self) -> float:
        """Distance from the mean to either bound, in the unit of the values."""
        return (self.high - self.low) / 2

    @property
    def relative(self) -> float | None:
        """Half width as a part of the mean (0.05 is ± 5 %); None where the mean is zero and it has no meaning."""
        return self.half_width / abs(self.mean) if self.mean else None


def student(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student-t interval of the mean. None for fewer than two values: one value says nothing of its own doubt."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if len(values) < 2:
        return None
    n, mean = len(values), fmean(values)
    # The sample standard deviation. `statistics.stdev` gives the same in exact fractions, and takes twenty times as
    # long: seconds, where a report summarises thousands of cells.
    deviation = dist(values, (mean,) * n) / sqrt(n - 1)
    half = factor(n - 1, confidence) * deviation / sqrt(n)
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n, confidence=confidence)
