"""Confidence intervals of means, by Student's t distribution, and ratios of two samples with verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import dist, exp, fsum, inf, lgamma, log, log1p, pi, sqrt
from operator import mul
from statistics import NormalDist, fmean
from typing import NamedTuple

PRACTICAL = 0.05  # differences up to this size count as equal, if nothing else is declared
_EXACT = 1e-15
#: More steps than any realistic number of degrees of freedom needs.
_MOST = 10_000


def two_sided_p(distance: float, freedom: float) -> float:
    """Return the probability of a value at this distance from 0 or farther, on either side."""
    ratio = distance * distance / freedom
    if not ratio or ratio == inf:
        return 0.0 if ratio else 1.0
    if freedom == 2:  # that of three pairs, the default: there, the integral has a short form
        return 1 / (1 + ratio) / (1 + sqrt(1 / (1 + 1 / ratio)))
    return _beyond(ratio, freedom / 2, 0.5)


def variance_ratio_p(value: float, above: int, below: int) -> float:
    """Return the probability of a quotient of two variances (F) of this value or more, by their degrees of freedom."""
    ratio = value * above / below
    return (0.0 if ratio > 0 else 1.0) if ratio in {0, inf} else _beyond(ratio, below / 2, above / 2)


def _beyond(ratio: float, a: float, b: float) -> float:
    """Return the incomplete beta function of a and b at 1 / (1 + ratio)."""
    below, beyond = 1 / (1 + 1 / ratio), 1 / (1 + ratio)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) - a * log1p(ratio) - b * log1p(1 / ratio))
    # The fraction converges fast on one side of the middle; on the other, that of the complement does.
    if beyond < (a + 1) / (a + b + 2):
        return front * _fraction(beyond, a, b) / a
    return 1 - front * _fraction(below, b, a) / b


@lru_cache(maxsize=4096)
def t_factor(freedom: float, confidence: float) -> float:
    """Return how many standard errors on either side have this confidence."""
    if (1 + confidence) / 2 == 1:
        return inf
    found, half = NormalDist().inv_cdf((1 + confidence) / 2), freedom / 2
    scale = lgamma(half + 0.5) - lgamma(half) - log(pi * freedom) / 2
    # The probability is convex and the normal quantile is too small, so all Newton steps go in one direction and do not
    # overshoot.
    for _ in range(_MOST):
        density = exp(scale - (half + 0.5) * log1p(found * found / freedom))
        step = (two_sided_p(found, freedom) - (1 - confidence)) / (2 * density)
        found += step
        if step <= 1e-14 * found:
            break
    return found


MOST_ROUNDS = 1_000


def rounds_to_detect(size: float, scatter: float, confidence: float) -> int | None:
    """Return the rounds that show a difference between two cells in 9 of 10 runs, if trials scatter independently."""
    for rounds in range(2, MOST_ROUNDS + 1):
        factor = t_factor(rounds - 1, confidence) + t_factor(rounds - 1, 0.8)  # 0.8: 90 % on one side
        if factor * scatter * sqrt(2 / rounds) <= log1p(size):
            return rounds
    return None


def _fraction(x: float, a: float, b: float) -> float:
    """Return 1 / (1 + d1 / (1 + d2 / (1 + ...))) by Lentz's method: a product whose factors converge to 1."""
    upper, lower, found = 1.0, 0.0, 1.0
    for step in range(1, _MOST):
        m = step // 2
        term = -(a + m) * (a + b + m) / (a + 2 * m + 1) if step % 2 else m * (b - m) / (a + 2 * m - 1)
        term *= x / (a + 2 * m)
        upper, lower = 1 + term / upper, 1 / (1 + term * lower)
        found *= upper * lower
        if abs(upper * lower - 1) < _EXACT:
            break
    return 1 / found


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the bounds of the true mean at the stated confidence."""

    mean: float
    low: float
    high: float
    n: int
    confidence: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    @property
    def relative(self) -> float | None:
        """The half width relative to the mean (0.05 is ± 5 %); None if the mean is zero."""
        return self.half_width / abs(self.mean) if self.mean else None


def student_interval(values: Sequence[float], confidence: float = 0.95, correlation: float = 0.0) -> Interval | None:
    """Return the interval of the mean of values in order of rounds; None for fewer than two, which have no spread.

    `correlation`: the least that it allows for.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if len(values) < 2:
        return None
    n, mean = len(values), fmean(values)
    # The sample standard deviation. `statistics.stdev` takes twenty times as long, seconds for thousands of cells.
    deviation = dist(values, (mean,) * n) / sqrt(n - 1)
    half = correlated_t_factor(n, max(correlation, likely_correlation(values)), confidence) * deviation / sqrt(n)
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n, confidence=confidence)


