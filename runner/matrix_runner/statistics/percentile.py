"""Histograms of latencies, and percentiles over the requests of several trials, with confidence intervals."""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import hypot, inf, sqrt

import orjson

from matrix_runner.statistics.ratios import Interval, correlated_t_factor, likely_correlation
from matrix_runner.statistics.stopping import Estimate, Rule, StopReason, stated_interval

_LARGEST = 1 << 20  # bytes of the JSON of a histogram


@dataclass(frozen=True, slots=True)
class Histogram:
    """The stored form, about 500 bytes for 300 bins: JSON of bin value differences and counts, packed by zlib."""

    packed: bytes

    @classmethod
    def of(cls, bins: Mapping[int, int]) -> "Histogram":
        values = sorted(bins)
        steps = [*values[:1], *(after - before for before, after in pairwise(values))]
        return cls(zlib.compress(orjson.dumps([steps, [bins[value] for value in values]])))

    def divided(self, factor: int) -> "Histogram":
        whole, bins = self.unpack(), dict[int, int]()
        for value, count in zip(whole.values, whole.counts, strict=True):
            bins[round(value / factor)] = bins.get(round(value / factor), 0) + count
        return Histogram.of(bins)

    def unpack(self) -> "Distribution":
        """Raise DamagedHistogram if it is no pair of equally long lists of whole numbers."""
        decompressor = zlib.decompressobj()
        try:
            steps, counts = orjson.loads(decompressor.decompress(self.packed, _LARGEST))
            found = Distribution([*accumulate(steps)], counts, [*accumulate(counts)])
            # A number of another type in a list changes the type of its sum.
            is_whole = len(steps) == len(counts) and {*map(type, (*found.values[-1:], *found.reached[-1:]))} <= {int}
            is_whole = is_whole and min((*steps, *counts), default=0) >= 0
        except (zlib.error, ValueError, TypeError) as problem:
            raise DamagedHistogram(f"a histogram of latencies: {problem}") from None
        if not (decompressor.eof and is_whole):
            raise DamagedHistogram("a histogram of latencies is cut short or damaged")
        return found


class DamagedHistogram(ValueError):
    """It is damaged, or another program packed it."""


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


#: The least requests beyond a tail percentile: with fewer, it only shows that one request was slow.
LEAST_BEYOND = 10
#: The limit applies above this percentile. Lower ones need few requests.
_TAIL = 99.0


def needs(percent: float) -> int:
    """Return how many requests a percentile needs: 10,000 for 99.9 %, 100,000 for 99.99 %."""
    return round(LEAST_BEYOND / (1 - percent / 100)) if percent > _TAIL else 1


def percentiles(whole: Distribution, percents: Sequence[float]) -> list[int | None]:
    """Return percentiles of one distribution; None where it has too few requests."""
    return [whole.at(percent / 100) if whole.total >= needs(percent) else None for percent in percents]


def estimated_percentiles(
    trials: Sequence[Histogram], percents: Sequence[float], rule: Rule, how: StopReason
) -> list[Estimate | None]:
    """Return percentiles of all requests of a stopped cell's trials, with intervals."""
    apart = [one for trial in trials if (one := trial.unpack()).total]
    whole = merge(apart)
    found: list[Estimate | None] = []
    for percent, value in zip(percents, percentiles(whole, percents), strict=True):
        if value is None:
            found.append(None)
            continue
        interval = _woodruff(apart, whole, percent / 100, value, rule.checked_confidence)
        found.append(Estimate(float(value), len(apart), stated_interval(interval, rule, how) if interval else None))
    return found


def _woodruff(
    trials: Sequence[Distribution], whole: Distribution, share: float, value: int, confidence: float
) -> Interval | None:
    """Return None for a single trial, and no upper bound if the true value may exceed the longest request."""
    n, total = len(trials), whole.total
    if n < 2:
        return None
    # If a bin holds very many requests, only its beginning, not its end, shows how much trials differ.
    apart = max((_apart(trials, total, one) for one in (value - 1, value)), key=lambda one: hypot(*one))
    half = correlated_t_factor(n, likely_correlation(apart), confidence) * hypot(*apart) * sqrt(n / (n - 1)) / total
    low = float(min(whole.at(share - half), value)) if half < share else 0.0
    high = float(max(whole.at(share + half), value)) if share + half <= 1 else inf
    return Interval(float(value), low, high, n, confidence)


def _apart(trials: Sequence[Distribution], total: int, value: int) -> list[float]:
    """Return by how many requests each trial differs from all trials' share of requests up to a value."""
    reached = [one.up_to(value) for one in trials]
    part = sum(reached) / total
    return [up_to - part * one.reached[-1] for up_to, one in zip(reached, trials, strict=True)]
