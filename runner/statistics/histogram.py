"""How many requests took how long, in bins: kept small, merged without loss, and read off only at the very end.

A percentile of percentiles is not a percentile, so what is kept of every trial is its histogram. The convention is
fio's: p % is the value of the lowest bin at which the cumulated count reaches p % of all requests, and a bin's value is
the one fio prints, its middle. fio's bins are at most a 64th of their value wide, and the same in every fio, so that
histograms of any jobs, trials and hosts can be added up.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Histogram:
    """As it is kept, in some 500 bytes for 300 bins: a list of the bins' values, each less the one before, and of their
    counts, as JSON, packed by zlib."""

    packed: bytes

    @classmethod
    def of(cls, bins: Mapping[int, int]) -> Histogram:
        """Of values and their counts."""
        values = sorted(bins)
        steps = [*values[:1], *(after - before for before, after in pairwise(values))]
        return cls(zlib.compress(orjson.dumps([steps, [bins[value] for value in values]])))

    def unpacked(self) -> Distribution:
        """As it can be read."""
        steps, counts = orjson.loads(zlib.decompress(self.packed))
        return Distribution([*accumulate(steps)], counts, [*accumulate(counts)])


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in ascending order, their counts, and how many there are up to each."""

    values: Sequence[int]
    counts: Sequence[int]
    reached: Sequence[int]

    @property
    def total(self) -> int:
        """All that were counted."""
        return self.reached[-1] if self.reached else 0

    def at(self, share: float) -> int:
        """The value that this part of all does not exceed; of at least one that was counted."""
        return self.values[min(bisect_left(self.reached, share * self.total), len(self.values) - 1)]

    def up_to(self, value: int) -> int:
        """How many do not exceed a value."""
        place = bisect_right(self.values, value)
        return self.reached[place - 1] if place else 0


def merged(several: Iterable[Distribution]) -> Distribution:
    """All that any of them counted."""
    bins: dict[int, int] = {}
    for one in several:
        if not bins:
            bins = dict(zip(one.values, one.counts, strict=True))
            continue
        known = bins.get  # reports ask it millions of times
        for value, count in zip(one.values, one.counts, strict=True):
            bins[value] = known(value, 0) + count
    values = sorted(bins)
    counts = [*map(bins.__getitem__, values)]
    return Distribution(values, counts, [*accumulate(counts)])
