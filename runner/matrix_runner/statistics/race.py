"""Which of several places may be the best, asked after every round: intervals that hold at all rounds at once.

The difference of two logarithms in a round is assumed to be normal and independent from round to round, with an unknown
mean and variance: what a round does to both cancels. Take the likelihood of "the mean lies N(0, SPREAD) standard
deviations away" over that of "the mean is this one". It is a martingale (Lai 1976; Wang and Ramdas 2023), whatever the
variance is, so it ever exceeds 1 / `error` with a probability of at most `error` (Ville). The means that it does not
exclude are an interval, for any rule of stopping.

The best place is lost only if its interval to another one is wrong, so each of these gets an equal part of the error
(Bonferroni). Only one side of an interval can lose it, so both sides together get twice that part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import dist, inf, log, sqrt
from statistics import fmean
from typing import NamedTuple, Self

from matrix_runner.statistics.arrays import Floats, np
from matrix_runner.statistics.changes import cell_levels, log_table, round_effects
from matrix_runner.statistics.ratios import Ratio, bounded_exp, t_factor

#: The variance of the mean, in variances of a difference. By simulation (`bench.race`).
SPREAD = 16.0


@lru_cache(maxsize=4096)
def reach(rounds: int, error: float) -> float:
    """Return the half width of the interval in standard deviations; `error` is that of both sides, at all rounds."""
    if rounds < 2:
        return inf
    wider = 1 + rounds * SPREAD
    most = (sqrt(wider) / error) ** (2 / rounds)
    return sqrt((most - 1) / (1 - most / wider) * (rounds - 1) / rounds) if most < wider else inf


@dataclass(frozen=True, slots=True)
class Standings:
    at: int  # the place of the leader
    candidates: tuple[int, ...]  # those that may be the best, the leader included
    #: By place, how many times as good the leader is; None for itself, and without a common round.
    ahead: tuple[Ratio | None, ...]

    def is_decided(self, within: float) -> bool:
        """Return whether no other place can be better than the leader by more than a share."""
        others = (self.ahead[place] for place in self.candidates if place != self.at)
        return all(one is not None and one.low >= 1 / (1 + within) for one in others)

    def is_hopeless(self, within: float, rounds: int, error: float) -> bool:
        """Return whether a rival would stay undecided after so many rounds, though the leader were further ahead."""
        return any(
            one is not None and one.n_a >= _ENOUGH and _cannot_decide(one, within, rounds, error)
            for place, one in enumerate(self.ahead)
            if place in self.candidates
        )


_ENOUGH = 10  # rounds that show how much a difference scatters


def _cannot_decide(one: Ratio, within: float, rounds: int, error: float) -> bool:
    scatter = log(one.ratio / one.low) / reach(one.n_a, error) if one.low else inf
    most = log(one.ratio) + 2 * scatter / sqrt(one.n_a)
    return most - scatter * reach(rounds, error) <= -log(1 + within)


def error_of_pair(places: int, confidence: float) -> float:
    """Return the part of the error of each pair, both sides together. With two places, an interval has both sides."""
    return 2 * (1 - confidence) / max(2, places - 1)


def stand(samples: Sequence[Mapping[int, float]], confidence: float, *, lowest: bool = False) -> Standings | None:
    """Return the standings of a race from the values of each place by round; None without a positive value."""
    there = [place for place, sample in enumerate(samples) if sample and min(sample.values()) > 0]
    if not there:
        return None
    table = log_table([samples[place] for place in there]) * (-1 if lowest else 1)
    best, running, (rounds, mean, half) = _stand(table, error_of_pair(len(samples), confidence))

    def ahead(place: int) -> Ratio | None:
        if place not in there or place == there[best] or not rounds[best, at := there.index(place)]:
            return None
        n, apart, width = int(rounds[best, at]), float(mean[best, at]), float(half[best, at])
        low, high = (bounded_exp(apart - width), bounded_exp(apart + width)) if width < inf else (0.0, inf)
        return Ratio(bounded_exp(apart), low, high, n, n, confidence, 1.0, paired=True)

    return Standings(there[best], tuple(there[at] for at in running), tuple(map(ahead, range(len(samples)))))


class Ended(NamedTuple):
    rounds: int
    trials: int
    decided: bool
    at: int  # the place of the leader


def simulate(logs: Floats, least: int, confidence: float, within: float) -> Ended:
    """Run a race over logarithms by place and round, as `run --race` does; the last round is its limit."""
    most, error = logs.shape[1], error_of_pair(len(logs), confidence)
    seen = np.full_like(logs, np.nan)
    seen[:, :least] = logs[:, :least]
    rounds, trials = least, least * len(logs)
    while True:
        at, running, (_, mean, half) = _stand(seen[:, :rounds], error)
        rivals = [place for place in running if place != at]
        ahead, width = mean[at, rivals], half[at, rivals]
        decided = bool((ahead - width >= -log(1 + within)).all())
        hopeless = False
        if rounds >= _ENOUGH:
            scatter = width / reach(rounds, error)
            hopeless = bool((ahead + scatter * (2 / sqrt(rounds) - reach(most, error)) <= -log(1 + within)).any())
        if decided or hopeless or rounds == most:
            return Ended(rounds, trials, decided, at)
        trials += len(running)
        seen[running, rounds] = logs[running, rounds]
        rounds += 1


def _stand(table: Floats, error: float) -> tuple[int, list[int], tuple[Floats, Floats, Floats]]:
    rounds, mean, half = _differences(table, error)
    out = (mean - half > 0).any(axis=0)
    running = np.flatnonzero(~out | out.all())
    levels = mean[np.ix_(running, running)].mean(axis=1)
    return int(running[np.argmax(levels)]), running.tolist(), (rounds, mean, half)


def _differences(table: Floats, error: float) -> tuple[Floats, Floats, Floats]:
    """Return of each pair the common rounds, the mean of their differences (row less column), and its half width."""
    known = (~np.isnan(table)).astype(float)
    values = np.nan_to_num(table - np.nanmean(table))  # small numbers, whose squares lose no digits
    rounds = known @ known.T
    counts = np.maximum(rounds, 1)
    sums, squares = values @ known.T, values**2 @ known.T
    mean = (sums - sums.T) / counts
    variance = np.maximum((squares + squares.T - 2 * values @ values.T) / counts - mean**2, 0.0)
    numbers, places = np.unique(rounds, return_inverse=True)
    factor = np.array([reach(int(number), error) for number in numbers])[places].reshape(rounds.shape)
    with np.errstate(invalid="ignore"):
        half = np.sqrt(variance * counts / np.maximum(counts - 1, 1)) * factor
    half[np.isnan(half)] = np.inf  # no scatter in too few rounds
    return rounds, mean, half


@dataclass(frozen=True, slots=True)
class Extreme:
    """The place of the highest (or lowest) mean, and all candidates for the true one."""

    at: int
    candidates: tuple[int, ...]  # in order of the axis, `at` included
    confidence: float  # the least confidence that the true one is a candidate


def find_extreme(
    samples: Sequence[Mapping[int, float]], confidence: float = 0.95, *, lowest: bool = False
) -> Extreme | None:
    """Return the highest place, with all places that cannot be distinguished from it; with `lowest`, the lowest.

    The best place is chosen by least squares on logarithms, so that the rounds in which it was measured give no
    advantage. Another one that clearly beats it in a paired comparison takes its place. A place is ruled out if the
    best one clearly beats it. None if no place is positive.
    """
    there = {place: sample for place, sample in enumerate(samples) if sample and min(sample.values()) > 0}
    if not there:
        return None
    sign = -1 if lowest else 1
    level = dict(zip(there, cell_levels([*there.values()]), strict=True))
    rule = _ClearDifference.among([*there.values()], confidence)
    best, passed = max(there, key=lambda place: sign * level[place]), set[int]()
    ahead = _ahead_of_others(best, there, rule, sign)
    while better := [place for place in there if ahead[place] < 0 and place not in passed]:
        passed.add(best)
        best = max(better, key=lambda place: sign * level[place])
        ahead = _ahead_of_others(best, there, rule, sign)
    return Extreme(best, tuple(place for place in there if ahead[place] <= 0), confidence)


def _ahead_of_others(
    best: int, there: Mapping[int, Mapping[int, float]], rule: "_ClearDifference", sign: int
) -> dict[int, float]:
    """Return by how much the best place clearly beats each other one, or is beaten (below 0); 0 if neither."""
    return {place: sign * rule.difference(there[best], sample) for place, sample in there.items()}


@dataclass(frozen=True, slots=True)
class _ClearDifference:
    """Tukey's test: with the stated confidence, no two of many equal places differ clearly.

    It uses the scatter of all places, and that of the pair if it is larger, because places may differ in their noise.
    """

    confidence: float
    factor: float  # the least difference, in standard errors
    variance: float  # of the difference of two places in one round

    @classmethod
    def among(cls, samples: Sequence[Mapping[int, float]], confidence: float) -> Self:
        freedom = sum(map(len, samples)) - len(samples) - len(set().union(*samples)) + 1
        if len(samples) < 2 or freedom < 1:
            return cls(confidence, inf, 0.0)
        table = log_table(samples)
        table -= round_effects(table)
        squares = float(np.nansum((table - np.nanmean(table, axis=1, keepdims=True)) ** 2))
        return cls(confidence, range_factor(len(samples), freedom, confidence), 2 * squares / freedom)

    def difference(self, one: Mapping[int, float], other: Mapping[int, float]) -> float:
        """Return the mean difference of logarithms, 0 if it is not clear."""
        apart = [log(one[number] / other[number]) for number in one.keys() & other.keys()]
        n = len(apart)
        if n < 2 or self.factor == inf:
            return 0.0
        mean = fmean(apart)
        own = dist(apart, (mean,) * n) / sqrt(n * (n - 1))
        least = max(self.factor * sqrt(self.variance / n), max(self.factor, t_factor(n - 1, self.confidence)) * own)
        return mean if abs(mean) > least else 0.0


#: The grid for the distribution of the range: standard deviations, and steps.
_REACH, _STEPS = 8.5, 500


@lru_cache(maxsize=512)
def range_factor(places: int, freedom: int, confidence: float) -> float:
    """Return how many standard errors of a difference the range of equal places hardly exceeds (studentised range)."""
    at = np.linspace(-_REACH, _REACH, 2 * _STEPS + 1)
    density = np.exp(-(at**2) / 2)
    density /= density.sum()
    below = np.cumsum(density) - density / 2
    widths = np.linspace(0, 2 * _REACH, _STEPS + 1)
    within = [places * (density * (below - np.interp(at - width, at, below)) ** (places - 1)).sum() for width in widths]
    reach, inner = _REACH / sqrt(2 * freedom), np.linspace(0, 1, 4 * _STEPS + 1)[1:]
    lowest = max(0.0, 1 - reach)
    scales = lowest + (1 + reach - lowest) * inner**3  # close together near 0, where few degrees of freedom need it
    weights = inner**2 * np.exp((freedom - 1) * np.log(scales) - freedom * (scales**2 - 1) / 2)
    weights /= weights.sum()
    few, many = 0.0, 1e6
    while many - few > 1e-6 * many:
        middle = sqrt(max(few, 1e-3) * many)
        reached = (weights * np.interp(middle * scales, widths, within)).sum() >= confidence
        few, many = (few, middle) if reached else (middle, many)
    return many / sqrt(2)
