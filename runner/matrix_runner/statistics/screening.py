"""Which of many axes change a figure, from few cells: the choice of the cells, and the fit of effects and of pairs.

The logarithm of a figure is modelled as a sum of effects of values of axes (main effects) and of pairs of values of two
axes (interactions). The choice is greedy and D-optimal for all of these, with a prior that most interactions are small
(DuMouchel and Jones 1994). The fit adds the axis or pair with the smallest p-value of its F-test, as long as that is
below its part of the error: a third of the error belongs to all axes together, a third to all pairs (Bonferroni),
and a third is left for what the order of choices adds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, inf, sqrt
from typing import Self

from matrix_runner.statistics.arrays import Floats, Levels, np
from matrix_runner.statistics.ratios import bounded_exp, t_factor, variance_ratio_p

Term = tuple[int, ...]  # an axis, or a pair of axes
_MOST_CANDIDATES = 10_000
_MOST_COLUMNS = 600  # of the model by which cells are chosen
_PRIOR = {0: 1e-6, 1: 1e-3, 2: 1.0}  # precision of the mean, of main effects, and of interactions
_EXACT = 1e-9  # columns with less than this share of their size are sums of others


@dataclass(frozen=True, slots=True)
class Factors:
    """The axes in which cells differ, with their values in the order of appearance, and the values of each cell."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]  # an empty text: a cell does not have the axis
    levels: Levels  # by cell (row) and axis, the number of its value

    @classmethod
    def of(cls, cells: Sequence[Mapping[str, str]]) -> Self:
        """Return the axes, without those that only name the values of another one."""
        found: dict[tuple[int, ...], tuple[str, tuple[str, ...]]] = {}
        for name in dict.fromkeys(axis for cell in cells for axis in cell):
            numbers: dict[str, int] = {}
            column = tuple(numbers.setdefault(cell.get(name, ""), len(numbers)) for cell in cells)
            if len(numbers) > 1:
                found.setdefault(column, (name, tuple(numbers)))
        levels = np.array([*found], dtype=np.int64).reshape(len(found), len(cells)).T
        return cls(tuple(name for name, _ in found.values()), tuple(values for _, values in found.values()), levels)


def cover_pairs(levels: Levels) -> list[int]:
    """Return few rows that have each pair of values of two axes that any row has; one, if they do not differ."""
    if not levels.shape[1]:
        return [0]
    pairs, first = [], 0
    for one, other in combinations(range(levels.shape[1]), 2):
        both = levels[:, one] * (levels[:, other].max() + 1) + levels[:, other]
        pairs.append(first + np.unique(both, return_inverse=True)[1].ravel())
        first = int(pairs[-1].max()) + 1
    table = np.stack(pairs, axis=1) if pairs else levels
    missing, found = np.zeros(int(table.max(initial=0)) + 1, bool), list[int]()
    missing[table] = True
    while missing.any():
        found.append(int(np.argmax(missing[table].sum(axis=1))))
        missing[table[found[-1]]] = False
    return sorted(found)


def choose(levels: Levels, count: int, plots: Sequence[int], most_plots: int, seed: int) -> list[int]:
    """Return the rows of so many cells. `plots`: by cell, the number of its stack. No more are used than needed."""
    chance, groups = np.random.default_rng(seed), np.asarray(plots)
    rows = np.sort(chance.permutation(len(levels))[:_MOST_CANDIDATES])
    columns, precision = _design_columns(levels[rows], chance)
    inverse = np.diag(1 / precision)
    gain = (columns**2 / precision).sum(axis=1)
    free, used, found = np.ones(len(rows), bool), set[int](), list[int]()
    while len(found) < count and free.any():
        at = int(np.argmax(np.where(free, gain, -1.0)))
        found.append(int(rows[at]))
        used.add(int(groups[rows[at]]))
        free[at] = False
        if len(used) >= most_plots and (of_used := np.isin(groups[rows], list(used))).sum() >= count:
            free &= of_used
        known = inverse @ columns[at]
        shared = columns @ known
        inverse -= np.outer(known, known) / (1 + gain[at])
        gain = gain - shared**2 / (1 + shared[at])
    return sorted(found)


def _design_columns(levels: Levels, chance: "np.random.Generator") -> tuple[Floats, Floats]:
    mains = [_columns(levels, (at,)) for at in range(levels.shape[1])]
    parts, precision = [np.ones((len(levels), 1)), *mains], [_PRIOR[0]]
    precision += [_PRIOR[1]] * sum(one.shape[1] for one in mains)
    pairs = list(combinations(range(levels.shape[1]), 2))
    for at in chance.permutation(len(pairs)):
        pair = _columns(levels, pairs[at])
        if len(precision) + pair.shape[1] <= _MOST_COLUMNS:
            parts.append(pair)
            precision += [_PRIOR[2]] * pair.shape[1]
    table = np.hstack(parts)
    size = np.sqrt((table**2).mean(axis=0))
    return table / np.where(size > 0, size, 1), np.asarray(precision)


