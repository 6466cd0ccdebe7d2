"""Values by round: levels of cells without effects of rounds, drift, correlation of rounds, groups of values."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import dist, fsum, inf, log, sqrt
from operator import mul
from statistics import fmean, linear_regression

from matrix_runner.statistics.ratios import (
    MOST_CORRELATION,
    Interval,
    bounded_exp,
    student_interval,
    t_factor,
    two_sided_p,
    unbiased,
)
from matrix_runner.statistics.stopping import LEAST_ROUNDS

Sample = Mapping[int, float]
#: The rounding error of equal values.
ROUNDING = 1e-12
_NOISE = 1e-14  # the rounding error of a logarithm


def logarithms(samples: Sequence[Sample]) -> list[dict[int, float]]:
    return [{number: log(value) for number, value in sample.items()} for sample in samples]


def round_effects(logs: Sequence[Sample]) -> dict[int, float]:
    """Return the effect of each round, 0 on average over rounds that cells connect: the shortest least squares.

    Conjugate gradients from 0 find the shortest solution. If cells have the same rounds, one step is enough.
    """
    kinds = Counter(frozenset(one) for one in logs if one)
    left = dict.fromkeys(sorted(frozenset().union(*kinds)), 0.0)
    for one in logs:
        mean = fmean(one.values()) if one else 0.0
        for number, value in one.items():
            left[number] += value - mean
    effects, step, size = dict.fromkeys(left, 0.0), dict(left), _squares(left)
    for _ in range(2 * len(left)):
        if size <= _NOISE**2 * sum(map(len, logs)):
            break
        turned = _normal(kinds, step)
        length = size / sum(turned[number] * step[number] for number in step)
        for number in left:
            effects[number] += length * step[number]
            left[number] -= length * turned[number]
        size, before = _squares(left), size
        step = {number: left[number] + size / before * step[number] for number in left}
    return effects


def _squares(values: Sample) -> float:
    return sum(value * value for value in values.values())


def _normal(kinds: Mapping[frozenset[int], int], effects: Sample) -> dict[int, float]:
    """Return the normal equations of least squares, times these effects; `kinds`: the rounds of cells, counted."""
    found = dict.fromkeys(effects, 0.0)
    for rounds, count in kinds.items():
        mean = fmean(effects[number] for number in rounds)
        for number in rounds:
            found[number] += count * (effects[number] - mean)
    return found


def cell_levels(samples: Sequence[Sample]) -> list[float]:
    """Return the logarithm of each cell's level, as if all had been measured in the same rounds."""
    logs = logarithms(samples)
    if len(set().union(*samples)) == 1 and all(samples):  # in one round, there is no effect to remove
        return [value for one in logs for value in one.values()]
    effects = round_effects(logs)
    return [fmean(value - effects[number] for number, value in one.items()) for one in logs]


def residuals(samples: Sequence[Sample]) -> tuple[float, int]:
    """Return the squares of logarithms without the effects of cells and rounds, and their degrees of freedom."""
    freedom = sum(map(len, samples)) - len(samples) - len(set().union(*samples)) + 1
    if freedom < 1:
        return 0.0, freedom
    logs = logarithms(samples)
    effects = round_effects(logs)
    rest = ([value - effects[number] for number, value in one.items()] for one in logs)
    return fsum(dist(one, (fmean(one),) * len(one)) ** 2 for one in rest), freedom


@dataclass(frozen=True, slots=True)
class Drift:
    """The factor by which all values changed from the first round to the last."""

    change: float
    low: float
    high: float
    confidence: float
    p: float  # the probability of a trend as steep or steeper without drift


def drift(samples: Iterable[Sample], confidence: float = 0.95) -> Drift | None:
    """Return the common trend of many cells over rounds; a sample has the values of one metric of a cell, by round.

    Effects of rounds are separated from those of cells by least squares on logarithms; the trend is the straight line
    through them. Its values are rounds, not trials: an event that affects all cells of a round counts once. If only few
    cells reach the last rounds, 8 % instead of 5 % of stable runs seem to drift. None for fewer than three rounds, or
    if no cell was measured twice.
    """
    # A cell that was measured once does not show how rounds differ.
    logs = logarithms([one for one in samples if len(one) > 1 and min(one.values()) > 0])
    effects = [*round_effects(logs).values()]
    if (rounds := len(effects)) < 3:
        return None
    if max(effects) - min(effects) < ROUNDING:
        return Drift(1.0, 1.0, 1.0, confidence, 1.0)
    slope, error = _straight_line(effects)
    half = t_factor(rounds - 2, confidence) * error
    change, low, high = (bounded_exp((slope + by) * (rounds - 1)) for by in (0.0, -half, half))
    chance = two_sided_p(slope / error if error else inf, rounds - 2)
    return Drift(change, low, high, confidence, chance)


