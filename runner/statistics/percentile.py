"""Percentiles of what several trials counted together, and how far they can be trusted.

The bounds are Woodruff's (1952): it is asked how far the part of all requests that were at most so long may be off, and
then which lengths those parts belong to. Trials are what is independent, not requests, of which a queue makes
neighbours alike: the doubt is that of a ratio of sums over trials, by Student's t. Assumes that trials are alike and
their shares roughly normal. Bounds are bins of the histogram, at most a 64th wide, so trials that agree have bounds no
farther apart than that.
"""

from __future__ import annotations

from math import fsum, inf, sqrt
from typing import TYPE_CHECKING

from runner.statistics.histogram import merged
from runner.statistics.interval import Interval
from runner.statistics.stopping import Estimate, as_stated
from runner.statistics.students_t import factor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.statistics.histogram import Distribution, Histogram
    from runner.statistics.stopping import Rule, Stopped

#: Beyond a percentile of the tail there must be so many requests, or it says no more than that one of them was slow.
BEYOND = 10
#: From this percentile on. Of the others even few requests say something.
_TAIL = 99.0


def needs(percent: float) -> int:
    """So many requests it takes for a percentile to mean something: 10,000 for 99.9 %, 100,000 for 99.99 %."""
    return round(BEYOND / (1 - percent / 100)) if percent > _TAIL else 1


def percentiles(whole: Distribution, percents: Sequence[float]) -> list[int | None]:
    """Of one distribution; None where there is too little to tell."""
    return [whole.at(percent / 100) if whole.total >= needs(percent) else None for percent in percents]


def estimated_percentiles(
    trials: Sequence[Histogram], percents: Sequence[float], rule: Rule, how: Stopped
) -> list[Estimate | None]:
    """Of all requests of the trials of one cell that stopped so, with their doubt."""
    apart = [one for trial in trials if (one := trial.unpacked()).total]
    whole = merged(apart)
    found: list[Estimate | None] = []
    for percent, value in zip(percents, percentiles(whole, percents), strict=True):
        if value is None:
            found.append(None)
            continue
        interval = _woodruff(apart, whole, percent / 100, value, rule.watched)
        found.append(Estimate(float(value), len(apart), as_stated(interval, rule, how) if interval else None))
    return found


def _woodruff(
    trials: Sequence[Distribution], whole: Distribution, share: float, value: int, confidence: float
) -> Interval | None:
    """None for a single trial; no upper bound where the longest of all may yet be below it."""
    n, total = len(trials), whole.total
    if n < 2:
        return None
    # A bin may hold so many that its end says nothing of how far trials are apart: then its beginning does.
    off = max(_apart(trials, total, value - 1), _apart(trials, total, value))
    half = factor(n - 1, confidence) * sqrt(off * n / (n - 1)) / total
    low = float(min(whole.at(share - half), value)) if half < share else 0.0
    high = float(max(whole.at(share + half), value)) if share + half <= 1 else inf
    return Interval(float(value), low, high, n, confidence)


def _apart(trials: Sequence[Distribution], total: int, value: int) -> float:
    """How far trials are from having the same part of their requests up to a value: squares of requests, summed."""
    reached = [one.up_to(value) for one in trials]
    part = sum(reached) / total
    return fsum([(up_to - part * one.reached[-1]) ** 2 for up_to, one in zip(reached, trials, strict=True)])
