"""Histograms of latencies: stored compactly, merged without loss, read only at the end.

A percentile of percentiles is not a percentile, so every trial keeps its histogram. The convention is fio's: p % is
the value of the lowest bin at which the cumulated count reaches p % of all requests, and a bin's value is its middle.
fio's bins are at most 1/64 of their value wide and the same in every fio, so histograms of all hosts can be added.
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
    """The stored form, about 500 bytes for 300 bins: JSON of bin value differences and counts, packed by zlib."""

    packed: bytes

    @classmethod
    def of(cls, bins: Mapping[int, int]) -> Histogram:
        values = sorted(bins)
        steps = [*values[:1], *(after - before for before, after in pairwise(values))]
        return cls(zlib.compress(orjson.dumps([steps, [bins[value] for value in values]])))

    def unpack(self) -> Distribution:
        steps, counts = orjson.loads(zlib.decompress(self.packed))
        return Distribution([*accumulate(steps)], counts, [*accumulate(counts)])


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in ascending order, their counts, and the cumulated counts."""

    values: Sequence[int]
    counts: Sequence[int]
    reached: Sequence[int]

    @property
    def total(self) -> int:
        return self.reached[-1] if self.reached else 0

    def at(self, share: float) -> int:
        """Return the value that this share of all does not exceed; at least one must be counted."""
        return self.values[min(bisect_left(self.reached, share * self.total), len(self.values) - 1)]

    def up_to(self, value: int) -> int:
        """Return how many do not exceed the value."""
        place = bisect_right(self.values, value)
        return self.reached[place - 1] if place else 0


def merge(several: Iterable[Distribution]) -> Distribution:
    bins: dict[int, int] = {}
    for one in several:
        if not bins:
            bins = dict(zip(one.values, one.counts, strict=True))
            continue
        known = bins.get  # a local name: reports call it millions of times
        for value, count in zip(one.values, one.counts, strict=True):
            bins[value] = known(value, 0) + count
    values = sorted(bins)
    counts = [*map(bins.__getitem__, values)]
    return Distribution(values, counts, [*accumulate(counts)])
