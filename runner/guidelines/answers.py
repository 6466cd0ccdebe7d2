"""What figures answer to a question: yes, no, or not yet, and how much more of them it would take.

All is done on logarithms, block by block, as `stats.compare.paired` does and with its assumptions: what a block does to
all cells alike cancels, and so does the doubt that stopping early would bias. A figure by itself (`absolute`) has
nothing to cancel with: its interval is wider where its cell stopped early. What is judged of it is its geometric mean,
which is less than the mean by half the square of its noise: by 0.1 % where trials scatter by 5 %.

*Yes* is an interval that lies between the bounds: at a confidence of 95 % the chance of a false one is at most 2.5 %,
and not larger where all of several questions must be answered so (each false one would have to slip through). *No* is
one that lies beyond a bound; as one such answer is enough, it is asked at a confidence that is corrected (Bonferroni)
for how many are asked together. So of claims on the very edge of truth, where either verdict says too much, at most
5 % get one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import dist, exp, inf, log, log1p, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from runner.guidelines.verdict import Verdict
from runner.stats.interval import t_factor
from runner.stats.stopping import Stopped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.guidelines.measured import Measured
    from runner.guidelines.questions import Question
    from runner.model.metrics import Metric

#: Nobody measures a cell more often; what would take more lies on the edge.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Level:
    """How sure an answer has to be."""

    confidence: float
    #: How many questions are asked together.
    together: int = 1
    #: So much of the chance of error is used: less, where it was looked at again and again until it was decided.
    share: float = 1.0

    @property
    def yes(self) -> float:
        """Of intervals that are to lie between the bounds."""
        return 1 - self.share * (1 - self.confidence)

    @property
    def no(self) -> float:
        """Of intervals that are to lie beyond."""
        return 1 - self.share * (1 - self.confidence) / self.together


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what was measured, and whether that is enough."""

    question: Question
    verdict: Verdict
    #: The ratio, or the figure itself; None where a cell has no figures.
    value: float | None = None
    low: float = 0.0
    high: float = inf
    #: Blocks, or runs where there are several.
    n: int = 0
    #: So many blocks would decide it, if things go on as they did; None: nobody can tell, or more than `MOST`.
    enough: int | None = None
    strained: int = 0

    @property
    def seems(self) -> bool:
        """Whether it looks like a yes."""
        return self.value is not None and self.question.low <= self.value <= self.question.high


def answered(question: Question, runs: Sequence[Mapping[str, Measured]], metric: Metric, level: Level) -> Answer:
    """What the runs say; each has its cells by their ids."""
    known = [run for run in runs if all(cell in run for cell in question.cells)]
    values = [found for run in known if (found := _values(question, run, metric))]
    strained = sum(run[cell].strained for run in known for cell in question.cells)
    if not values:
        return Answer(question, Verdict.NOT_TESTED, strained=strained)
    if len(values) == 1:
        alone = next((run[question.cells[0]] for run in known if question.absolute), None)
        return replace(_judged(question, values[0], level, alone), strained=strained)
    return replace(_judged(question, [fmean(one) for one in values], level), strained=strained)


def _values(question: Question, run: Mapping[str, Measured], metric: Metric) -> list[float]:
    """The logarithm of the product in each block that measured all of its cells."""
    blocks = {cell: run[cell].blocks(metric) for cell in question.cells}
    shared = sorted(set.intersection(*(set(one) for one in blocks.values())))
    return [
        sum(term.power * log(term.times * sum(blocks[cell][block] for cell in term.cells)) for term in question.terms)
        for block in shared
    ]


@dataclass(frozen=True, slots=True)
class _Spread:
    """Values, as far as their mean and its doubt go."""

    mean: float
    deviation: float
    n: int

    def half(self, confidence: float, n: int | None = None) -> float:
        """Half the width of an interval, with so many values."""
        n = n or self.n
        return inf if n < 2 else t_factor(n - 1, confidence) * self.deviation / sqrt(n)

    def enough(self, distance: float, confidence: float) -> int | None:
        """With how many values an interval would be narrower than that to either side."""
        if self.n < 2 or not self.deviation or distance <= 0 or self.half(confidence, MOST) >= distance:
            return None
        few, many = 1, MOST
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if self.half(confidence, middle) < distance else (middle, many)
        return many


def _judged(question: Question, values: Sequence[float], level: Level, alone: Measured | None = None) -> Answer:
    n, mean = len(values), fmean(values)
    spread = _Spread(mean, dist(values, (mean,) * n) / sqrt(n - 1) if n > 1 else 0.0, n)
    low, high = log(question.low) if question.low else -inf, log(question.high) if question.high < inf else inf
    inner, outer = (_bounds(spread, one, alone) for one in (level.yes, level.no))
    inside = min(mean - low, high - mean)
    enough = spread.enough(abs(inside), level.yes if inside > 0 else level.no)
    verdict = Verdict.INCONCLUSIVE
    if low <= inner[0] and inner[1] <= high:
        verdict = Verdict.HOLDS
    elif outer[1] < low or outer[0] > high:
        verdict = Verdict.FAILS
    return Answer(question, verdict, exp(mean), _exp(inner[0]), _exp(inner[1]), n, enough)


def _bounds(spread: _Spread, confidence: float, alone: Measured | None) -> tuple[float, float]:
    """Of the interval of the mean; where it is one figure of one cell, as wide as its having stopped early makes it.

    That is what `stopping.interval_of` does with means that are not of logarithms.
    """
    if alone is None or alone.rule.until is None:
        half = spread.half(confidence)
    else:
        half = spread.half(replace(alone.rule, confidence=confidence).watched)
        if alone.stopped is Stopped.PRECISE and spread.n > alone.rule.first_look:
            half = max(half, log1p(alone.rule.until))
    return spread.mean - half, spread.mean + half


def _exp(power: float) -> float:
    return exp(power) if power < 700 else inf
