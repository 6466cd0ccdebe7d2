"""Whether differences between two sides also arise if each cell's values are mixed between the sides.

A few values may by chance all come from one of two distant states: then they scatter little, and a test of the cell
alone sees a clear difference. Other cells show how often that happens: their values, dealt out again to the two sides,
differ as much.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, product
from math import comb, dist, log, sqrt
from operator import itemgetter, mul, sub
from typing import NamedTuple

#: A mixture counts if its difference reaches this part of the one in question, and its clearness that part.
_DIFFERENCE, _CLEARNESS = 2 / 3, 1 / 3
#: With more values of a cell, all of one state is too rare to matter.
_MOST_VALUES = 12
#: Limits of the computation: mixtures of a cell, and of all cells.
_MOST_MIXTURES, _MOST_COMPARED = 60, 20_000


class Sides(NamedTuple):
    """The values of a figure on both sides, in order of rounds; `paired`: round by round."""

    a: Sequence[float]
    b: Sequence[float]
    paired: bool


Parts = tuple[Sequence[float], ...]  # two sides, or the differences of pairs
Mixture = Callable[[Sequence[float]], Parts]


def mixture_shares(samples: Sequence[Sides | None], chances: Sequence[float], least: float = 0.05) -> list[float]:
    """Return the share of mixtures of all cells that differ as much; 0 where `chances` are above `least` anyway."""
    found = [0.0] * len(samples)
    asked: dict[tuple[int, int, bool], list[int]] = {}
    for at, (one, chance) in enumerate(zip(samples, chances, strict=True)):
        if one and chance <= least:
            asked.setdefault((len(one.a), len(one.b), one.paired), []).append(at)
    for (n_a, n_b, paired), places in asked.items():
        if not 2 <= min(n_a, n_b) <= n_a + n_b <= _MOST_VALUES:
            continue
        # Cells with more values count, too: those that stopped early may all have met one state.
        values = {
            at: _logarithms(one.a[:n_a], one.b[:n_b], paired=paired)
            for at, one in enumerate(samples)
            if one and one.paired is paired and len(one.a) >= n_a and len(one.b) >= n_b
        }
        unmixed, *mixtures = _of_pairs(n_a) if paired else _of_sides(n_a, n_a + n_b)
        count, rows = len(mixtures) * len(values), [*values.values()]
        compared = range(0, count, 1 + count // _MOST_COMPARED)
        mixed = [mixtures[at // len(rows)](rows[at % len(rows)]) for at in compared]
        for at, share in zip(places, _shares(mixed, [unmixed(values[at]) for at in places]), strict=True):
            found[at] = share
    return found


def _logarithms(a: Sequence[float], b: Sequence[float], *, paired: bool) -> list[float]:
    logs_a, logs_b = [*map(log, a)], [*map(log, b)]
    return [*map(sub, logs_b, logs_a)] if paired else logs_a + logs_b


def _of_pairs(n: int) -> Iterator[Mixture]:
    """Yield the mixtures of the values of a cell; the first one is unmixed."""

    def mixture(*signs: int) -> Mixture:
        return lambda differences: ([*map(mul, signs, differences)],)

    for signs in islice(product((1, -1), repeat=n - 1), _MOST_MIXTURES):
        yield mixture(1, *signs)


def _of_sides(n_a: int, n: int) -> Iterator[Mixture]:
    def mixture(left: Sequence[int]) -> Mixture:
        of_a, of_b = itemgetter(*left), itemgetter(*(at for at in range(n) if at not in left))
        return lambda logs: (of_a(logs), of_b(logs))

    for left in islice(combinations(range(n), n_a), 0, None, 1 + comb(n, n_a) // _MOST_MIXTURES):
        if n_a * 2 == n and 0 not in left:
            break  # the same mixtures with the sides exchanged
        yield mixture(left)


def _shares(mixed: Sequence[Parts], asked: Sequence[Parts]) -> list[float]:
    """Return the share of mixtures that differ as much as each of these, and as clearly."""
    found, passed = [0.0] * len(asked), list[float]()  # the clearness of mixtures that differ as much
    left = iter(sorted(((_apart(parts), at) for at, parts in enumerate(mixed)), reverse=True))
    ahead = next(left, None)
    for apart, place in sorted(((_apart(parts), at) for at, parts in enumerate(asked)), reverse=True):
        while ahead and ahead[0] >= _DIFFERENCE * apart:
            insort(passed, _clearness(mixed[ahead[1]]))
            ahead = next(left, None)
        as_clear = len(passed) - bisect_left(passed, _CLEARNESS * _clearness(asked[place]))
        found[place] = as_clear / max(1, len(mixed))
    return found


def _apart(parts: Parts) -> float:
    means = [sum(part) / len(part) for part in parts]
    return abs(means[0] - sum(means[1:]))


def _clearness(parts: Parts) -> float:
    """Return the difference in standard errors."""
    variances = (dist(part, (sum(part) / len(part),) * len(part)) ** 2 / (len(part) - 1) / len(part) for part in parts)
    return _apart(parts) / max(sqrt(sum(variances)), 1e-12)