def _straight_line(values: Sequence[float]) -> tuple[float, float]:
    """Return the slope of the straight line through values at 0, 1, 2 …, by least squares, and its standard error."""
    slope, intercept = linear_regression(range(len(values)), values)
    rest = fsum((value - intercept - slope * at) ** 2 for at, value in enumerate(values))
    spread = len(values) * (len(values) ** 2 - 1) / 12  # the sum of squares of 0, 1, 2 … about their mean
    return slope, sqrt(rest / (len(values) - 2) / spread)


#: So many random orders of rounds show as much correlation as clear ones.
_CLEAR_SHARE = 0.02
_ORDERS = 3999


def correlation_of_rounds(samples: Sequence[Sequence[float]]) -> float | None:
    """Return the correlation of each round with the next one over all cells, if hardly any order of rounds has as much.

    `samples`: the values of each cell, in order of rounds. What a round does to all cells counts once.
    """
    lengths = sorted(map(len, samples), reverse=True)
    rounds = max(lengths, key=lambda n: n * sum(length >= n for length in lengths), default=0)
    if rounds < LEAST_ROUNDS:
        return None
    rows = [one for sample in samples if len(sample) >= rounds and (one := _direction(sample[:rounds]))]
    columns = [*zip(*rows, strict=True)]
    products = [[sum(map(mul, one, other)) for other in columns] for one in columns]
    own = sum(products[at][at + 1] for at in range(rounds - 1)) if rows else 0.0
    if not rows or _is_usual(own, products):
        return None
    return min(MOST_CORRELATION, unbiased(own / len(rows), rounds))


def _direction(values: Sequence[float]) -> list[float]:
    """Return the differences from the mean, as a vector of length 1; empty if there are none."""
    mean = fmean(values)
    size = dist(values, (mean,) * len(values))
    return [(value - mean) / size for value in values] if size else []


def _is_usual(own: float, products: Sequence[Sequence[float]]) -> bool:
    """Return whether more than the share of random orders of rounds have as large a sum of neighbours' products."""
    chance, order, most = random.Random(1), [*range(len(products))], _CLEAR_SHARE * _ORDERS  # noqa: S311
    found = 0
    for _ in range(_ORDERS):
        chance.shuffle(order)
        found += sum(products[one][other] for one, other in pairwise(order)) >= own - ROUNDING
        if found > most:
            return True
    return False


#: Fewer values form two groups by chance too often.
LEAST_VALUES = 8
#: The least gap, relative to the mean: smaller ones do not matter, or come from counting whole requests.
LEAST_GAP = 0.05


@dataclass(frozen=True, slots=True)
class States:
    """Two separate groups of values: their sizes and means."""

    n_low: int
    low: float
    n_high: int
    high: float


def find_two_states(values: Sequence[float]) -> States | None:
    """Return two groups, each of two or more values, if the gap between them is wider than either group.

    The mean of such values was never observed. The gap must be 1 + 8 / n times as wide as the wider group: by
    simulation, 1 % of cells with 8 trials of one state are reported falsely, and fewer with more trials.
    """
    if len(values) < LEAST_VALUES:
        return None
    ordered = sorted(values)
    at = max(range(2, len(ordered) - 1), key=lambda place: ordered[place] - ordered[place - 1])
    low, high = ordered[:at], ordered[at:]
    widest = max(low[-1] - low[0], high[-1] - high[0])
    gap = high[0] - low[-1]
    if gap <= max((1 + 8 / len(values)) * widest, LEAST_GAP * abs(fmean(values))):
        return None
    return States(len(low), fmean(low), len(high), fmean(high))


def scaling_exponent(places: Sequence[float], samples: Sequence[Sample]) -> Interval | None:
    """Return the power by which a metric scales with a number: 1 is proportional, 0 constant, -1 inversely.

    It is the least-squares slope of the logarithms in every round that measured the whole axis, with Student's interval
    over these slopes. None for fewer than two such rounds or places, or if any value is not positive.
    """
    rounds = sorted(set(samples[0]).intersection(*samples[1:])) if samples else []
    numbers = [*places, *(sample[number] for sample in samples for number in rounds)]
    if len(set(places)) < 2 or min(numbers) <= 0:
        return None
    steps = [log(place) for place in places]
    slopes = [linear_regression(steps, [log(sample[number]) for sample in samples]).slope for number in rounds]
    return student_interval(slopes)