#: The part of the error probability that `unpaired_ratio` uses for samples that were stopped early: then its intervals
#: cover as stated, and small p, on which the correction relies, are not too small. By simulation.
EARLY_ALPHA_SHARE = 0.65
#: With fewer degrees of freedom, no difference could be detected.
_LEAST_FREEDOM = 2


class Ratio(NamedTuple):  # there may be 100,000, and frozen classes take five times as long to make
    """b over a, and the bounds of the true ratio. With a single value they are 0 and infinity, and `p` is 1."""

    ratio: float
    low: float
    high: float
    n_a: int
    n_b: int
    confidence: float
    p: float  # the probability of a ratio as far from 1 or farther without a difference
    paired: bool = False  # true if values were compared round by round
    #: How many earlier runs showed the spread of runs; 0: effects on a whole run are part of the ratio.
    foreseen: int = 0

    @property
    def inverse(self) -> "Ratio":
        low, high = (1 / bound if bound else inf for bound in (self.high, self.low))
        about = self.confidence, self.p, self.paired, self.foreseen
        return Ratio(1 / self.ratio, low, high, self.n_b, self.n_a, *about)

    @property
    def apart(self) -> float:
        """Return the largest difference within the bounds (0.1: 10 %)."""
        return max(self.high, 1 / self.low if self.low else inf) - 1


class Verdict(StrEnum):
    """The conclusion from a ratio. Callers know whether more is faster (rates) or slower (latencies)."""

    MORE = "more"
    LESS = "less"
    SAME = "same"
    UNKNOWN = "cannot tell"


def paired_ratio(a: Mapping[int, float], b: Mapping[int, float], confidence: float = 0.95) -> Ratio | None:
    """Return the ratio over the rounds that both have, by Student's t of the differences of logarithms.

    Common effects of a round, mainly drift, cancel. None without a shared round, or if a value is not positive.
    """
    shared = sorted(a.keys() & b.keys())
    if not shared or not _positive(side[number] for side in (a, b) for number in shared):
        return None
    n = len(shared)
    mean, error = _mean_and_error([log(b[number] / a[number]) for number in shared])
    return _ratio(mean, error, n - 1, (n, n), confidence, paired=True)


def blocked_ratio(pairs: Sequence[tuple[Mapping[int, float], Mapping[int, float]]], confidence: float) -> Ratio | None:
    """Return the geometric mean of the ratios of several pairs, each over the rounds that both sides have.

    The pairs may have different ratios. How much each one scatters from round to round is assumed to be equal.
    """
    several = [(a, b, shared) for a, b in pairs if (shared := sorted(a.keys() & b.keys()))]
    if not several or not _positive(side[number] for a, b, shared in several for side in (a, b) for number in shared):
        return None
    apart = [[log(b[number] / a[number]) for number in shared] for a, b, shared in several]
    n, freedom = sum(map(len, apart)), sum(len(one) - 1 for one in apart)
    squares = fsum((value - fmean(one)) ** 2 for one in apart for value in one)
    error = sqrt(squares / freedom * fsum(1 / len(one) for one in apart)) / len(apart) if freedom else 0.0
    return _ratio(fmean(map(fmean, apart)), error, freedom, (n, n), confidence, paired=True)