def _columns(levels: Levels, term: Term) -> Floats:
    """Return a column for each value beyond the first, or for each pair of such values, centred."""
    found = np.ones((len(levels), 1))
    for at in term:
        of_axis = (levels[:, [at]] == np.arange(1, levels[:, at].max(initial=0) + 1)).astype(float)
        of_axis -= of_axis.mean(axis=0)
        found = (found[:, :, None] * of_axis[:, None, :]).reshape(len(levels), -1)
    centred: Floats = found - found.mean(axis=0)
    return centred


@dataclass(frozen=True, slots=True)
class Estimate:
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Effect:
    """An axis: the ratio of each value to the first one. A pair: how much the values of one change those ratios."""

    term: Term
    ratios: tuple[Estimate | None, ...]  # None: it cannot be told from other effects
    is_active: bool

    @property
    def size(self) -> float:
        """Return the largest ratio between two values, or its inverse (at least 1)."""
        found = [1.0, *(one.ratio for one in self.ratios if one)]
        return max(found) / min(found)


@dataclass(frozen=True, slots=True)
class Screen:
    axes: tuple[Effect, ...]  # the largest first, the active ones before others
    pairs: tuple[Effect, ...]  # the active ones
    cells: int
    scatter: float  # of cells around the model, as a share; inf: too few cells


def screen(levels: Levels, logs: Floats, confidence: float) -> Screen:
    """Return the effects of all axes, and the pairs that interact, from the logarithm of a figure of each cell."""
    active = _active(levels, logs, 1 - confidence)
    axes = [_effect(levels, logs, (at,), active, confidence) for at in range(levels.shape[1])]
    axes.sort(key=lambda one: (not one.is_active, -one.size))
    pairs = [_effect(levels, logs, term, active, confidence) for term in active if len(term) == 2]
    _, freedom, residual = _basis(levels, logs, active)
    scatter = sqrt(float(residual @ residual) / freedom) if freedom > 0 else inf
    return Screen(tuple(axes), tuple(sorted(pairs, key=lambda one: -one.size)), len(levels), scatter)


def _active(levels: Levels, logs: Floats, error: float) -> list[Term]:
    count = levels.shape[1]
    every: list[Term] = [*((at,) for at in range(count)), *combinations(range(count), 2)]
    limits = {1: error / 3 / max(1, count), 2: error / 3 / max(1, len(every) - count)}
    found: list[Term] = []
    while True:
        basis, freedom, residual = _basis(levels, logs, found)
        tested = ((_p_value(levels, term, basis, freedom, residual), term) for term in every if term not in found)
        best = min(tested, key=lambda one: one[0] / limits[len(one[1])], default=None)
        if best is None or best[0] >= limits[len(best[1])]:
            return found
        found.append(best[1])


def _basis(levels: Levels, logs: Floats, terms: Iterable[Term]) -> tuple[Floats, int, Floats]:
    """Return an orthonormal basis of the mean and these terms, the degrees of freedom left, and the residual."""
    basis = np.full((len(levels), 1), 1 / sqrt(len(levels)))
    for term in terms:
        basis = np.hstack([basis, _beyond(basis, _columns(levels, term))])
    return basis, len(levels) - basis.shape[1], logs - basis @ (basis.T @ logs)


def _beyond(basis: Floats, columns: Floats) -> Floats:
    """Return an orthonormal basis of what columns add."""
    rest = columns - basis @ (basis.T @ columns)
    left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    kept: Floats = left[:, sizes > _EXACT * max(1.0, float(np.linalg.norm(columns)))]
    return kept


def _p_value(levels: Levels, term: Term, basis: Floats, freedom: int, residual: Floats) -> float:
    added = _beyond(basis, _columns(levels, term))
    rank, left = added.shape[1], freedom - added.shape[1]
    if not rank or left < 1:
        return 1.0
    explained, total = float(((added.T @ residual) ** 2).sum()), float(residual @ residual)
    if total - explained <= 0:
        return 1.0 if explained <= 0 else 0.0
    return variance_ratio_p(explained / rank / ((total - explained) / left), rank, left)


def _effect(levels: Levels, logs: Floats, term: Term, active: Sequence[Term], confidence: float) -> Effect:
    others, own = [one for one in active if one != term], _columns(levels, term)
    basis, freedom, residual = _basis(levels, logs, others)
    rest = own - basis @ (basis.T @ own)
    inverse = np.linalg.pinv(rest.T @ rest, rcond=_EXACT)
    slopes, rank = inverse @ rest.T @ residual, int(np.linalg.matrix_rank(rest)) if rest.size else 0
    left, error = freedom - rank, residual - rest @ slopes
    if rank < own.shape[1] or left < 1:
        return Effect(term, (None,) * own.shape[1], term in active)
    scale = t_factor(left, confidence) * sqrt(float(error @ error) / left)
    halves = scale * np.sqrt(np.diag(inverse))
    found = (
        Estimate(exp(slope), bounded_exp(slope - half), bounded_exp(slope + half))
        for slope, half in zip(slopes.tolist(), halves.tolist(), strict=True)
    )
    return Effect(term, tuple(found), term in active)
