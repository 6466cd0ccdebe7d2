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
from itertools import combinations
from math import dist, fsum, inf, log, log1p, sqrt
from typing import NamedTuple

from matrix_runner.statistics.ratios import Ratio, bounded_exp

#: The variance of the mean, in variances of a difference. By simulation (`bench.race`).
SPREAD = 16.0
#: The differences of a pair that the scatter of the other places counts as, at most. By simulation, too.
SHARED = 8
_ENOUGH = 10  # rounds that show how much a difference scatters


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
    rounds: Sequence[int]
    mean: Sequence[float]
    half: Sequence[float]
    scatter: Sequence[float]

    def ahead(self, place: int) -> Ratio | None:
        """Return how many times as good the leader is; None for itself, and without a common round."""
        n, apart, width = self.rounds[place], self.mean[place], self.half[place]
        if place == self.at or not n:
            return None
        low, high = (bounded_exp(apart - width), bounded_exp(apart + width)) if width < inf else (0.0, inf)
        return Ratio(bounded_exp(apart), low, high, n, n, self.confidence, 1.0, paired=True)

    def _rivals(self) -> list[int]:
        return [place for place in self.candidates if place != self.at]

    def is_decided(self, within: float) -> bool:
        """Return whether no other place can be better than the leader by more than a share."""
        return all(self.mean[place] - self.half[place] >= -log1p(within) for place in self._rivals())

    def is_hopeless(self, within: float, most: int) -> bool:
        """Return whether a rival would stay undecided after so many rounds, though the leader were further ahead."""
        error = error_of_pair(len(self.rounds), self.confidence)
        for place in self._rivals():
            n = self.rounds[place]
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
    sign = -1 if lowest else 1
    logs = [
        {number: sign * log(value) for number, value in sample.items()} if sample and min(sample.values()) > 0 else {}
        for sample in samples
    ]
    return _stand(logs, confidence) if any(logs) else None


class _Pair(NamedTuple):
    """A place beside another one."""

    rounds: int  # in common
    mean: float  # difference of logarithms
    squares: float  # of the differences from it

    @property
    def freedom(self) -> int:
        return max(self.rounds - 1, 0)

    @property
    def scatter(self) -> float:
        return sqrt(self.squares / max(1, self.freedom))


def _pair(one: Mapping[int, float], other: Mapping[int, float]) -> _Pair:
    apart = [one[number] - other[number] for number in one.keys() & other.keys()]
    if not apart:
        return _Pair(0, 0.0, 0.0)
    mean = fsum(apart) / len(apart)
    return _Pair(len(apart), mean, dist(apart, (mean,) * len(apart)) ** 2)


def _stand(logs: Sequence[Mapping[int, float]], confidence: float) -> Standings:
    there = [place for place, one in enumerate(logs) if one]
    pairs = {(one, other): _pair(logs[one], logs[other]) for one, other in combinations(there, 2)}
    half = _half_widths(pairs, logs, error_of_pair(len(logs), confidence))
    ahead = {places: pair.mean for places, pair in pairs.items()}
    ahead |= {(other, one): -mean for (one, other), mean in ahead.items()}
    out = {other for (one, other), mean in ahead.items() if mean > half[min(one, other), max(one, other)]}
    running = [place for place in there if place not in out] or there
    at = max(running, key=lambda one: fsum(ahead.get((one, other), 0.0) for other in running))

    def beside(other: int) -> tuple[int, float, float, float]:
        places = min(at, other), max(at, other)
        if pair := pairs.get(places):
            return pair.rounds, ahead[at, other], half[places], pair.scatter
        return 0, 0.0, inf, 0.0  # itself, or without a value

    rounds, means, halves, scatters = zip(*map(beside, range(len(logs))), strict=True)
    return Standings(at, tuple(running), confidence, rounds, means, halves, scatters)


def _half_widths(
    pairs: Mapping[tuple[int, int], _Pair], logs: Sequence[Mapping[int, float]], error: float
) -> dict[tuple[int, int], float]:
    every = sum(map(len, logs)) - sum(map(bool, logs)) - len(set().union(*logs)) + 1  # degrees of freedom of all places
    common = fsum(pair.squares for pair in pairs.values()) / max(0.5, sum(pair.freedom for pair in pairs.values()))
    found = {}
    for places, pair in pairs.items():
        others = max(0, every - pair.freedom)
        of_others = max((every * common - pair.squares) / max(1, others), common)
        shared = min(others, SHARED)
        found[places] = min(
            _half_width(pair.squares, pair.rounds, pair.freedom, error),
            _half_width(pair.squares + shared * of_others, pair.rounds, pair.freedom + shared, error),
        )
    return found


def _half_width(squares: float, rounds: int, freedom: int, error: float) -> float:
    factor = reach(rounds, freedom, error)
    return factor * sqrt(squares / freedom) if factor < inf else inf  # no scatter in too few rounds
