"""Figures that jump between two states."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of fewer values, chance makes two groups too often.
FEWEST = 8
#: States that lie closer, as a part of the mean, are of no matter, or of counting whole requests.
MATTERS = 0.05


@dataclass(frozen=True, slots=True)
class States:
    """Two groups of values with nothing between: how many there are of each, and their means."""

    n_low: int
    low: float
    n_high: int
    high: float


def two_states(values: Sequence[float]) -> States | None:
    """Whether values fall into two groups, of two and more, that lie farther apart than either is wide.

    A mean then says what no trial ever showed, and its interval, which takes values for those of one hill, may cover
    far less than it says when there are few. The gap must be 1 + 8 / n times as wide as the wider group: by simulation,
    one in a hundred cells of 8 trials is marked for nothing, normal or skewed, and fewer of more trials; of cells with
    two states 10 standard deviations apart nine in ten are marked if these are about as frequent, half if one is rare.
    Of less than 8 values nothing is said: three trials that met the same state look like a cell without any noise.
    """
    if len(values) < FEWEST:
        return None
    ordered = sorted(values)
    at = max(range(2, len(ordered) - 1), key=lambda place: ordered[place] - ordered[place - 1])
    low, high = ordered[:at], ordered[at:]
    widest = max(low[-1] - low[0], high[-1] - high[0])
    gap = high[0] - low[-1]
    if gap <= max((1 + 8 / len(values)) * widest, MATTERS * abs(fmean(values))):
        return None
    return States(len(low), fmean(low), len(high), fmean(high))
