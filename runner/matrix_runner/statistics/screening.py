"""Which of many axes change a figure, from few cells: the choice of the cells, and the fit of effects and of pairs.

The logarithm of a figure is modelled as a sum of effects of values of axes (main effects) and of pairs of values of two
axes (interactions). The choice is greedy and D-optimal for all of these, with a prior that most interactions are small
(DuMouchel and Jones 1994). The fit adds the axis or pair with the smallest p-value of its F-test (apart from all other
axes, if enough values are left for their scatter), as long as that is below its part of the error: a third of the error
belongs to all axes together, a third to all pairs (Bonferroni), and a third is left for what the order of choices adds.

The design is a split plot: the cells of a stack share its set-up. So an axis in which these cells differ, and a pair
with such an axis, is tested by differences within stacks. The other axes and pairs are tested by the scatter between
the set-ups of stacks, without the effects that show within stacks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import exp, inf, sqrt
from typing import Self

from matrix_runner.statistics.arrays import Floats, Levels, np
from matrix_runner.statistics.ratios import bounded_exp, t_factor, variance_ratio_p
from matrix_runner.statistics.rounds import Sample, cell_levels

Term = tuple[int, ...]  # an axis, or a pair of axes
_MOST_CANDIDATES = 10_000
_MOST_COLUMNS = 600  # of the model by which cells are chosen
_PRIOR = {0: 1e-6, 1: 1e-3, 2: 1.0}  # precision of the mean, of main effects, and of interactions
_VAGUE = 2.0  # bounds of an effect that differ by more say little
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


def _log_table(samples: Sequence[Sample]) -> Floats:
    """Return logarithms by cell and round, NaN where not measured; samples are the values of a cell by round."""
    columns = {
        number: column for column, number in enumerate(sorted({number for sample in samples for number in sample}))
    }
    table = np.full((len(samples), len(columns)), np.nan)
    for row, sample in enumerate(samples):
        table[row, [columns[number] for number in sample]] = np.log(list(sample.values()))
    return table


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

    @property
    def is_vague(self) -> bool:
        return any(one is None or one.high > _VAGUE * one.low for one in self.ratios)


@dataclass(frozen=True, slots=True)
class Screen:
    axes: tuple[Effect, ...]  # the largest first, the active ones before others
    pairs: tuple[Effect, ...]  # the active ones
    cells: int
    scatter: float  # of the cells of a stack around the model, as a share; inf: too few cells


def screen(levels: Levels, samples: Sequence[Sample], stacks: Sequence[int], confidence: float) -> Screen:
    """Return the effects of all axes, and the pairs that interact, from the figure of each cell by round.

    `stacks`: by cell, the number of its stack.
    """
    plots = _Plots.of(levels, samples, stacks)
    active = _active(plots, 1 - confidence)
    axes = [_effect(plots, (at,), active, confidence) for at in range(levels.shape[1])]
    axes.sort(key=lambda one: (not one.is_active, -one.size))
    pairs = [_effect(plots, term, active, confidence) for term in active if len(term) == 2]
    _, freedom, residual = plots.strata(active)[0].fitted
    scatter = sqrt(float(residual @ residual) / freedom) if freedom > 0 else inf
    return Screen(tuple(axes), tuple(sorted(pairs, key=lambda one: -one.size)), len(levels), scatter)


@dataclass(frozen=True)
class _Stratum:
    """Values that differ by the same error: cells of a stack, or the means of the set-ups of stacks in a round."""

    levels: Levels
    logs: Floats
    groups: Levels  # stacks, or rounds: only differences within them are used
    terms: Sequence[Term]  # active ones

    @cached_property
    def fitted(self) -> tuple[Floats, int, Floats]:
        """Return an orthonormal basis of groups and terms, the degrees of freedom left, and the residual."""
        member = (self.groups[:, None] == np.unique(self.groups)).astype(float)
        basis = member / np.sqrt(member.sum(axis=0))
        for term in self.terms:
            basis = np.hstack([basis, _beyond(basis, _columns(self.levels, term))])
        return basis, len(self.levels) - basis.shape[1], self.logs - basis @ (basis.T @ self.logs)

    @property
    def has_enough(self) -> bool:
        """Return whether the terms leave half of the degrees of freedom."""
        return 2 * self.fitted[1] >= len(self.levels) - len(np.unique(self.groups))


@dataclass(frozen=True, slots=True)
class _Plots:
    """The cells of a split-plot design: those of a stack share its set-ups, and so the error of these."""

    levels: Levels
    logs: Floats  # by cell
    table: Floats  # by cell and round
    stacks: Levels  # by cell
    of_stacks: frozenset[int]  # the axes in which the cells of a stack do not differ

    @classmethod
    def of(cls, levels: Levels, samples: Sequence[Sample], stacks: Sequence[int]) -> Self:
        _, first, numbers = np.unique(np.asarray(stacks), return_index=True, return_inverse=True)
        fixed = np.flatnonzero((levels == levels[first[numbers.ravel()]]).all(axis=0)).tolist()
        return cls(levels, np.array(cell_levels(samples)), _log_table(samples), numbers.ravel(), frozenset(fixed))

    def is_of_stacks(self, term: Term) -> bool:
        return self.of_stacks.issuperset(term)

    def strata(self, active: Iterable[Term]) -> tuple[_Stratum, _Stratum]:
        """Return the cells, then the set-ups without the effects that the cells show."""
        sides: tuple[list[Term], list[Term]] = [], []
        for term in active:
            sides[self.is_of_stacks(term)].append(term)
        cells = _Stratum(self.levels, self.logs, self.stacks, sides[0])
        member = (self.stacks == np.unique(self.stacks)[:, None]).astype(float)
        table = self.table
        if sides[0]:
            columns = np.hstack([_columns(self.levels, one) for one in sides[0]])
            within = columns - member.T @ (member @ columns / member.sum(axis=1, keepdims=True))
            table = table - (columns @ np.linalg.lstsq(within, self.logs, rcond=_EXACT)[0])[:, None]
        counts = member @ ~np.isnan(table)
        stack, number = np.nonzero(counts)
        means = (member @ np.nan_to_num(table))[stack, number] / counts[stack, number]
        return cells, _Stratum(self.levels[member.argmax(axis=1)[stack]], means, number, sides[1])


def _active(plots: _Plots, error: float) -> list[Term]:
    found: list[Term] = []
    while True:
        shares = _error_shares(plots, found)
        best = min(shares, key=shares.__getitem__, default=None)
        if best is None or shares[best] >= error / 3:
            return found
        found.append(best)


def _error_shares(plots: _Plots, found: Sequence[Term]) -> dict[Term, float]:
    """Return the p-value of each other term, times the number of axes or pairs."""
    axes: list[Term] = [(at,) for at in range(plots.levels.shape[1])]
    pairs: list[Term] = [*combinations(range(len(axes)), 2)]
    known, active = plots.strata(found), [one for one in found if len(one) == 2]
    apart = {one: plots.strata([*(other for other in axes if other != one), *active]) for one in ((), *axes)}
    shares = {}
    for several in (axes, pairs):
        for term in several:
            side = plots.is_of_stacks(term)
            full = apart.get(term, apart[()])[side]
            shares[term] = len(several) * _p_value(full if full.has_enough else known[side], term)
    return {term: share for term, share in shares.items() if term not in found}


def _beyond(basis: Floats, columns: Floats) -> Floats:
    """Return an orthonormal basis of what columns add."""
    rest = columns - basis @ (basis.T @ columns)
    left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    kept: Floats = left[:, sizes > _EXACT * max(1.0, float(np.linalg.norm(columns)))]
    return kept


def _p_value(stratum: _Stratum, term: Term) -> float:
    basis, freedom, residual = stratum.fitted
    added = _beyond(basis, _columns(stratum.levels, term))
    rank, left = added.shape[1], freedom - added.shape[1]
    if not rank or left < 1:
        return 1.0
    explained, total = float(((added.T @ residual) ** 2).sum()), float(residual @ residual)
    if total - explained <= 0:
        return 1.0 if explained <= 0 else 0.0
    return variance_ratio_p(explained / rank / ((total - explained) / left), rank, left)


def _effect(plots: _Plots, term: Term, active: Sequence[Term], confidence: float) -> Effect:
    stratum = plots.strata(one for one in active if one != term)[plots.is_of_stacks(term)]
    own, (basis, freedom, residual) = _columns(stratum.levels, term), stratum.fitted
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
