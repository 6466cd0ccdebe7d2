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

A mean that no run has all contexts of (parts of a matrix, nights in which different cells broke) is put together from
the means of those that the same runs share. Runs are no blocks, and one may have a say in several of these parts, so
nothing is taken to cancel: the half-widths of the parts, at a confidence corrected for how many there are, add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import dist, exp, fsum, inf, log, log1p, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from runner.guidelines.claims import averaged
from runner.guidelines.verdict import Verdict
from runner.statistics.ratios import bounded_exp
from runner.statistics.stopping import StopReason
from runner.statistics.students_t import t_factor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.guidelines.claims import Question
    from runner.guidelines.samples import Measured
    from runner.language.metrics import Metric

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
    #: A mean is put together from so many parts, where no run has all of it.
    parts: int = 1
    #: Of so many runs each is one of its values; of a single one, its blocks are.
    runs: int = 1

    @property
    def seems(self) -> bool:
        """Whether it looks like a yes."""
        return self.value is not None and self.question.low <= self.value <= self.question.high


def answered(question: Question, runs: Sequence[Mapping[str, Measured]], metric: Metric, level: Level) -> Answer:
    """What the runs say; each has its cells by their ids."""
    known = [run for run in runs if all(cell in run for cell in question.cells)]
    values = [found for run in known if (found := _values(question, run, metric))]
    strained = _strained(question, known)
    if not values:
        return Answer(question, Verdict.NOT_TESTED, strained=strained)
    alone = next((run[question.cells[0]] for run in known if question.absolute), None) if len(values) == 1 else None
    said = _judged(question, _Spread.of([(1.0, values)]), level, alone)
    return replace(said, strained=strained, runs=len(values))


def answered_in_mean(
    contexts: Sequence[Question], runs: Sequence[Mapping[str, Measured]], metric: Metric, level: Level
) -> Answer:
    """What they say of the mean of contexts, each of which has values in some run.

    Runs that have all contexts say it by themselves; where there is none, it is put together.
    """
    question = averaged(contexts)
    whole = answered(question, runs, metric, level)
    if whole.value is not None:
        return whole
    parts = _parted(contexts, runs, metric)
    values = [
        (len(part) / len(contexts), [found for run in runs if (found := _values(averaged(part), run, metric))])
        for part in parts
    ]
    strained = sum(_strained(one, [run for run in runs if _blocks(one, run, metric)]) for one in contexts)
    runs_a_part = max(len(found) for _, found in values)
    return replace(_judged(question, _Spread.of(values), level), strained=strained, parts=len(parts), runs=runs_a_part)


def _parted(
    contexts: Sequence[Question], runs: Sequence[Mapping[str, Measured]], metric: Metric
) -> list[list[Question]]:
    """Contexts that the very same runs have, each in blocks that they share."""
    found: dict[tuple[int, ...], list[tuple[list[Question], list[set[int]]]]] = {}
    for one in contexts:
        known = {at: blocks for at, run in enumerate(runs) if (blocks := _blocks(one, run, metric))}
        parts = found.setdefault(tuple(known), [])
        fitting = (part for part in parts if all(map(set.intersection, part[1], known.values())))
        part = next(fitting, None)
        if part is None:
            parts.append(([one], list(known.values())))
        else:
            part[0].append(one)
            part[1][:] = map(set.intersection, part[1], known.values())
    return [part for parts in found.values() for part, _ in parts]


def _strained(question: Question, runs: Sequence[Mapping[str, Measured]]) -> int:
    return sum(run[cell].strained for run in runs for cell in question.cells)


def _blocks(question: Question, run: Mapping[str, Measured], metric: Metric) -> set[int]:
    """The blocks of a run in which all of its cells were measured."""
    if not all(cell in run for cell in question.cells):
        return set()
    return set.intersection(*(set(run[cell].blocks(metric)) for cell in question.cells))


