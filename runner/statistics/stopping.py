"""When a cell is known well enough, and what its interval is then.

Whoever looks at an interval after every block and stops when it is narrow, stops above all when the noise looked small
by accident: intervals of 95 % then cover 90 %. Four things together repair that, at the price of up to a
third more trials, and of none where noise is low:

* the interval that is looked at is that of a somewhat higher confidence (96.25 % for 95 %);
* after the first look it must be narrow enough after two blocks in a row: one accident is not enough;
* the first look, which has none before it, must show a quarter less than was asked for: few values look quiet easily;
* a cell that stopped so is said to be known to ± `until` as it was asked for, and not to the luck of the last block.

The rate that is looked at is that of reading and writing together. In mixed work fio's random generator decides how
much of it is reading: that split differs from trial to trial far more than the total does.

Assumed is what Student's t assumes: independent values, roughly normal in their mean. The mean of such values says
nothing of their noise, so stopping by noise alone leaves means, and ratios of means, where they are; `bench.coverage`
shows how far that carries, for a `min` of 3 or more: 94.5 to 97 % for normal and skewed values at any noise, 93 to 96 %
for two states that lie three times their own noise apart (of a `min` of 2, these are covered 92 %). What no rule can
know is what it has not seen: of a cell with two far-off states, three trials may all have met the same one. There, only
a larger `min` helps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isfinite
from typing import TYPE_CHECKING

from runner.statistics.interval import student

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.statistics.interval import Interval

#: So much of the stated chance of error is used where looking is allowed. Found by simulation, for a `min` of 3 or more
#: and any `max`.
SHARE = 0.75
#: How narrow the first look has to be, as a part of what was asked for. Found so, too.
AT_ONCE = 0.75


@dataclass(frozen=True, slots=True)
class Rule:
    """How long a cell is measured: `most` times, or until its means are known to ± `until`, at `least` so often."""

    least: int
    most: int
    until: float | None = None
    confidence: float = 0.95
    #: The run is finished: there are no more trials, whatever was wanted.
    over: bool = False
    #: Beyond `least`, trials went where guidelines were open, whatever was wanted here.
    steered: bool = False

    @property
    def early(self) -> bool:
        """Whether what was measured had a say in how often."""
        return self.until is not None or self.steered

    @property
    def first_look(self) -> int:
        """So many values are there when it is first asked whether they are enough."""
        return max(self.least, 2)

    @property
    def watched(self) -> float:
        """The confidence of the interval that is looked at."""
        return self.confidence if self.until is None else 1 - SHARE * (1 - self.confidence)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over trials, or a percentile of all their requests; no interval where a single one leaves it unknown."""

    mean: float
    n: int
    interval: Interval | None

    @property
    def relative(self) -> float | None:
        """Half width of the interval as a part of the mean; None where that is not known."""
        return self.interval.relative if self.interval and isfinite(self.interval.high) else None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Between which the true one lies; nothing that is measured is below 0, though Student's t does not know."""
        if self.interval is None:
            return None, None
        return max(0.0, self.interval.low), self.interval.high if isfinite(self.interval.high) else None


class Stopped(StrEnum):
    """Why no more trials of a cell follow."""

    FIXED = "fixed"  # so many were asked for
    PRECISE = "precise"  # it is known as well as was asked for, and surely enough to stop
    MAX = "max"  # it is not, or not as surely as that, and there were as many trials as there may be
    BUDGET = "budget"  # nor is it here, but the run had no more to spend
    DECIDED = "decided"  # no guideline wanted more of it, or there was no more to spend
    UNFINISHED = "unfinished"  # more are to follow


def known(rates: Sequence[float], rule: Rule) -> bool:
    """Whether a cell with these rates, of reading and writing together and in block order, needs no more trials."""
    if rule.until is None or len(rates) < rule.first_look:
        return False
    if len(rates) == rule.first_look:
        return doubt(rates, rule) <= AT_ONCE * rule.until
    return doubt(rates, rule) <= rule.until and doubt(rates[:-1], rule) <= rule.until


def doubt(rates: Sequence[float], rule: Rule) -> float:
    """The relative half-width of their mean; infinite where it is not known."""
    interval = student(rates, rule.watched)
    width = interval.relative if interval else None
    return inf if width is None else width


def stopped(rates: Sequence[float], trials: int, rule: Rule) -> Stopped:
    """How a cell came to the trials it has; `trials`: how many, those without rates included."""
    elsewhere = rule.steered and (trials > rule.least or not rule.over)  # decided, and not by what is known of it
    if not elsewhere and known(rates, rule):
        return Stopped.PRECISE
    if elsewhere or trials < rule.most:
        ended = Stopped.DECIDED if rule.steered else Stopped.BUDGET
        return ended if rule.over else Stopped.UNFINISHED
    return Stopped.FIXED if rule.until is None else Stopped.MAX


def interval_of(values: Sequence[float], rule: Rule, how: Stopped) -> Interval | None:
    """The interval of the mean of one figure of a cell that stopped so; it covers what the rule's confidence says.

    Other figures than the rate that was watched go with it more or less (latencies do): they are treated alike, and
    cover more where they do not.
    """
    found = student(values, rule.watched)
    return as_stated(found, rule, how) if found else None


def as_stated(found: Interval, rule: Rule, how: Stopped) -> Interval:
    """An interval at the confidence that is looked at, as what it is worth where looking was allowed."""
    if rule.until is None:
        return found
    found = replace(found, confidence=rule.confidence)
    if how is not Stopped.PRECISE or found.n <= rule.first_look:
        return found
    least = rule.until * abs(found.mean)
    return replace(found, low=min(found.low, found.mean - least), high=max(found.high, found.mean + least))


def estimated(values: Sequence[float], rule: Rule, how: Stopped) -> Estimate:
    """The mean of one figure, of at least one trial of a cell that stopped so, with its doubt."""
    found = interval_of(values, rule, how)
    return Estimate(found.mean if found else values[0], len(values), found)
