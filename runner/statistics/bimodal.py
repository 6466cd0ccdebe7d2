"""Detection of values that fall into two states."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Fewer values form two groups by chance too often.
LEAST_VALUES = 8
#: The least gap, relative to the mean: smaller ones do not matter, or come from counting whole requests.
LEAST_GAP = 0.05


@dataclass(frozen=True, slots=True)
class States:
    """Two separate groups of values: their sizes and means."""

    n_low: int
    low: float
    n_high: int
    high: float


def find_two_states(values: Sequence[float]) -> States | None:
    """Return two groups, each of two or more values, if the gap between them is wider than either group.

    The mean of such values was never observed, and its interval, which assumes one mode, may cover far less than
    stated if there are few trials. The gap must be 1 + 8 / n times as wide as the wider group. By simulation, 1 % of
    cells with 8 normal or skewed trials are reported falsely, and fewer with more trials. Of cells with two states 10
    standard deviations apart, 90 % are reported if both states are about as frequent, 50 % if one is rare. Fewer than
    8 values are never reported: three trials that met the same state look like a cell without noise.
    """
    if len(values) < LEAST_VALUES:
        return None
    ordered = sorted(values)
    at = max(range(2, len(ordered) - 1), key=lambda place: ordered[place] - ordered[place - 1])
    low, high = ordered[:at], ordered[at:]
    widest = max(low[-1] - low[0], high[-1] - high[0])
    gap = high[0] - low[-1]
    if gap <= max((1 + 8 / len(values)) * widest, LEAST_GAP * abs(fmean(values))):
        return None
    return States(len(low), fmean(low), len(high), fmean(high))
