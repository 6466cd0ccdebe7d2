"""Which of several places may be the best, asked after every round: intervals that hold at all rounds at once.

The difference of two logarithms in a round is assumed to be normal and independent from round to round, with an unknown
mean and variance: what a round does to both cancels. Take the likelihood of "the mean lies N(0, SPREAD) standard
deviations away" over that of "the mean is this one". It is a martingale (Lai 1976; Wang and Ramdas 2023), whatever the
variance is, so it ever exceeds 1 / `error` with a probability of at most `error` (Ville). The means that it does not
exclude are an interval, for any rule of stopping.

Places of one race scatter alike, so the scatter of the others helps to know that of a pair (a moderated t: Smyth 2004).
It counts as `SHARED` differences at most: a place that scatters more shows it after a few rounds of its own. A pair
that scatters less is judged by itself, as soon as that gives a narrower interval.

The best place is lost only if its interval to another one is wrong, so each of these gets an equal part of the error
(Bonferroni). Only one side of an interval can lose it, so both sides together get twice that part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import dist, inf, log, log1p, sqrt
from statistics import fmean
from typing import NamedTuple, Self

from matrix_runner.statistics.arrays import Floats, np
from matrix_runner.statistics.changes import cell_levels, log_table, round_effects
from matrix_runner.statistics.ratios import Ratio, bounded_exp, t_factor

#: The variance of the mean, in variances of a difference. By simulation (`bench.race`).
SPREAD = 16.0
#: The differences of a pair that the scatter of the other places counts as, at most. By simulation, too.
SHARED = 8
_ENOUGH = 10  # rounds that show how much a difference scatters
_MANY = 1e6  # more than any degrees of freedom


@lru_cache(maxsize=4096)
def reach(rounds: int, freedom: int, error: float) -> float:
    """Return the half width of the interval in standard deviations; `error` is that of both sides, at all rounds."""
    if rounds < 1 or freedom < 1:
        return inf
    wider = 1 + rounds * SPREAD
    most = (sqrt(wider) / error) ** (2 / (freedom + 1))
    return sqrt((most - 1) / (1 - most / wider) * freedom / rounds) if most < wider else inf


@dataclass(frozen=True, slots=True)
class Standings:
    at: int  # the place of the leader
    candidates: tuple[int, ...]  # those that may be the best, the leader included
    confidence: float
    #: By place: the rounds in common with the leader, and by how much that is better (a logarithm).
    rounds: Floats
    mean: Floats
    half: Floats
    scatter: Floats

    def ahead(self, place: int) -> Ratio | None:
        """Return how many times as good the leader is; None for itself, and without a common round."""
        n, apart, width = int(self.rounds[place]), float(self.mean[place]), float(self.half[place])
        if place == self.at or not n:
            return None
        low, high = (bounded_exp(apart - width), bounded_exp(apart + width)) if width < inf else (0.0, inf)
        return Ratio(bounded_exp(apart), low, high, n, n, self.confidence, 1.0, paired=True)

    def _rivals(self) -> list[int]:
        return [place for place in self.candidates if place != self.at]

    def is_decided(self, within: float) -> bool:
        """Return whether no other place can be better than the leader by more than a share."""
        rivals = self._rivals()
        return bool((self.mean[rivals] - self.half[rivals] >= -log1p(within)).all())

    def is_hopeless(self, within: float, most: int) -> bool:
        """Return whether a rival would stay undecided after so many rounds, though the leader were further ahead."""
        error = error_of_pair(len(self.rounds), self.confidence)
        for place in self._rivals():
            n = int(self.rounds[place])
            if n >= _ENOUGH:
                further = self.scatter[place] * (2 / sqrt(n) - reach(most, most - 1, error))
                if self.mean[place] + further <= -log1p(within):
                    return True
        return False


def error_of_pair(places: int, confidence: float) -> float:
    """Return the part of the error of each pair, both sides together. With two places, an interval has both sides."""
    return 2 * (1 - confidence) / max(2, places - 1)


def stand(samples: Sequence[Mapping[int, float]], confidence: float, *, lowest: bool = False) -> Standings | None:
    """Return the standings of a race from the values of each place by round; None without a positive value."""
    positive = [sample if sample and min(sample.values()) > 0 else {} for sample in samples]
    return _stand(log_table(positive) * (-1 if lowest else 1), confidence) if any(positive) else None


class Ended(NamedTuple):
    rounds: int
    decided: bool
    at: int  # the place of the leader


def simulate(
    logs: Floats, least: int, confidence: float, within: float, powers: Sequence[float] = ()
) -> tuple[list[Ended], int]:
    """Run races over logarithms by workload, place and round, as `run --race` does; the last round is their limit.

    With `powers` of the workloads, the last race is that of all of them together. Return the races, and their trials.
    """
    works, _, most = logs.shape
    heats = [*np.eye(works), *([np.array(powers)] if powers else [])]
    ended: dict[int, Ended] = {}
    seen = np.full_like(logs, np.nan)
    seen[:, :, :least] = logs[:, :, :least]
    for rounds in range(least, most + 1):
        running = np.zeros(logs.shape[:2], dtype=bool)
        for number, heat in enumerate(heats):
            if number in ended:
                continue
            raced = np.flatnonzero(heat)
            found = _stand(np.tensordot(heat[raced], seen[raced, :, :rounds], 1), confidence)
            decided = found.is_decided(within)
            if decided or rounds == most or found.is_hopeless(within, most):
                ended[number] = Ended(rounds, decided, found.at)
            else:
                running[np.ix_(raced, np.array(found.candidates))] = True
        if len(ended) == len(heats):
            break
        seen[running, rounds] = logs[running, rounds]
    return [ended[number] for number in range(len(heats))], int(np.count_nonzero(~np.isnan(seen)))


def _stand(table: Floats, confidence: float) -> Standings:
    rounds, mean, half, scatter = _differences(table, error_of_pair(len(table), confidence))
    there, out = rounds.diagonal() > 0, (mean - half > 0).any(axis=0)
    running = np.flatnonzero(there & ~out)
    if not len(running):
        running = np.flatnonzero(there)
    at = int(running[np.argmax(mean[np.ix_(running, running)].mean(axis=1))])
    return Standings(at, tuple(running.tolist()), confidence, rounds[at], mean[at], half[at], scatter[at])


def _differences(table: Floats, error: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return of each pair the common rounds, the mean difference (row less column), its half width, and its scatter."""
    known = (~np.isnan(table)).astype(float)
    values = np.nan_to_num(table - np.nanmean(table))  # small numbers, whose squares lose no digits
    rounds = known @ known.T
    counts, own = np.maximum(rounds, 1), np.maximum(rounds - 1, 0)
    sums, squares = values @ known.T, values**2 @ known.T
    mean = (sums - sums.T) / counts
    apart = np.maximum(squares + squares.T - 2 * values @ values.T - counts * mean**2, 0.0)
    every = known.sum() - known.any(axis=1).sum() - known.any(axis=0).sum() + 1  # degrees of freedom of all places
    others = np.maximum(every - own, 0)
    common = apart.sum() / max(own.sum() - own.trace(), 1)
    of_others = np.maximum((every * common - apart) / np.maximum(others, 1), common)
    shared = np.minimum(others, SHARED)
    half = np.minimum(
        _half_widths(apart, rounds, own, error),
        _half_widths(apart + shared * of_others, rounds, own + shared, error),
    )
    return rounds, mean, half, np.sqrt(apart / np.maximum(own, 1))


def _half_widths(squares: Floats, rounds: Floats, freedom: Floats, error: float) -> Floats:
    kinds, places = np.unique(rounds * _MANY + freedom, return_inverse=True)
    factors = np.array([reach(int(kind // _MANY), int(kind % _MANY), error) for kind in kinds])[places]
    with np.errstate(invalid="ignore"):
        half = np.sqrt(squares / np.maximum(freedom, 1)) * factors.reshape(rounds.shape)
    return np.where(np.isnan(half), inf, half)  # no scatter in too few rounds


@dataclass(frozen=True, slots=True)
class Extreme:
    """The place of the highest (or lowest) mean, and all candidates for the true one."""

    at: int
    candidates: tuple[int, ...]  # in order of the axis, `at` included


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
    return Extreme(best, tuple(place for place in there if ahead[place] <= 0))


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
