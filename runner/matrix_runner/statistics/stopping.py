"""The stopping rule of a cell: when its interval is narrow enough, and what the interval is worth then.

A check after every round stops too often when the noise is small by chance: intervals of 95 % then cover only 90 %.
Four measures repair that. They cost up to a third more trials, and no more if the noise is low:

* the checked interval has a higher confidence (96.25 % for 95 %);
* after the first check, it must be narrow enough in two rounds in a row;
* the first check has no check before it, so it demands an interval that is a quarter narrower;
* the reported interval of a cell that stops after a later check is at least ± `until`, even if its own is narrower.

The checked rate is that of reading and writing together. In mixed work, fio's random generator decides how much of it
is reading: that split differs between trials far more than the total does.

The rule assumes values that are roughly normal in their mean. Correlated trials seem precise too early. From 8 trials
on, `student_interval` allows for that. Fewer of one cell cannot show it, but five rounds of all cells can: from then
on, the scheduler asks for more by `Rule.correlation`. `bench.coverage` measures the coverage for a `min` of 3 or more:
95 to 97 % for normal and skewed values at any noise. No rule can detect an unseen state: three trials may all have met
the same one of two distant states. Only a larger `min` helps there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isfinite
from statistics import fmean

from matrix_runner.statistics.ratios import PRACTICAL, Interval, student_interval

#: The part of the error probability that is used if early stopping is possible. By simulation, for a `min` of 3 or
#: more and any `max`.
ALPHA_SHARE = 0.75
#: How narrow the interval of the first check has to be, relative to `until`. By simulation, too.
FIRST_LOOK_SHARE = 0.75
#: Fewer rounds have too few orders to show that trials are correlated.
LEAST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Rule:
    """A cell is measured `least` times, then until its means are known to ± `until`, at most `most` times."""

    least: int
    most: int
    until: float | None = None
    confidence: float = 0.95
    over: bool = False  # the run is finished and gets no more trials
    steered: bool = False  # beyond `least`, undecided guidelines chose the trials
    correlation: float = 0.0  # of each round with the next one, as all cells of the run show it so far
    practical: float = PRACTICAL  # differences up to this size count as equal, for a search

    @property
    def first_look(self) -> int:
        return max(self.least, 2)

    @property
    def checked_confidence(self) -> float:
        return self.confidence if self.until is None else 1 - ALPHA_SHARE * (1 - self.confidence)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over trials, or a percentile of all their requests; no interval if there is only one trial."""

    mean: float
    n: int
    interval: Interval | None

    @property
    def relative(self) -> float | None:
        """The half width relative to the mean; None if unknown."""
        return self.interval.relative if self.interval and isfinite(self.interval.high) else None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The bounds of the true value. The lower one is at least 0, as no measured value is negative."""
        if self.interval is None:
            return None, None
        return max(0.0, self.interval.low), self.interval.high if isfinite(self.interval.high) else None


class StopReason(StrEnum):
    """Why a cell gets no more trials."""

    FIXED = "fixed"  # the declared number
    PRECISE = "precise"  # the interval is narrow enough to stop
    MAX = "max"  # not narrow enough, at the most trials
    BUDGET = "budget"  # not narrow enough, and the run's budget is used up
    DECIDED = "decided"  # no guideline needs more trials, or the budget is used up
    UNFINISHED = "unfinished"  # more trials follow


def is_precise(rates: Sequence[float], rule: Rule) -> bool:
    """Return whether a cell with these rates (reads and writes together, in order of rounds) needs no more trials."""
    if rule.until is None or len(rates) < rule.first_look:
        return False
    if len(rates) == rule.first_look:
        return relative_error(rates, rule) <= FIRST_LOOK_SHARE * rule.until
    return relative_error(rates, rule) <= rule.until and relative_error(rates[:-1], rule) <= rule.until


def relative_error(rates: Sequence[float], rule: Rule) -> float:
    interval = student_interval(rates, rule.checked_confidence, rule.correlation)
    width = interval.relative if interval else None
    return inf if width is None else width


def stop_reason(rates: Sequence[float], trials: int, rule: Rule) -> StopReason:
    """Return why the cell has its number of trials; `trials` includes those without rates."""
    elsewhere = rule.steered and (trials > rule.least or not rule.over)  # decided by guidelines, not by its interval
    if not elsewhere and is_precise(rates, rule):
        return StopReason.PRECISE
    if elsewhere or trials < rule.most:
        ended = StopReason.DECIDED if rule.steered else StopReason.BUDGET
        return ended if rule.over else StopReason.UNFINISHED
    return StopReason.FIXED if rule.until is None else StopReason.MAX


def interval_of(values: Sequence[float], rule: Rule, how: StopReason) -> Interval | None:
    """Return the interval of a metric of a stopped cell, at the rule's confidence.

    Metrics other than the checked rate correlate with it (latencies do) or cover more.
    """
    found = student_interval(values, rule.checked_confidence)
    return stated_interval(found, rule, how) if found else None


def stated_interval(found: Interval, rule: Rule, how: StopReason) -> Interval:
    """Convert an interval at the checked confidence to the stated one, where early stopping was possible."""
    if rule.until is None:
        return found
    found = replace(found, confidence=rule.confidence)
    if how is not StopReason.PRECISE or found.n <= rule.first_look:
        return found
    least = rule.until * abs(found.mean)
    return replace(found, low=min(found.low, found.mean - least), high=max(found.high, found.mean + least))


def estimate_mean(values: Sequence[float], rule: Rule, how: StopReason) -> Estimate:
    found = interval_of(values, rule, how)
    return Estimate(found.mean if found else values[0], len(values), found)


# The steady state of SNIA's Performance Test Specification: five rounds with a small range and a small slope.
#
# templates/pts-steady.sh has the same rule for scripts, in whole numbers.
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
