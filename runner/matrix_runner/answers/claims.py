"""Translation of claims into cases: each says between which bounds a product of figures must lie."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import inf
from statistics import geometric_mean
from typing import Self

from matrix_runner.answers.axes import grouped, number_key, number_of, values_by_axis
from matrix_runner.answers.cell_figures import (
    Context,
    Matches,
    match_along,
    match_compared,
    matching_cells,
    unmatched_cells,
)
from matrix_runner.base.model import Condition
from matrix_runner.language import guidelines
from matrix_runner.records.record import CellRow
from matrix_runner.space.guideline_references import intersect_rules
from matrix_runner.space.rules import BadRule, Rule, axis_named, rule_of


class NotTested(Exception):
    """The claim concerns cells without measurements. The message names them."""


@dataclass(frozen=True, slots=True)
class Term:
    """A figure, or the sum over several cells, with a factor and a power: 1 in the numerator, -1 in the denominator."""

    power: float
    cells: tuple[str, ...]
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    label: str
    terms: tuple[Term, ...]
    low: float = 0.0
    high: float = inf
    absolute: bool = False  # it concerns one figure, not a ratio

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell for term in self.terms for cell in term.cells))


@dataclass(frozen=True, slots=True)
class ClaimCases:
    """The cases of a claim. The claim holds if it holds in each of them."""

    cases: tuple[Case, ...]
    #: For a mean: the same case for each context. These do not affect the verdict.
    contexts: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimScope:
    cells: Sequence[CellRow]
    values: Mapping[str, set[str]]

    @classmethod
    def of(cls, cells: Sequence[CellRow]) -> Self:
        return cls(cells, values_by_axis(cell.axes for cell in cells))

    def rule(self, *conditions: Condition) -> Rule:
        found: Rule | None = {}
        for condition in conditions:
            try:
                found = None if found is None else intersect_rules(found, rule_of(condition, self.values))
            except BadRule as error:
                raise NotTested(error.brief) from None
        if found is None:
            raise NotTested("no cell matches all of these values")
        return found

    def chosen(self, *conditions: Condition) -> list[CellRow]:
        found = matching_cells(self.cells, self.rule(*conditions))
        if not found:
            wanted = ", ".join(f"{key}={value}" for part in conditions for key, value in part.items())
            raise NotTested(f"no cell is {wanted}")
        return found

    def axis(self, name: str) -> str:
        try:
            return axis_named(name, self.values)
        except BadRule as error:
            raise NotTested(error.brief) from None


@singledispatch
def cases_of(claim: guidelines.Claim, scope: ClaimScope) -> ClaimCases:  # noqa: ARG001
    raise TypeError(f"no such claim: {claim!r}")


@cases_of.register
def _(claim: guidelines.RatioOf, scope: ClaimScope) -> ClaimCases:
    each = _of_pairs(claim, scope)
    return ClaimCases((mean_case(each.cases),), each.cases, each.notes) if claim.mean else each


def mean_case(contexts: Sequence[Case]) -> Case:
    first, share = contexts[0], 1 / len(contexts)
    if len(contexts) == 1:
        return first
    terms = tuple(Term(term.power * share, term.cells) for one in contexts for term in one.terms)
    return Case(f"mean over {len(contexts)} pairs", terms, first.low, first.high)


@cases_of.register
def _(claim: guidelines.Best, scope: ClaimScope) -> ClaimCases:
    along = scope.axis(claim.along)
    (chosen,) = scope.rule({along: claim.value}).values()
    best, more = next(iter(chosen)), claim.figure.more_is_better
    low, high = (1 / (1 + claim.tolerance), inf) if more else (0.0, 1 + claim.tolerance)
    rows = [row for row in _rows(claim, along, scope) if best in row]
    found = [
        Case(_label(f"{along}={best} against {value}", label), _ratio(row[best], cell), low, high)
        for row, label in _labelled(rows)
        for value, cell in row.items()
        if value != best
    ]
    return _some(found, f"only {along}={best} was measured")


@cases_of.register
def _(claim: guidelines.Monotone, scope: ClaimScope) -> ClaimCases:
    back = 1 + claim.tolerance
    low, high = (1 / back, inf) if claim.direction == "rises" else (0.0, back)
    along = scope.axis(claim.along)
    rows = _rows(claim, along, scope)
    found = [
        Case(_label(f"{along}={after} against {before}", label), _ratio(row[after], row[before]), low, high)
        for row, label in _labelled(rows)
        for before, after in zip(list(row), list(row)[1:], strict=False)
    ]
    return _some(found, f"{claim.along} has a single value")


@cases_of.register
def _(claim: guidelines.Scaling, scope: ClaimScope) -> ClaimCases:
    found, along = list[Case](), scope.axis(claim.along)
    for row, label in _labelled(_rows(claim, along, scope)):
        (first, start), *others = [(value, number_of(value)) for value in row]
        for value, number in others:
            if not start or not number:
                raise NotTested(f"{claim.along}={value if start else first} is not a number, so it cannot scale")
            terms = (Term(1, (row[value].id,), start / number), Term(-1, (row[first].id,)))
            name = _label(f"{along}={value} against {first}, for each of {number / start:g}", label)
            found.append(Case(name, terms, claim.at_least or 0.0, claim.at_most or inf))
    return _some(found, f"{claim.along} has a single value")


@cases_of.register
def _(claim: guidelines.Bound, scope: ClaimScope) -> ClaimCases:
    low, high = claim.limits
    cells = scope.chosen(claim.where)
    return ClaimCases(tuple(Case(one.name, (Term(1, (one.id,)),), low, high, absolute=True) for one in cells))


@cases_of.register
def _(claim: guidelines.SumOf, scope: ClaimScope) -> ClaimCases:
    sides = [scope.rule(claim.where, one) for one in (claim.whole, *claim.parts)]
    among = [matching_cells(scope.cells, rule) for rule in sides]
    if not all(among):
        raise NotTested("no cell matches all of these values")
    found = match_compared(among, _compared(sides))
    labels = _labels([context.places for context in found.contexts])
    cases = []
    for context, label in zip(found.contexts, labels, strict=True):
        whole, *parts = context.cells
        terms = (Term(1, (whole.id,)), Term(-1, tuple(part.id for part in parts), claim.times))
        name = _label("whole against parts", label)
        cases.append(Case(name, terms, 1 / (1 + claim.within), 1 + claim.within))
    return _some(cases, "no position has both the whole and its parts", _notes(among, found))


@cases_of.register
def _(claim: guidelines.Profile, scope: ClaimScope) -> ClaimCases:
    found, level = list[Case](), geometric_mean(claim.follows)
    for row, label in _labelled(_rows(claim, scope.axis(claim.along), scope)):
        if len(row) != len(claim.follows):
            raise NotTested(f"the shape has {len(claim.follows)} places, and {claim.along} {len(row)}")
        share = 1 / len(row)
        for (value, cell), wanted in zip(row.items(), claim.follows, strict=True):
            others = tuple(Term(-share, (other.id,)) for other in row.values())
            terms = (Term(1, (cell.id,), level / wanted), *others)
            found.append(Case(_label(value, label), terms, 1 / (1 + claim.within), 1 + claim.within))
    return _some(found, f"{claim.along} has a single value")


def _of_pairs(claim: guidelines.RatioOf, scope: ClaimScope) -> ClaimCases:
    scope.chosen(claim.where, claim.of), scope.chosen(claim.where, claim.to)
    sides = [scope.rule(claim.where, one) for one in (claim.of, claim.to)]
    among, named = [matching_cells(scope.cells, rule) for rule in sides], _compared(sides)
    found = match_compared(among, named)
    labels = _labels([{**context.places, **_against(context, named)} for context in found.contexts])
    cases = [
        Case(label, _ratio(*context.cells), *claim.limits)
        for context, label in zip(found.contexts, labels, strict=True)
    ]
    return _some(cases, "the cells of both sides differ in other axes, too", _notes(among, found))


def _compared(rules: Sequence[Rule]) -> set[str]:
    named = {axis for rule in rules for axis in rule}
    return {axis for axis in named if len({rule.get(axis) for rule in rules}) > 1}


def _ratio(above: CellRow, below: CellRow) -> tuple[Term, ...]:
    return (Term(1, (above.id,)), Term(-1, (below.id,)))


def _rows(claim: guidelines.Claim, along: str, scope: ClaimScope) -> list[dict[str, CellRow]]:
    """Return the cells of a claim along an axis, one row for each position on the other axes, in numeric order."""
    groups = grouped((cell.axes[along], cell) for cell in scope.chosen(claim.where) if along in cell.axes)
    ordered = {value: groups[value] for value in sorted(groups, key=number_key)}
    return [row for row in match_along(ordered, along) if len(row) > 1]


def _some(cases: Iterable[Case], lacking: str, notes: tuple[str, ...] = ()) -> ClaimCases:
    found = tuple(one for one in cases if len(one.cells) > 1)
    if not found:
        raise NotTested(lacking)
    return ClaimCases(found, notes=notes)


def _notes(sides: Sequence[Sequence[CellRow]], found: Matches) -> tuple[str, ...]:
    tied = (
        f"{axis} differs as well: {' against '.join('|'.join(sorted(one)) for one in values)}"
        for axis, values in found.tied.items()
    )
    left = [cell.name for cell in unmatched_cells(sides, found.contexts)]
    if not left:
        return tuple(tied)
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return (*tied, f"left out, because the other side has no matching cell: {left[0]}{more}")


def _against(context: Context, named: Iterable[str]) -> dict[str, str]:
    values = {axis: [cell.axes[axis] for cell in context.cells if axis in cell.axes] for axis in named}
    return {axis: " against ".join(dict.fromkeys(several)) for axis, several in values.items() if several}


def _labels(contexts: Sequence[Mapping[str, str]]) -> list[str]:
    axes = dict.fromkeys(axis for places in contexts for axis in places)
    kept = [axis for axis in axes if len({places.get(axis) for places in contexts}) > 1]
    apart = _count(contexts, kept)
    for axis in reversed(kept):
        fewer = [one for one in kept if one != axis]
        kept = fewer if _count(contexts, fewer) == apart else kept
    return [", ".join(f"{axis}={places[axis]}" for axis in kept if axis in places) for places in contexts]


def _count(contexts: Sequence[Mapping[str, str]], axes: Sequence[str]) -> int:
    return len({tuple(places.get(axis) for axis in axes) for places in contexts})


def _labelled(rows: Sequence[Mapping[str, CellRow]]) -> Iterator[tuple[Mapping[str, CellRow], str]]:
    return zip(rows, _labels([_places(row) for row in rows]), strict=True)


def _places(row: Mapping[str, CellRow]) -> dict[str, str]:
    *_, last = cells = list(row.values())
    return {
        axis: value for axis, value in last.axes.items() if all(one.axes.get(axis, value) == value for one in cells)
    }


def _label(*words: str) -> str:
    return ", ".join(filter(None, words))
