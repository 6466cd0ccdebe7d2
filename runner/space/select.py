"""Which cells are wanted: `exclude:` and `only:` in a matrix, `--only` on the command line."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Self

from runner.base.errors import BadInput
from runner.space.notes import few
from runner.space.rules import BadRule, Rule, amiss, parse_only, rule_of, told
from runner.space.space import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runner.language.filter import Condition
    from runner.language.matrix import Matrix
    from runner.space.space import Array, Space
    from runner.space.variants import Coords


def values_of(space: Space) -> dict[str, set[str]]:
    """Every axis of a space with every value on it."""
    factors: list[tuple[Coords, ...]] = [(array.coords, *array.also) for array in space.arrays]
    factors += [(tune.coords, *tune.also) for array in space.arrays for tune in array.tunes]
    factors += [(workload.coords, *workload.also) for workload, _ in space.workloads]
    factors.append(space.impossible)
    found: dict[str, set[str]] = {}
    for spellings in factors:
        for coords in spellings:
            for axis, text in coords:
                found.setdefault(axis, set()).add(text)
    return found


@dataclass(frozen=True)
class Ruled:
    """The rules of a matrix, as far as they say something of a cell of which only a part is known."""

    exclude: tuple[Rule, ...]
    only: tuple[Rule, ...]

    @classmethod
    def of(cls, matrix: Matrix, values: Mapping[str, set[str]]) -> Self:
        """Those of its rules that can be understood; of the others, nothing is known yet."""
        exclude = tuple(_understood(condition, values) for condition in matrix.exclude)
        only = tuple(_understood(condition, values) for condition in matrix.only)
        return cls(tuple(filter(None, exclude)), () if None in only else tuple(filter(None, only)))

    def out(self, coords: Coords) -> bool:
        """Are all cells that stand there left out for certain?"""
        found = dict(coords)
        if any(_matches(rule, coords) for rule in self.exclude):
            return True
        return bool(self.only) and all(
            any(axis in found and found[axis] not in values for axis, values in rule.items()) for rule in self.only
        )


def _understood(condition: Condition, values: Mapping[str, set[str]]) -> Rule | None:
    with suppress(BadRule):
        return rule_of(condition, values)
    return None


@dataclass(frozen=True)
class Selection:
    """The cells of a space that are wanted: those that no `exclude` rule and some rule of every `only` group match."""

    space: Space
    exclude: tuple[Rule, ...] = ()
    only: tuple[tuple[Rule, ...], ...] = ()

    def cells(self) -> Iterator[Cell]:
        """Every wanted cell, in declared order."""
        for array in self.space.arrays:
            yield from self.cells_of(array)

    def cells_of(self, array: Array) -> Iterator[Cell]:
        """The wanted cells of one array. A rule is asked once for each factor, not once for each cell."""
        if not (self.exclude or self.only):
            for tune, workload in self.space.pairs(array):
                yield Cell(array, tune, workload)
            return
        stack = self._marks("stack", (array.coords, *array.also))
        tunes = [(tune, self._marks("tune", (tune.coords, *tune.also)) & stack) for tune in array.tunes]
        workloads = [(one, self._marks("workload", (one.coords, *one.also))) for one in array.workloads]
        for tune, tune_marks in tunes:
            for workload, marks in workloads:
                if self._wanted(marks & tune_marks):
                    yield Cell(array, tune, workload)

    def count(self) -> int:
        """How many are wanted."""
        return sum(1 for _ in self.cells()) if self.exclude or self.only else self.space.count()

    def layouts(self) -> list[str]:
        """Those of which any cell is wanted, in declared order."""
        wanted = {
            text
            for array in self.space.arrays
            if next(self.cells_of(array), None) is not None
            for coords in (array.coords, *array.also)
            for axis, text in coords
            if axis == "layout"
        }
        return [layout for layout in self.space.matrix.layouts if layout in wanted]

    def notes(self) -> list[str]:
        """What a user should be told of what is wanted, first which layouts have no part in it."""
        wanted = self.layouts()
        without = [layout for layout in self.space.matrix.layouts if layout not in wanted]
        told = f"no cell is left of {few(without)}: the rules (`only`, `exclude`, --only) leave out all of them"
        return [*([told] if without else ()), *self._idle(), *self.space.notes_on(wanted)]

    def _idle(self) -> Iterator[str]:
        """Rules of the matrix that no cell answers to: each axis has such a value, and no cell has all of them."""
        matrix, used = self.space.matrix, 0
        for array in self.space.arrays:
            stack = self._marks("stack", (array.coords, *array.also))
            tunes = (self._marks("tune", (tune.coords, *tune.also)) for tune in array.tunes)
            workloads = (self._marks("workload", (one.coords, *one.also)) for one in array.workloads)
            used |= stack & reduce(or_, tunes, 0) & reduce(or_, workloads, 0)
        written = [*(("exclude", one) for one in matrix.exclude), *(("only", one) for one in matrix.only)]
        rules = [*self.exclude, *itertools.chain.from_iterable(self.only)]  # those of the command line are last
        for bit, ((kind, condition), rule) in enumerate(zip(written, rules, strict=False)):
            if not used >> bit & 1 and not any(_may_match(rule, coords) for coords in self.space.impossible):
                what = "leaves nothing out" if kind == "exclude" else "lets nothing in"
                named = any(_names_any(rule, array) for array in self.space.arrays)
                why = (
                    "those cells have other names as well, which it does not say"
                    if named
                    else "no cell has all of that"
                )
                yield f"`{kind}: {{{told(condition)}}}` {what}: {why}"

    def _marks(self, factor: str, spellings: tuple[Coords, ...]) -> int:
        """One bit for each rule whose part about this factor matches: for `exclude` every spelling, for `only` any."""
        marks = 0
        for bit, rule in enumerate((*self.exclude, *itertools.chain.from_iterable(self.only))):
            part = _part(rule, factor)
            agree = all if bit < len(self.exclude) else any
            if agree(_matches(part, coords) for coords in spellings):
                marks |= 1 << bit
        return marks

    def _wanted(self, marks: int) -> bool:
        first = len(self.exclude)
        if marks & ((1 << first) - 1):
            return False
        for group in self.only:
            if not marks >> first & ((1 << len(group)) - 1):
                return False
            first += len(group)
        return True


@dataclass(frozen=True)
class Picked(Selection):
    """The cells that are named one by one."""

    ids: frozenset[str] = frozenset()

    def cells_of(self, array: Array) -> Iterator[Cell]:
        """Those of one array."""
        found = super().cells_of(array)
        return (cell for cell in found if cell.id in self.ids)

    def count(self) -> int:
        """How many there are."""
        return sum(1 for _ in self.cells())


def _factor(axis: str) -> str:
    kind = axis.partition(".")[0]
    return kind if kind in {"tune", "workload"} else "stack"


def _matches(part: Rule, coords: Coords) -> bool:
    found = dict(coords)
    return all(found.get(axis) in values for axis, values in part.items())


def _names_any(rule: Rule, array: Array) -> bool:
    """Whether any cell of an array is called so, whatever else it is called."""
    found = {
        "stack": [(array.coords, *array.also)],
        "tune": [(tune.coords, *tune.also) for tune in array.tunes],
        "workload": [(one.coords, *one.also) for one in array.workloads],
    }
    return all(
        any(_matches(_part(rule, factor), coords) for spellings in several for coords in spellings)
        for factor, several in found.items()
    )


def _part(rule: Rule, factor: str) -> Rule:
    return {axis: values for axis, values in rule.items() if _factor(axis) == factor}


def _may_match(rule: Rule, coords: Coords) -> bool:
    """Whether cells that stand there, of which only a part is known, may answer to a rule that speaks of that part."""
    found = dict(coords)
    return bool(rule.keys() & found.keys()) and all(found.get(axis) in {None, *rule[axis]} for axis in rule)


def select(space: Space, only: Iterable[str] = ()) -> Selection:
    """The cells that a matrix and the command line ask for."""
    values = values_of(space)
    asked = []
    for text in only:
        condition = parse_only(text, values)
        if wrong := [error.message for error in amiss(condition, values)]:
            raise BadInput(
                f"--only '{text}': {wrong[0]}",
                details="\n".join(f"and {message}" for message in wrong[1:]),
                resolution=f"its axes are {', '.join(values)}",
            )
        asked.append(rule_of(condition, values))
    declared = tuple(rule_of(condition, values) for condition in space.matrix.only)
    groups = tuple(group for group in (declared, tuple(asked)) if group)
    return Selection(space, tuple(rule_of(condition, values) for condition in space.matrix.exclude), groups)
