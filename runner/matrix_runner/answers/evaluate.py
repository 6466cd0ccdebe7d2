"""Yes, no or undecided: the result of each case of a guideline, and how many more trials it would take.

The computation uses logarithms, round by round, so that effects of a round on all cells cancel. *Yes* requires an
interval between the bounds. *No* requires an interval beyond a bound; one such result decides, so its confidence is
corrected (Bonferroni) for the number of cases. The half-widths of the parts of a mean add up, because runs are no
rounds and do not cancel. Without the time that a slow host took from a cell, the cell could be faster: bounds include
that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import dist, exp, fsum, inf, log, log1p, sqrt
from statistics import fmean
from typing import NamedTuple, Self

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.answers.claims import Case, mean_case
from matrix_runner.statistics.ratios import (
    bounded_exp,
    clear_correlation,
    correlated_t_factor,
    highest_correlation,
    lag_correlation,
    likely_correlation,
)
from matrix_runner.statistics.stopping import StopReason
from matrix_runner.work.metrics import BESIDE, Metric

MOST = 10_000  # the limit for a useful number of trials. A case that needs more is at the edge.
_USUAL = 8  # early looks use more of the error rate, so that few trials decide clear cases. By simulation.


@dataclass(frozen=True, slots=True)
class Level:
    confidence: float
    together: int = 1  # the number of simultaneous cases
    #: The used part of the error rate. Below 1: looks repeat until a verdict, and a look after `_USUAL` rounds uses it.
    share: float = 1.0

    @property
    def repeated(self) -> bool:
        return self.share < 1

    def after(self, rounds: int) -> Self:
        """Return the level of a look after so many rounds: a larger part of the error rate is for early looks."""
        return replace(self, share=self.share * _USUAL / max(3, rounds)) if self.repeated else self

    @property
    def yes(self) -> float:
        return 1 - self.share * (1 - self.confidence)

    @property
    def no(self) -> float:
        return 1 - self.share * (1 - self.confidence) / self.together


@dataclass(frozen=True, slots=True)
class CaseResult:
    case: Case
    verdict: Verdict
    value: float | None = None  # the ratio, or the figure; None if a cell has no figures
    low: float = 0.0
    high: float = inf
    n: int = 0  # rounds, or runs if there are several
    #: The number of rounds that would decide it at the current scatter; None if unknown or above `MOST`.
    enough: int | None = None
    host_limited: int = 0
    blocked: bool = False  # more trials cannot decide it: the host took too much of their time
    parts: int = 1  # the number of parts of a mean, if no run has all contexts
    runs: int = 1  # the number of runs. With several, each run is one value; with one, each round is.
    #: The correlation of each round with the next one; None if it is not clear, or with several runs.
    correlation: float | None = None

    @property
    def seems(self) -> bool:
        return self.value is not None and self.case.low <= self.value <= self.case.high


def check_case(case: Case, runs: Sequence[Mapping[str, Measured]], metric: Metric, level: Level) -> CaseResult:
    known = [run for run in runs if all(cell in run for cell in case.cells)]
    measured = [run for run in known if _rounds(case, run, metric)]
    values = [_values(case, run, metric) for run in measured]
    host_limited = _host_limited(case, known)
    if not values:
        return CaseResult(case, Verdict.NOT_TESTED, host_limited=host_limited)
    alone = next((run[case.cells[0]] for run in known if case.absolute), None) if len(values) == 1 else None
    result = _result(case, _Spread.of([(1.0, values)], level), level, _lost(case, measured, metric), alone)
    return replace(result, host_limited=host_limited, runs=len(values))


def check_mean(
    contexts: Sequence[Case], runs: Sequence[Mapping[str, Measured]], metric: Metric, level: Level
) -> CaseResult:
    """Return the result for the mean of contexts, from the runs with all contexts; without any, combine parts."""
    case = mean_case(contexts)
    whole = check_case(case, runs, metric, level)
    if whole.value is not None:
        return whole
    parts = _parted(contexts, runs, metric)
    values = []
    for part in parts:
        found_by_run = (_values(mean_case(part), run, metric) for run in runs)
        values.append((len(part) / len(contexts), list(filter(None, found_by_run))))
    host_limited = sum(_host_limited(one, [run for run in runs if _rounds(one, run, metric)]) for one in contexts)
    result = _result(case, _Spread.of(values, level), level, _lost(case, runs, metric))
    return replace(result, host_limited=host_limited, parts=len(parts), runs=max(len(found) for _, found in values))


def _parted(contexts: Sequence[Case], runs: Sequence[Mapping[str, Measured]], metric: Metric) -> list[list[Case]]:
    found: dict[tuple[int, ...], list[tuple[list[Case], list[set[int]]]]] = {}
    for one in contexts:
        known = {at: rounds for at, run in enumerate(runs) if (rounds := _rounds(one, run, metric))}
        parts = found.setdefault(tuple(known), [])
        fitting = (part for part in parts if all(map(set.intersection, part[1], known.values())))
        part = next(fitting, None)
        if part is None:
            parts.append(([one], list(known.values())))
        else:
            part[0].append(one)
            part[1][:] = map(set.intersection, part[1], known.values())
    return [part for parts in found.values() for part, _ in parts]


def _host_limited(case: Case, runs: Sequence[Mapping[str, Measured]]) -> int:
    return sum(run[cell].host_limited for run in runs for cell in case.cells)


class _Lost(NamedTuple):
    """How far the true value may lie beyond the interval, as logarithms, because of time lost to a slow host."""

    below: float
    above: float


def _lost(case: Case, runs: Sequence[Mapping[str, Measured]], metric: Metric) -> _Lost:
    below = above = 0.0
    for term in case.terms if metric.name not in BESIDE else ():
        shares = [max(run[cell].lost_share for cell in term.cells) for run in runs if {*term.cells} <= run.keys()]
        gains = [-log1p(-share) if share < 1 else inf for share in shares]
        change = term.power * fmean(gains or [0.0]) * (1 if metric.more_is_better else -1)
        below, above = below + max(0.0, -change), above + max(0.0, change)
    return _Lost(below, above)


def _rounds(case: Case, run: Mapping[str, Measured], metric: Metric) -> set[int]:
    if not all(cell in run for cell in case.cells):
        return set()
    return set.intersection(*(set(run[cell].rounds(metric)) for cell in case.cells))


def _values(case: Case, run: Mapping[str, Measured], metric: Metric) -> list[float]:
    rounds = {cell: run[cell].rounds(metric) for cell in case.cells if cell in run}

    def product(number: int) -> float:
        sums = ((term, sum(rounds[cell][number] for cell in term.cells)) for term in case.terms)
        return sum(term.power * log(term.times * total) for term, total in sums)

    return [product(number) for number in sorted(_rounds(case, run, metric))]


@dataclass(frozen=True, slots=True)
class _Part:
    share: float
    mean: float
    deviation: float
    n: int
    correlation: float | None  # of each round with the next one, if it is clear
    likely: float  # the correlation that the interval allows for
    lag: float | None  # the measured one, if the interval allows for a higher one: with repeated looks

    @classmethod
    def of(cls, share: float, runs: Sequence[Sequence[float]], level: Level) -> Self:
        """Use the rounds of a single run; with several runs, each run is one value."""
        values = runs[0] if len(runs) == 1 else [fmean(one) for one in runs]
        n, mean = len(values), fmean(values)
        deviation = dist(values, (mean,) * n) / sqrt(n - 1) if n > 1 else 0.0
        if len(runs) > 1:
            return cls(share, mean, deviation, n, None, 0.0, None)
        lag = lag_correlation(values) if level.repeated else None
        return cls(share, mean, deviation, n, clear_correlation(values), likely_correlation(values), lag)

    def half(self, confidence: float, more: int) -> float:
        n = self.n + more
        if n < 2:
            return inf
        correlation = max(self.likely, 0.0 if self.lag is None else highest_correlation(self.lag, n))
        return self.share * correlated_t_factor(n, correlation, confidence) * self.deviation / sqrt(n)


@dataclass(frozen=True, slots=True)
class _Spread:
    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, values: Sequence[tuple[float, Sequence[Sequence[float]]]], level: Level) -> Self:
        return cls(tuple(_Part.of(share, runs, level) for share, runs in values))

    @property
    def correlation(self) -> float | None:
        return max(filter(None, (one.correlation for one in self.parts)), default=None)

    @property
    def mean(self) -> float:
        return fsum(one.share * one.mean for one in self.parts)

    @property
    def n(self) -> int:
        return min(one.n for one in self.parts)

    def half(self, confidence: float, n: int | None = None) -> float:
        more = 0 if n is None else n - self.n
        each = 1 - (1 - confidence) / len(self.parts)
        return fsum(one.half(each, more) for one in self.parts)

    def enough(self, distance: float, confidence: float) -> int | None:
        certain = not any(one.deviation for one in self.parts)
        if self.n < 2 or certain or distance <= 0 or self.half(confidence, MOST) >= distance:
            return None
        few, many = 1, MOST
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if self.half(confidence, middle) < distance else (middle, many)
        return many


def _result(case: Case, spread: _Spread, level: Level, lost: _Lost, alone: Measured | None = None) -> CaseResult:
    mean, level = spread.mean, level.after(spread.n)
    low, high = log(case.low) if case.low else -inf, log(case.high) if case.high < inf else inf
    inner, outer = (_bounds(spread, one, alone) for one in (level.yes, level.no))

    def room(least: float, most: float) -> tuple[float, float]:
        """Return how far such an interval lies between the bounds, and beyond one of them."""
        least, most = least - lost.below, most + lost.above
        return min(least - low, high - most), max(low - most, least - high)

    inside, beyond = room(mean, mean)
    enough = spread.enough(max(inside, beyond), level.yes if inside > 0 else level.no)
    verdict = Verdict.INCONCLUSIVE
    if room(*inner)[0] >= 0:
        verdict = Verdict.HOLDS
    elif room(*outer)[1] > 0:
        verdict = Verdict.FAILS
    decidable = (
        max(inner[0], low + lost.below) <= min(inner[1], high - lost.above)
        or inner[0] < low - lost.above
        or inner[1] > high + lost.below
    )
    blocked = verdict is Verdict.INCONCLUSIVE and any(lost) and not decidable
    least, most = bounded_exp(inner[0] - lost.below), bounded_exp(inner[1] + lost.above)
    found = CaseResult(case, verdict, exp(mean), least, most, spread.n, enough, blocked=blocked)
    return replace(found, correlation=spread.correlation)


def _bounds(spread: _Spread, confidence: float, alone: Measured | None) -> tuple[float, float]:
    """Return the interval of the mean, like `stopping.interval_of`. It is wider for a figure that stopped early."""
    if alone is None or alone.rule.until is None:
        half = spread.half(confidence)
    else:
        half = spread.half(replace(alone.rule, confidence=confidence).checked_confidence)
        if alone.stopped is StopReason.PRECISE and spread.n > alone.rule.first_look:
            half = max(half, log1p(alone.rule.until))
    return spread.mean - half, spread.mean + half
