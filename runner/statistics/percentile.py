"""Percentiles over the requests of several trials, with confidence intervals.

The bounds are Woodruff's (1952): the interval of the share of requests below a latency is converted back to latencies.
Trials are independent, requests are not, as requests in one queue resemble each other. So the error is that of a ratio
of sums over trials, by Student's t. It assumes similar trials with roughly normal shares. Bounds are bins of the
histogram, at most 1/64 wide: trials that agree have no narrower bounds.
"""

from __future__ import annotations

from math import fsum, inf, sqrt
from typing import TYPE_CHECKING

from runner.statistics.histogram import merge
from runner.statistics.interval import Interval
from runner.statistics.stopping import Estimate, stated_interval
from runner.statistics.students_t import t_factor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.statistics.histogram import Distribution, Histogram
    from runner.statistics.stopping import Rule, StopReason

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
    off = max(_spread(trials, total, value - 1), _spread(trials, total, value))
    half = t_factor(n - 1, confidence) * sqrt(off * n / (n - 1)) / total
    low = float(min(whole.at(share - half), value)) if half < share else 0.0
    high = float(max(whole.at(share + half), value)) if share + half <= 1 else inf
    return Interval(float(value), low, high, n, confidence)


def _spread(trials: Sequence[Distribution], total: int, value: int) -> float:
    """Return how much trials differ in their share of requests up to a value, as a sum of squared request counts."""
    reached = [one.up_to(value) for one in trials]
    part = sum(reached) / total
    return fsum([(up_to - part * one.reached[-1]) ** 2 for up_to, one in zip(reached, trials, strict=True)])
