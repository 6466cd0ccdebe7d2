"""The steady state of SNIA's Performance Test Specification: five rounds with a small range and a small slope.

templates/pts-steady.sh has the same rule for scripts, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

WINDOW = 5  # rounds
MOST_RANGE, MOST_SLOPE = 0.2, 0.1  # of the average


@dataclass(frozen=True, slots=True)
class Window:
    """The figure of five rounds, in order."""

    values: tuple[float, ...]

    @property
    def average(self) -> float:
        return fmean(self.values)

    @property
    def range(self) -> float:
        return max(self.values) - min(self.values)

    @property
    def slope(self) -> float:
        """Return the rise of the best line from one round to the next, by least squares."""
        return sum((at - WINDOW // 2) * value for at, value in enumerate(self.values)) / 10

    @property
    def excursion(self) -> float:
        """Return the distance between the ends of this line."""
        return abs(self.slope) * (WINDOW - 1)

    @property
    def is_steady(self) -> bool:
        return self.range <= MOST_RANGE * self.average and self.excursion <= MOST_SLOPE * self.average

    def __str__(self) -> str:
        if not self.average:
            return "no I/O"
        parts = (self.range / self.average, self.excursion / self.average)
        return f"range {parts[0]:.1%} of the average (at most 20%), slope {parts[1]:.1%} (at most 10%)"


def last_window(values: Sequence[float], apart: int = 1) -> Window | None:
    """Return the window that ends with the last round; None before. `apart`: rounds between its values."""
    found = values[::-apart][:WINDOW]
    return Window(tuple(reversed(found))) if len(found) == WINDOW else None
