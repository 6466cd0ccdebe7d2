"""Select cells: `exclude:` and `only:` in a matrix, `--only` and `--shard` on the command line."""

import heapq
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Self

from matrix_runner.base.errors import BadInput
from matrix_runner.base.extras import require_statistics
from matrix_runner.base.findings import few
from matrix_runner.base.model import Condition, Coords, Variant
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.suggestions import few_names
from matrix_runner.space.rules import BadRule, Rule, amiss, format_condition, parse_only, rule_of
from matrix_runner.space.space import Cell, Space, Stack

#: Commands that write a line or more for each cell need at most 10 s for this number.
MOST_LISTED = 200_000


def refuse_many(selection: "Selection", work: str, most: int = MOST_LISTED) -> None:
    if (count := selection.count()) > most:
        raise BadInput(
            f"{count:,} cells are too many to {work}: at most {most:,}",
            resolution="select some with --only or --shard; `matrix plan` counts any number",
        )


def values_of(space: Space) -> dict[str, set[str]]:
    factors = [stack.spellings for stack in space.stacks]
    factors += [
        tune.spellings for tunes in {id(one.tunes): one.tunes for one in space.stacks}.values() for tune in tunes
    ]
    factors += [workload.spellings for workload, _ in space.workloads]
    found: dict[str, set[str]] = {}
    for coords in itertools.chain(*factors, space.impossible):
        for axis, text in coords:
            found.setdefault(axis, set()).add(text)
    return found


@dataclass(frozen=True)
class Ruled:
    exclude: tuple[Rule, ...]
    only: tuple[Rule, ...]

    @classmethod
    def of(cls, matrix: Matrix, values: Mapping[str, set[str]]) -> Self:
        """Take the valid rules of a matrix. An invalid `only` rule could match any cell, so it disables all of them."""
        exclude = tuple(_understood(condition, values) for condition in matrix.exclude)
        only = tuple(_understood(condition, values) for condition in matrix.only)
        return cls(tuple(filter(None, exclude)), () if None in only else tuple(filter(None, only)))

    def out(self, coords: Coords) -> bool:
        """Return whether the rules certainly exclude all cells with these coordinates."""
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
    """The selected cells of a space: no `exclude` rule matches, and one rule of every `only` group does."""

    space: Space
    exclude: tuple[Rule, ...] = ()
    only: tuple[tuple[Rule, ...], ...] = ()
    #: The stacks of a shard, and the ids of chosen cells; None: all. A stack is never split: one machine measures it.
    stacks: frozenset[str] | None = None
    ids: frozenset[str] | None = None
    _known: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def cells(self) -> Iterator[Cell]:
        for stack in self.space.stacks:
            yield from self.cells_of(stack)

    def cells_of(self, stack: Stack) -> Iterator[Cell]:
        """Yield the selected cells of one stack. A rule is matched once per factor, not once per cell."""
        if self.stacks is not None and stack.key not in self.stacks:
            return
        marks = self._marks("stack", stack.spellings)
        tunes = [(tune, bits & marks) for tune, bits in zip(stack.tunes, self._all("tune", stack.tunes), strict=True)]
        workloads = list(zip(stack.workloads, self._all("workload", stack.workloads), strict=True))
        for (tune, tune_marks), (workload, marks) in itertools.product(tunes, workloads):
            if self._wanted(marks & tune_marks):
                cell = Cell(stack, tune, workload)
                if self.ids is None or cell.id in self.ids:
                    yield cell

    def count(self) -> int:
        return sum(map(self.count_of, self.space.stacks))

    def count_of(self, stack: Stack) -> int:
        return sum(count for _, count in self.groups_of(stack))

    def groups_of(self, stack: Stack) -> Iterator[tuple[Cell, int]]:
        """Yield one cell for each workload, and the number of selected cells with this workload."""
        if self.ids is not None or (self.stacks is not None and stack.key not in self.stacks):
            yield from ((cell, 1) for cell in self.cells_of(stack))
            return
        marks = self._marks("stack", stack.spellings)
        tunes = Counter(bits & marks for bits in self._all("tune", stack.tunes))
        counts: dict[int, int] = {}
        for workload, bits in zip(stack.workloads, self._all("workload", stack.workloads), strict=True):
            if bits not in counts:
                counts[bits] = sum(count for one, count in tunes.items() if self._wanted(one & bits))
            if counts[bits]:
                yield Cell(stack, stack.tunes[0], workload), counts[bits]

    def _all(self, factor: str, variants: tuple[Variant[Any], ...]) -> list[int]:
        # Many stacks share one tuple of variants.
        if id(variants) not in self._known:
            self._known[id(variants)] = [self._marks(factor, variant.spellings) for variant in variants]
        return self._known[id(variants)]

    def layouts(self) -> list[str]:
        used = (stack for stack in self.space.stacks if self.count_of(stack))
        wanted = {dict(coords)["layout"] for stack in used for coords in stack.spellings}
        return [layout for layout in self.space.matrix.layouts if layout in wanted]

    def notes(self, *, simulated: bool = True) -> list[str]:
        wanted = self.layouts()
        if self.stacks is not None:  # other shards measure the other layouts, so no rule excludes them
            return list(self.space.notes_on(wanted, simulated=simulated))
        without = [layout for layout in self.space.matrix.layouts if layout not in wanted]
        excluded = [f"the rules (`only`, `exclude`, --only) exclude all cells of {few(without)}"] if without else []
        return [*excluded, *self._idle(), *self.space.notes_on(wanted, simulated=simulated)]

    def _idle(self) -> Iterator[str]:
        """Explain the rules of the matrix that match no cell, although each of their values exists."""
        matrix, used = self.space.matrix, 0
        for stack in self.space.stacks:
            tunes = set(self._all("tune", stack.tunes))
            workloads = set(self._all("workload", stack.workloads))
            used |= self._marks("stack", stack.spellings) & reduce(or_, tunes, 0) & reduce(or_, workloads, 0)
        written = [*(("exclude", one) for one in matrix.exclude), *(("only", one) for one in matrix.only)]
        rules = [*self.exclude, *itertools.chain.from_iterable(self.only)]  # the rules of the command line come last
        for bit, ((kind, condition), rule) in enumerate(zip(written, rules, strict=False)):
            if not used >> bit & 1 and not any(_may_match(rule, coords) for coords in self.space.impossible):
                effect = "excludes no cell" if kind == "exclude" else "selects no cell"
                why = "no cell has all of these values"
                if any(_names_any(rule, stack) for stack in self.space.stacks):
                    why = "the cells have other names as well, and the rule does not match those"
                yield f"`{kind}: {{{format_condition(condition)}}}` {effect}: {why}"

    def _marks(self, factor: str, spellings: tuple[Coords, ...]) -> int:
        """Return one bit per rule that matches this factor: `exclude` has to match every spelling, `only` any."""
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


