"""How much more one sample is than another, how sure that is, and what may be said of it.

A ratio is `b` over `a`: 1.10 is "b is 10 % more". Whether more is better is not known here: rates want it, latencies do
not.

Everything is done on logarithms: noise of rates is relative, and an interval of a ratio then never reaches below zero.
What is estimated is the ratio of the geometric means; it differs from that of the means only where two samples differ
in their *relative* noise, by half the difference of its squares (2 % against 10 %: by 0.5 %).

The t-tests are those of `scipy.stats.ttest_rel` and `ttest_ind(equal_var=False)`, and are tested against them; they are
written down with the distribution alone because those take a millisecond each, and a comparison has thousands of cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import dist, exp, fsum, inf, log, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from runner.statistics.students_t import chance, factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: So much of the stated chance of error is used by `unpaired` where samples were stopped early: for its intervals to
#: cover, and for its small chances, which correction for many relies on, to be no smaller than they should. By
#: simulation.
SHARE = 0.65
#: Two earlier runs alone would have intervals that no difference gets out of.
_FREEDOM = 2


@dataclass(frozen=True, slots=True)
class Ratio:
    """b over a, with the bounds between which the true one lies, at the stated confidence.

    Where a single value leaves the doubt unknown, the bounds are 0 and infinity, and `p` is 1.
    """

    ratio: float
    low: float
    high: float
    n_a: int
    n_b: int
    confidence: float
    #: Chance of a ratio as far from 1 as this one, or farther, if there were no difference.
    p: float
    #: Whether values were compared block by block.
    paired: bool = False
    #: By so many earlier runs it is known how far runs lie apart; 0: what a whole run has in common is in the ratio.
    foreseen: int = 0

    @property
    def inverse(self) -> Ratio:
        """The ratio of a over b."""
        low, high = (1 / bound if bound else inf for bound in (self.high, self.low))
        return replace(self, ratio=1 / self.ratio, low=low, high=high, n_a=self.n_b, n_b=self.n_a)


class Verdict(StrEnum):
    """What a ratio allows to be said. Callers know whether more is faster (rates) or slower (latencies)."""

    MORE = "more"
    LESS = "less"
    SAME = "same"
    UNKNOWN = "cannot tell"


def paired(a: Mapping[int, float], b: Mapping[int, float], confidence: float = 0.95) -> Ratio | None:
    """The ratio over the blocks that both were measured in, by Student's t of the logarithms' differences.

    Whatever a block does to both alike, drift above all, cancels; blocks in which only one was measured (the other was
    known well enough by then) are left out, or the drift between would look like a difference. Assumes that what
    remains is independent from block to block and roughly normal. None without a block in common, or with a value that
    is not positive.
    """
    shared = sorted(a.keys() & b.keys())
    if not shared or not _positive(a[block] for block in shared) or not _positive(b[block] for block in shared):
        return None
    n = len(shared)
    differences = [log(b[block] / a[block]) for block in shared]
    mean, error = _mean_and_error(differences)
    return _ratio(mean, error, n - 1, (n, n), confidence, paired=True)


def unpaired(a: Sequence[float], b: Sequence[float], confidence: float = 0.95, *, early: bool = False) -> Ratio | None:
    """The ratio of two samples that share no blocks (other runs, other hosts); values in the order of their blocks.

    `early`: whether the doubt of either one had a say in how many values there are (`until`). If not, by Welch's t of
    the logarithms. If so, Welch's would see the very noise that looked small enough to stop, and cover 89 %; Scheffé's
    (1943) asks differences instead, each value of the shorter sample less one of the longer, scaled to size: it uses
    both means in full, stopping hardly knows its noise, and at a somewhat higher confidence it covers 94 to 97 %. Of as
    few as three values it is nearly twice as wide as Welch's: cells that are to be compared across runs want a `min` of
    5 and more.

    Assumes independent values, roughly normal in their logarithms; their noise may differ. What differs from one run to
    the next and stays all through it (a host in another mood) is part of the ratio: no sample of trials can tell it
    from what is compared. None without values on both sides, or with one that is not positive.
    """
    if not (a and b and _positive(a) and _positive(b)):
        return None
    logs_a, logs_b = ([log(value) for value in side] for side in (a, b))
    (mean_a, error_a), (mean_b, error_b) = _mean_and_error(logs_a), _mean_and_error(logs_b)
    sizes = len(a), len(b)
    if early:
        return _ratio(mean_b - mean_a, _scheffe(logs_a, logs_b), min(sizes) - 1, sizes, confidence, share=SHARE)
    error = sqrt(error_a**2 + error_b**2)
    return _ratio(mean_b - mean_a, error, _welch(error_a, len(a), error_b, len(b)), sizes, confidence)


def predicted(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], confidence: float = 0.95) -> Ratio | None:
    """The ratio of two sides of runs, one of which is a single run: `a` and `b` hold the values of each run.

    One run does not say how far runs lie apart, the several of the other side do. So it is asked whether the mean of
    the single one is what a further run of the other side could well have had: Student's prediction interval of the
    logarithms. Assumes that runs of both sides scatter alike. A single run of fewer trials than the others are made of
    has its doubt widened by what that makes of the noise within runs.
    """
    alone, several = (a, b) if len(a) == 1 else (b, a)
    if len(alone) != 1 or not several or not all(run and _positive(run) for run in (*alone, *several)):
        return None
    (mean_a, error_a), (mean_b, error_b) = (_mean_and_error([log(fmean(run)) for run in side]) for side in (a, b))
    n = len(several)
    scarce = max(0.0, 1 / len(alone[0]) - fmean(1 / len(run) for run in several))
    error = sqrt((error_a**2 + error_b**2) * (n + 1) + _noise((*alone, *several)) * scarce)
    return _ratio(mean_b - mean_a, error, n - 1, (len(a), len(b)), confidence)


def foreseen(
    a: Sequence[float], b: Sequence[float], history: Sequence[Sequence[Sequence[float]]], confidence: float = 0.95
) -> Ratio | None:
    """The ratio of two single runs, held against how far earlier runs lie apart.

    `history`: groups of runs with the values of each, of which those of a group differ in nothing but what nobody can
    help: runs like `a`, and runs like `b` where these are something else. It is asked whether two runs may well lie so
    far apart if nothing is the matter: Student's t of the logarithms of means, with what the groups say of their own
    spread. That spread has the noise within runs in it already, as they were measured then; a run of fewer trials has
    its doubt widened by what that adds. Assumes that runs differ now as they did then, whether what is compared is the
    same or not; a history in which the level changed says that runs lie farther apart than they do.

    None where the groups leave less than two degrees of freedom, or with a value that is not positive.
    """
    groups = [group for group in history if len(group) > 1]
    earlier = [run for group in groups for run in group]
    freedom = len(earlier) - len(groups)
    if freedom < _FREEDOM or not (a and b) or not all(run and _positive(run) for run in (a, b, *earlier)):
        return None
    means = [[log(fmean(run)) for run in group] for group in groups]
    apart = fsum(dist(group, (fmean(group),) * len(group)) ** 2 for group in means) / freedom
    usual = fmean(1 / len(run) for run in earlier)
    scarce = fsum(max(0.0, 1 / len(run) - usual) for run in (a, b))
    error = sqrt(2 * apart + _noise((a, b, *earlier)) * scarce)
    return _ratio(log(fmean(b) / fmean(a)), error, freedom, (len(a), len(b)), confidence, foreseen=len(earlier))


def _noise(runs: Iterable[Sequence[float]]) -> float:
    """The variance of logarithms within runs; 0 where no run has two values."""
    spread, freedom = 0.0, 0
    for run in runs:
        logs = [log(value) for value in run]
        spread += dist(logs, (fmean(logs),) * len(logs)) ** 2
        freedom += len(logs) - 1
    return spread / freedom if freedom else 0.0


def verdicts(ratios: Sequence[Ratio | None], within: float) -> list[Verdict]:
    """What may be said of each of many ratios that are looked at together; `within`: 0.05 is ± 5 %.

    *Same* if the interval lies within; *more* or *less* if it is not, and the ratio differs from 1 after correction for
    how many there are. The correction is Benjamini and Hochberg's: where nothing differs, the chance of saying so of
    any cell is at most 1 - confidence; where things do differ, at most that share of what is said is wrong on average.
    Holm's would promise that nothing at all is wrong, and could see next to no difference among hundreds of cells of
    three trials. It holds for independent ratios and for those that err in the same direction, as cells of one run do.
    *Same* is not corrected: each has its own chance, at most half of 1 - confidence, of a difference a little beyond.
    """
    corrected = _corrected([ratio.p if ratio else 1.0 for ratio in ratios])
    return [_verdict(ratio, p, within) for ratio, p in zip(ratios, corrected, strict=True)]


def _verdict(ratio: Ratio | None, p: float, within: float) -> Verdict:
    if ratio is None:
        return Verdict.UNKNOWN
    if ratio.low >= 1 / (1 + within) and ratio.high <= 1 + within:
        return Verdict.SAME
    if p > 1 - ratio.confidence:
        return Verdict.UNKNOWN
    return Verdict.MORE if ratio.ratio > 1 else Verdict.LESS


def _corrected(chances: Sequence[float]) -> list[float]:
    """By Benjamini and Hochberg, as `scipy.stats.false_discovery_control` has it, whose import takes half a second."""
    order = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
    corrected, least = [1.0] * len(chances), 1.0
    for rank, at in zip(range(len(chances), 0, -1), order, strict=True):
        least = min(least, chances[at] * len(chances) / rank)
        corrected[at] = least
    return corrected


def _ratio(
    mean: float,
    error: float,
    freedom: float,
    sizes: tuple[int, int],
    confidence: float,
    *,
    paired: bool = False,
    share: float = 1.0,
    foreseen: int = 0,
) -> Ratio:
    """`share`: so much of the chance of error is used."""
    if freedom <= 0:
        return Ratio(exp(mean), 0.0, inf, *sizes, confidence, 1.0, paired, foreseen)
    half = factor(freedom, 1 - share * (1 - confidence)) * error
    p = min(1.0, chance(_distance(mean, error), freedom) / share)
    return Ratio(exp(mean), unlogged(mean - half), unlogged(mean + half), *sizes, confidence, p, paired, foreseen)


def unlogged(power: float) -> float:
    """Two values that have nothing to do with each other have bounds beyond what a float can hold."""
    return exp(power) if power < 700 else inf


def _distance(mean: float, error: float) -> float:
    """In standard errors, from no difference at all."""
    if error:
        return abs(mean) / error
    return inf if mean else 0.0


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; 0 for a single value, whose doubt is dealt with as no freedom."""
    n, mean = len(values), fmean(values)
    return mean, dist(values, (mean,) * n) / sqrt(n * (n - 1)) if n > 1 else 0.0


def _scheffe(a: Sequence[float], b: Sequence[float]) -> float:
    """Standard error of the difference of two means, from as many differences as the shorter sample has values."""
    shorter, longer = sorted((a, b), key=len)
    scale = sqrt(len(shorter) / len(longer))
    return _mean_and_error([one - scale * other for one, other in zip(shorter, longer, strict=False)])[1]


def _welch(error_a: float, n_a: int, error_b: float, n_b: int) -> float:
    """Degrees of freedom of the difference of two means (Welch and Satterthwaite)."""
    if min(n_a, n_b) < 2:
        return 0.0
    parts = ((error_a**2, n_a - 1), (error_b**2, n_b - 1))
    spread = fsum(square**2 / freedom for square, freedom in parts)
    return fsum(square for square, _ in parts) ** 2 / spread if spread else float(n_a + n_b - 2)


def _positive(values: Iterable[float]) -> bool:
    return all(0 < value < inf for value in values)