def unpaired_ratio(
    a: Sequence[float], b: Sequence[float], confidence: float = 0.95, *, early: bool = False
) -> Ratio | None:
    """Return the ratio of two samples without shared rounds (other runs, other hosts), in order of their rounds.

    `early`: the results of either one decided its number of values (`until`). Welch's t of the logarithms would then
    use the same noise that ended the measurement, and cover 89 %. Scheffé's test (1943) uses differences, which
    stopping hardly affects; with three values it is nearly twice as wide. None if a sample is empty or a value is not
    positive.
    """
    if not (a and b and _positive(a) and _positive(b)):
        return None
    logs_a, logs_b = ([log(value) for value in side] for side in (a, b))
    (mean_a, error_a), (mean_b, error_b) = _mean_and_error(logs_a), _mean_and_error(logs_b)
    sizes = len(a), len(b)
    if early:
        error = _scheffe_error(logs_a, logs_b)
        return _ratio(mean_b - mean_a, error, min(sizes) - 1, sizes, confidence, share=EARLY_ALPHA_SHARE)
    error, freedom = sqrt(error_a**2 + error_b**2), _welch_freedom(error_a, len(a), error_b, len(b))
    return _ratio(mean_b - mean_a, error, freedom, sizes, confidence)


def predicted_ratio(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], confidence: float = 0.95
) -> Ratio | None:
    """Return the ratio of two sides of runs, one of which is a single run; each run is given by its values.

    One run does not show how much runs differ, so the spread of the other side is used for both: Student's prediction
    interval of the logarithms. A single run with fewer trials than the others gets a wider interval.
    """
    alone, several = (a, b) if len(a) == 1 else (b, a)
    if len(alone) != 1 or not several or not all(run and _positive(run) for run in (*alone, *several)):
        return None
    (mean_a, error_a), (mean_b, error_b) = (_mean_and_error([log(fmean(run)) for run in side]) for side in (a, b))
    n = len(several)
    scarce = max(0.0, 1 / len(alone[0]) - fmean(1 / len(run) for run in several))
    error = sqrt((error_a**2 + error_b**2) * (n + 1) + _variance_within_runs((*alone, *several)) * scarce)
    return _ratio(mean_b - mean_a, error, n - 1, (len(a), len(b)), confidence)


def ratio_by_history(
    a: Sequence[float], b: Sequence[float], history: Sequence[Sequence[Sequence[float]]], confidence: float = 0.95
) -> Ratio | None:
    """Return the ratio of two single runs, judged by how much earlier runs differ.

    `history`: groups of runs that differ only by chance, with the values of each. Student's t of the logarithms of
    means uses the spread within groups; a run with fewer trials gets a wider interval. None with fewer than two degrees
    of freedom, or if a value is not positive.
    """
    groups = [group for group in history if len(group) > 1]
    earlier = [run for group in groups for run in group]
    freedom = len(earlier) - len(groups)
    if freedom < _LEAST_FREEDOM or not (a and b) or not all(run and _positive(run) for run in (a, b, *earlier)):
        return None
    means = [[log(fmean(run)) for run in group] for group in groups]
    apart = fsum(dist(group, (fmean(group),) * len(group)) ** 2 for group in means) / freedom
    usual = fmean(1 / len(run) for run in earlier)
    scarce = fsum(max(0.0, 1 / len(run) - usual) for run in (a, b))
    error = sqrt(2 * apart + _variance_within_runs((a, b, *earlier)) * scarce)
    return _ratio(log(fmean(b) / fmean(a)), error, freedom, (len(a), len(b)), confidence, foreseen=len(earlier))


def _variance_within_runs(runs: Iterable[Sequence[float]]) -> float:
    """Return the variance of logarithms within runs; 0 if no run has two values."""
    spread, freedom = 0.0, 0
    for run in runs:
        logs = [log(value) for value in run]
        spread += dist(logs, (fmean(logs),) * len(logs)) ** 2
        freedom += len(logs) - 1
    return spread / freedom if freedom else 0.0


