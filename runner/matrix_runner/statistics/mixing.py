"""Whether differences between two sides also arise if each cell's values are mixed between the sides.

A few values may by chance all come from one of two distant states: then they scatter little, and a test of the cell
alone sees a clear difference. Other cells show how often that happens: their values, dealt out again to the two sides,
differ as much.
"""

from collections.abc import Sequence
from itertools import combinations, islice, product
from math import comb
from typing import NamedTuple

from matrix_runner.statistics.arrays import Floats, np

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


def mixture_shares(samples: Sequence[Sides | None], chances: Sequence[float], least: float = 0.05) -> list[float]:
    """Return the share of mixtures of all cells that differ as much; 0 where `chances` are above `least` anyway."""
    found = [0.0] * len(samples)
    asked = (one for one, chance in zip(samples, chances, strict=True) if one and chance <= least)
    for kind in {(len(one.a), len(one.b), one.paired) for one in asked}:
        n_a, n_b, paired = kind
        if not 2 <= min(n_a, n_b) <= n_a + n_b <= _MOST_VALUES:
            continue
        # Cells with more values count, too: those that stopped early may all have met one state.
        alike = [
            at for at, one in enumerate(samples)
            if one and one.paired is paired and len(one.a) >= n_a and len(one.b) >= n_b
        ]  # fmt: skip
        values = np.log([[*one.a[:n_a], *one.b[:n_b]] for at in alike if (one := samples[at])])
        apart, clear = _mixtures(values, n_a, paired=paired)
        own_apart, own_clear = apart[0], clear[0]
        apart, clear = (one[1:].ravel()[:: 1 + one[1:].size // _MOST_COMPARED] for one in (apart, clear))
        for at, difference, clearness in zip(alike, own_apart, own_clear, strict=True):
            one = samples[at]
            if one and (len(one.a), len(one.b), one.paired) == kind and chances[at] <= least and len(apart):
                as_much = (apart >= _DIFFERENCE * difference) & (clear >= _CLEARNESS * clearness)
                found[at] = float(as_much.mean())
    return found


def _mixtures(values: Floats, n_a: int, *, paired: bool) -> tuple[Floats, Floats]:
    """Return the differences and their clearness of each mixture (row) and cell; the first row is unmixed."""
    n = values.shape[1]
    apart, errors = [], []
    if paired:
        differences = values[:, n_a:] - values[:, :n_a]
        for signs in islice(product((1, -1), repeat=n_a - 1), _MOST_MIXTURES):
            turned = differences * np.array((1, *signs))
            apart.append(abs(turned.mean(axis=1)))
            errors.append(turned.std(axis=1, ddof=1) / n_a**0.5)
    else:
        step = 1 + comb(n, n_a) // _MOST_MIXTURES
        for left in islice(combinations(range(n), n_a), 0, None, step):
            if n_a * 2 == n and 0 not in left:
                break  # the same mixtures with the sides exchanged
            a, b = values[:, left], np.delete(values, left, axis=1)
            apart.append(abs(a.mean(axis=1) - b.mean(axis=1)))
            errors.append(np.sqrt(a.var(axis=1, ddof=1) / n_a + b.var(axis=1, ddof=1) / (n - n_a)))
    return np.array(apart), np.array(apart) / np.maximum(errors, 1e-12)