def _matches(part: Rule, coords: Coords) -> bool:
    found = dict(coords)
    return all(found.get(axis) in values for axis, values in part.items())


def _names_any(rule: Rule, stack: Stack) -> bool:
    factors: dict[str, tuple[Stack | Variant[Any], ...]] = {
        "stack": (stack,),
        "tune": stack.tunes,
        "workload": stack.workloads,
    }
    return all(
        any(_matches(_part(rule, factor), coords) for variant in variants for coords in variant.spellings)
        for factor, variants in factors.items()
    )


def _part(rule: Rule, factor: str) -> Rule:
    def factor_of(axis: str) -> str:
        return next((kind for kind in ("tune", "workload") if axis.partition(".")[0] == kind), "stack")

    return {axis: values for axis, values in rule.items() if factor_of(axis) == factor}


def _may_match(rule: Rule, coords: Coords) -> bool:
    found = dict(coords)  # the known ones of some cells
    return bool(rule.keys() & found.keys()) and all(found.get(axis) in {None, *rule[axis]} for axis in rule)


def select(space: Space, only: Iterable[str] = ()) -> Selection:
    values = values_of(space)
    asked = []
    for text in only:
        condition = parse_only(text, values)
        if wrong := [error.message for error in amiss(condition, values)]:
            raise BadInput(
                f"--only '{text}': {wrong[0]}",
                details="\n".join(f"and {message}" for message in wrong[1:]),
                resolution=f"the axes of this matrix are {few_names(values)}",
            )
        asked.append(rule_of(condition, values))
    declared = tuple(rule_of(condition, values) for condition in space.matrix.only)
    groups = tuple(group for group in (declared, tuple(asked)) if group)
    return Selection(space, tuple(rule_of(condition, values) for condition in space.matrix.exclude), groups)


_WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> Self:
        found = _WRITTEN.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise ValueError(f"{text!r} is not a shard; write `2/5` for the second of five")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def sharded(selection: Selection, shard: Shard) -> Selection:
    """Select the stacks of one shard. The same matrix and selection always give the same stacks."""
    dealt = _dealt(selection, shard.of)
    if not dealt[shard.number - 1]:
        stacks = sum(map(len, dealt))
        be, end = ("is", "") if stacks == 1 else ("are", "s")
        raise BadInput(
            f"--shard {shard}: there {be} {stacks} stack{end}, and this shard gets none of them",
            resolution=f"a stack is not split: take at most {stacks} shard{end}",
        )
    return replace(selection, stacks=frozenset(dealt[shard.number - 1]))


def _dealt(selection: Selection, shards: int) -> list[list[str]]:
    counts = ((selection.count_of(stack), stack.key) for stack in selection.space.stacks)
    dealt: list[list[str]] = [[] for _ in range(shards)]
    loads = [(0, number) for number in range(shards)]
    for minus_cells, key in sorted((-cells, key) for cells, key in counts if cells):
        load, number = loads[0]
        heapq.heapreplace(loads, (load - minus_cells + 1, number))  # setting up a stack costs about as much as a trial
        dealt[number].append(key)
    return dealt


_CHEAP = 200  # cells: with fewer, a design saves little
_LEAST = 8
_CELLS_OF_A_STACK = 4  # a set-up costs more than a trial, so a screen has few stacks
_LEAST_STACKS = 8


@dataclass(frozen=True, slots=True)
class Design:
    cells: int | None  # of a screen; None: each pair of values once

    @classmethod
    def parsed(cls, text: str) -> "Design":
        found = re.fullmatch(r"pairwise|screen:([1-9][0-9]{0,5})", text)
        if not found:
            raise ValueError(f"{text!r} is neither screen:N, such as screen:100, nor pairwise")
        if found[1] and int(found[1]) < _LEAST:
            raise ValueError(f"a screen needs {_LEAST} cells or more, not {found[1]}")
        return cls(int(found[1]) if found[1] else None)

    def __str__(self) -> str:
        return f"screen:{self.cells}" if self.cells else "pairwise"


def design_refusal(other: str) -> BadInput:
    return BadInput(
        f"--design chooses the cells that are compared, and {other} leaves out some of them",
        resolution="leave one of them out; --jobs and --cluster measure a design in parallel",
    )


def designed(selection: Selection, design: Design, seed: int) -> Selection:
    """Select the cells of a design. The same matrix always gives the same cells."""
    refuse_many(selection, "choose from", MOST_LISTED)
    if finds := selection.space.matrix.finds:
        raise BadInput(
            f"--design chooses the cells, and `find` of {', '.join(finds)} does so, too",
            resolution="remove one of them",
        )
    cells = list(selection.cells())
    if design.cells and len(cells) < max(_CHEAP, 2 * design.cells):
        raise BadInput(
            f"--design {design}: this matrix has {len(cells)} cells, so all of them are about as cheap, and show more",
            resolution="leave --design out",
        )
    require_statistics("--design")
    from matrix_runner.statistics.screening import Factors, choose, cover_pairs

    factors = Factors.of([cell.axes for cell in cells])
    if design.cells:
        plots: dict[str, int] = {}
        numbers = [plots.setdefault(cell.stack.key, len(plots)) for cell in cells]
        stacks = max(_LEAST_STACKS, design.cells // _CELLS_OF_A_STACK)
        rows = choose(factors.levels, design.cells, numbers, stacks, seed)
    else:
        rows = cover_pairs(factors.levels)
        if len(rows) == len(cells):
            raise BadInput(
                f"--design {design}: it needs all {len(cells)} cells of this matrix for each pair of values",
                resolution="leave --design out",
            )
    return replace(selection, ids=frozenset(cells[row].id for row in rows))