def verdicts(ratios: Sequence[Ratio | None], within: float) -> list[Verdict]:
    """Return the verdicts of many ratios that are read together; `within`: 0.05 is ± 5 %.

    *Same*: the interval is within. *More* or *less*: it is not, and the ratio differs from 1 after the correction of
    Benjamini and Hochberg for the number of ratios. Holm's would find hardly any difference among hundreds of cells
    with three trials. *Same* is not corrected: each one has its own probability of a difference slightly beyond.
    """
    corrected = _correct([ratio.p if ratio else 1.0 for ratio in ratios])
    return [_verdict(ratio, p, within) for ratio, p in zip(ratios, corrected, strict=True)]


def _verdict(ratio: Ratio | None, p: float, within: float) -> Verdict:
    if ratio is None:
        return Verdict.UNKNOWN
    if ratio.low >= 1 / (1 + within) and ratio.high <= 1 + within:
        return Verdict.SAME
    if p > 1 - ratio.confidence:
        return Verdict.UNKNOWN
    return Verdict.MORE if ratio.ratio > 1 else Verdict.LESS


def _correct(chances: Sequence[float]) -> list[float]:
    """Correct by Benjamini and Hochberg, as `scipy.stats.false_discovery_control`, whose import takes half a second."""
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
    """`share`: the part of the error probability that is used."""
    if freedom <= 0:
        return Ratio(exp(mean), 0.0, inf, *sizes, confidence, 1.0, paired, foreseen)
    half = t_factor(freedom, 1 - share * (1 - confidence)) * error
    distance = abs(mean) / error if error else inf if mean else 0.0
    p = min(1.0, two_sided_p(distance, freedom) / share)
    return Ratio(exp(mean), bounded_exp(mean - half), bounded_exp(mean + half), *sizes, confidence, p, paired, foreseen)


def bounded_exp(power: float) -> float:
    """Return infinity beyond the range of floats: bounds of unrelated values can be that large."""
    return exp(power) if power < 700 else inf


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error; 0 for a single value, which callers treat as no degrees of freedom."""
    if len(values) == 1:
        return values[0], 0.0
    n, mean = len(values), fmean(values)
    return mean, dist(values, (mean,) * n) / sqrt(n * (n - 1))


def _scheffe_error(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the error of the difference of two means, from as many differences as the shorter sample has values."""
    shorter, longer = sorted((a, b), key=len)
    scale = sqrt(len(shorter) / len(longer))
    return _mean_and_error([one - scale * other for one, other in zip(shorter, longer, strict=False)])[1]


def _welch_freedom(error_a: float, n_a: int, error_b: float, n_b: int) -> float:
    """Return the degrees of freedom of the difference of two means (Welch and Satterthwaite)."""
    if min(n_a, n_b) < 2:
        return 0.0
    parts = ((error_a**2, n_a - 1), (error_b**2, n_b - 1))
    spread = fsum(square**2 / freedom for square, freedom in parts)
    return fsum(square for square, _ in parts) ** 2 / spread if spread else float(n_a + n_b - 2)


def _positive(values: Iterable[float]) -> bool:
    return all(0 < value < inf for value in values)


# Correlation between successive trials or nights, and what it costs: an interval from n of them is worth fewer.
#
# The model is a first-order autoregression: each value keeps a share of the deviation of the one before.

#: Stronger correlation is not considered: trials would hardly differ.
MOST_CORRELATION = 0.9
#: Without evidence, trials may be as correlated as this. By simulation (`bench.stated`).
MOST_UNSEEN = 0.8
#: How many standard deviations of its estimate a correlation may lie above it. By simulation (`bench.stated`).
_CAUTION = 2.2
#: Fewer values do not show that they are correlated.
LEAST_VALUES = 8
#: An interval allows for an estimate that is so many standard errors above that of independent values, and for so many
#: more. By simulation (`bench.coverage`): independent values are still covered as stated.
DOUBT = 0.7
#: By simulation, 1 % of independent series of 8 to 100 values seem correlated.
_CLEAR = 2.33


def lag_correlation(values: Sequence[float]) -> float:
    """Return the correlation of each value with the next one; 0 for equal values."""
    mean = fmean(values)
    apart = [value - mean for value in values]
    squares = sum(map(mul, apart, apart))
    return sum(map(mul, apart, apart[1:])) / squares if squares else 0.0