def _values(question: Question, run: Mapping[str, Measured], metric: Metric) -> list[float]:
    """The logarithm of the product in each block that measured all of its cells."""
    if not all(cell in run for cell in question.cells):
        return []
    blocks = {cell: run[cell].blocks(metric) for cell in question.cells}
    shared = sorted(set.intersection(*(set(one) for one in blocks.values())))
    return [
        sum(term.power * log(term.times * sum(blocks[cell][block] for cell in term.cells)) for term in question.terms)
        for block in shared
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """Values, as far as their mean and its doubt go, and what share they have in the whole."""

    share: float
    mean: float
    deviation: float
    n: int

    @classmethod
    def of(cls, share: float, runs: Sequence[Sequence[float]]) -> _Part:
        """Of the blocks of a run; where there are several, each of them is one value."""
        values = runs[0] if len(runs) == 1 else [fmean(one) for one in runs]
        n, mean = len(values), fmean(values)
        return cls(share, mean, dist(values, (mean,) * n) / sqrt(n - 1) if n > 1 else 0.0, n)

    def half(self, confidence: float, more: int) -> float:
        """Its share of half the width of an interval, with so many values more."""
        n = self.n + more
        return inf if n < 2 else self.share * t_factor(n - 1, confidence) * self.deviation / sqrt(n)


@dataclass(frozen=True, slots=True)
class _Spread:
    """A mean and its doubt."""

    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, values: Sequence[tuple[float, Sequence[Sequence[float]]]]) -> _Spread:
        """Of the values of runs, part by part, with the share of each."""
        return cls(tuple(_Part.of(share, runs) for share, runs in values))

    @property
    def mean(self) -> float:
        return fsum(one.share * one.mean for one in self.parts)

    @property
    def n(self) -> int:
        """What it rests on: no more than its weakest part."""
        return min(one.n for one in self.parts)

    def half(self, confidence: float, n: int | None = None) -> float:
        """Half the width of an interval, with so many values."""
        more = 0 if n is None else n - self.n
        each = 1 - (1 - confidence) / len(self.parts)
        return fsum(one.half(each, more) for one in self.parts)

    def enough(self, distance: float, confidence: float) -> int | None:
        """With how many values an interval would be narrower than that to either side."""
        certain = not any(one.deviation for one in self.parts)
        if self.n < 2 or certain or distance <= 0 or self.half(confidence, MOST) >= distance:
            return None
        few, many = 1, MOST
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if self.half(confidence, middle) < distance else (middle, many)
        return many


def _judged(question: Question, spread: _Spread, level: Level, alone: Measured | None = None) -> Answer:
    mean = spread.mean
    low, high = log(question.low) if question.low else -inf, log(question.high) if question.high < inf else inf
    inner, outer = (_bounds(spread, one, alone) for one in (level.yes, level.no))
    inside = min(mean - low, high - mean)
    enough = spread.enough(abs(inside), level.yes if inside > 0 else level.no)
    verdict = Verdict.INCONCLUSIVE
    if low <= inner[0] and inner[1] <= high:
        verdict = Verdict.HOLDS
    elif outer[1] < low or outer[0] > high:
        verdict = Verdict.FAILS
    return Answer(question, verdict, exp(mean), bounded_exp(inner[0]), bounded_exp(inner[1]), spread.n, enough)


def _bounds(spread: _Spread, confidence: float, alone: Measured | None) -> tuple[float, float]:
    """Of the interval of the mean; where it is one figure of one cell, as wide as its having stopped early makes it.

    That is what `stopping.interval_of` does with means that are not of logarithms.
    """
    if alone is None or alone.rule.until is None:
        half = spread.half(confidence)
    else:
        half = spread.half(replace(alone.rule, confidence=confidence).checked_confidence)
        if alone.stopped is StopReason.PRECISE and spread.n > alone.rule.first_look:
            half = max(half, log1p(alone.rule.until))
    return spread.mean - half, spread.mean + half