def likely_correlation(values: Sequence[float]) -> float:
    """Return the correlation that the interval of a mean allows for; 0 if there are few values, or it seems small."""
    n = len(values)
    if n < LEAST_VALUES:
        return 0.0
    lag, doubt = lag_correlation(values), DOUBT / sqrt(n)
    return round(min(MOST_CORRELATION, unbiased(lag, n) + doubt), 2) if lag > doubt - 1 / n else 0.0


def unbiased(lag: float, n: int) -> float:
    return (lag * n + 1) / (n - 3)


def clear_correlation(values: Sequence[float]) -> float | None:
    """Return the correlation of successive values, corrected for its bias; None if it is not clearly above 0."""
    n = len(values)
    if n < LEAST_VALUES:
        return None
    lag = lag_correlation(values)
    if lag <= _CLEAR * (n - 2) / (n * sqrt(n - 1)) - 1 / n:
        return None
    return min(MOST_CORRELATION, unbiased(lag, n))


def highest_correlation(lag: float, n: int) -> float:
    """Return the highest correlation up to `MOST_UNSEEN` (100 × integer) that may have this estimate from n values."""
    for hundredths in range(round(100 * MOST_UNSEEN), 0, -1):
        true = hundredths / 100
        if lag >= true - (1 + 3 * true) / n - _CAUTION * sqrt((1 - true**2) / n):
            return true
    return 0.0


@lru_cache(maxsize=4096)
def correlated_t_factor(n: int, correlation: float, confidence: float) -> float:
    """Return how many naive standard errors of n correlated values have this confidence; see `t_factor`.

    The scatter within them is too small, and has fewer degrees of freedom (Satterthwaite's approximation).
    """
    if not correlation:
        return t_factor(n - 1, confidence)
    total = n + 2 * _triangle(n, correlation)  # the sum of the matrix of correlations
    squares = n + 2 * _triangle(n, correlation**2)  # of their squares
    by_row = _squared_row_sums(n, correlation)
    scatter = n - total / n
    freedom = scatter**2 / (squares - 2 * by_row / n + (total / n) ** 2)
    return sqrt(total / n * (n - 1) / scatter) * t_factor(max(1.0, freedom), confidence)


def _triangle(n: int, x: float) -> float:
    """Return the sum of (n - k) x^k for k from 1 to n - 1."""
    return x * (n - 1 - n * x + x**n) / (1 - x) ** 2


def _squared_row_sums(n: int, x: float) -> float:
    """Return the sum of the squared row sums; that of row i is (1 + x - x^i - x^(n + 1 - i)) / (1 - x)."""
    powers, squares = x * (1 - x**n) / (1 - x), x**2 * (1 - x ** (2 * n)) / (1 - x**2)
    return (n * (1 + x) ** 2 - 4 * (1 + x) * powers + 2 * squares + 2 * n * x ** (n + 1)) / (1 - x) ** 2


@dataclass(frozen=True, slots=True)
class HostRatio:
    """The rates of `host` are `ratio` times those of `other`, over the cells that both measured."""

    host: str
    other: str
    ratio: Ratio | None  # None: they measured no cell both
    cells: int


def host_ratios(cells: Iterable[Mapping[str, list[float]]], confidence: float = 0.95) -> list[HostRatio]:
    """Return each host against the one with the most trials. `cells`: the rates of each cell, by host."""
    positive = ({host: rates for host, rates in one.items() if rates and min(rates) > 0} for one in cells)
    means = [{host: exp(fmean(map(log, rates))) for host, rates in one.items()} for one in positive]
    counts: dict[str, int] = {}
    for one in means:
        for host in one:
            counts[host] = counts.get(host, 0) + 1
    other, *hosts = sorted(counts, key=lambda host: (-counts[host], host)) or [""]
    found = []
    for host in hosts:
        both = {at: one for at, one in enumerate(means) if host in one and other in one}
        before, after = ({at: one[name] for at, one in both.items()} for name in (other, host))
        found.append(HostRatio(host, other, paired_ratio(before, after, confidence), len(both)))
    return found
