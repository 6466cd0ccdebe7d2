"""Which cells are held against which: those that differ in what is compared, and in nothing else."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from runner.store.record import CellRow


class Context(NamedTuple):
    """One cell of every side, and where all of them stand."""

    cells: tuple[CellRow, ...]
    places: Mapping[str, str]


class Matched(NamedTuple):
    """All of them, and what else is compared because it never is the same."""

    contexts: list[Context]
    tied: dict[str, tuple[str, ...]]


def fitting(cells: Iterable[CellRow], rule: Mapping[str, frozenset[str]]) -> list[CellRow]:
    """The cells that a rule is about."""
    return [cell for cell in cells if all(cell.axes.get(axis) in values for axis, values in rule.items())]


def matched(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matched:
    """Every way to take a cell of each side so that all stand on the same places of the axes that they share.

    `named` axes are what is compared. An axis that has other values on every side, and is of the same kind (of the
    stack, of the tunables, of the work), changes along with them and is compared with them: the level with the name of
    a layout.
    """
    values = [_values(side) for side in sides]
    shared = {axis for axis in values[0] if all(axis in one for one in values)} - set(named) if values else set()
    kinds = {kind_of(axis) for axis in named}
    tied = {axis for axis in shared if kind_of(axis) in kinds and _apart([one[axis] for one in values])}
    ignored = {*named, *tied}
    rows = [Context((), {})]
    for side in sides:
        rows = _joined(rows, side, ignored)
    return Matched(rows, {axis: tuple("|".join(sorted(one[axis])) for one in values) for axis in sorted(tied)})


def partitioned(groups: Mapping[str, Sequence[CellRow]], along: str) -> list[dict[str, CellRow]]:
    """The same along an axis: `groups` has the cells by its values.

    A place where one of these was never to be measured has the others all the same.
    """
    sides = list(groups.values())
    values = [_values(side) for side in sides]
    shared = {axis for axis in values[0] if all(axis in one for one in values)} - {along} if values else set()
    tied = {axis for axis in shared if kind_of(axis) == kind_of(along) and _apart([one[axis] for one in values])}
    kept = sorted(shared - tied)
    parts: dict[tuple[str, ...], dict[str, list[CellRow]]] = {}
    for value, side in groups.items():
        for cell in side:
            parts.setdefault(_key(cell.axes, kept), {}).setdefault(value, []).append(cell)
    return [
        dict(zip(part, context.cells, strict=True))
        for part in parts.values()
        for context in matched(list(part.values()), {along}).contexts
    ]


def kind_of(axis: str) -> str:
    """What an axis is about: the work, a tunable, or else the stack."""
    kind = axis.partition(".")[0]
    return kind if kind in {"tune", "workload"} else "stack"


def _joined(rows: Sequence[Context], side: Sequence[CellRow], ignored: Collection[str]) -> list[Context]:
    there = {axis for row in rows for axis in row.places}
    common = sorted(there & {axis for cell in side for axis in cell.axes})
    by_key: dict[tuple[str, ...], list[CellRow]] = {}
    for cell in side:
        by_key.setdefault(_key(cell.axes, common), []).append(cell)
    return [
        Context((*row.cells, cell), {**row.places, **{a: v for a, v in cell.axes.items() if a not in ignored}})
        for row in rows
        for cell in by_key.get(_key(row.places, common), ())
    ]


def _key(axes: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(axes.get(name, "") for name in names)


def _values(cells: Iterable[CellRow]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for cell in cells:
        for axis, value in cell.axes.items():
            found.setdefault(axis, set()).add(value)
    return found


def _apart(values: Sequence[set[str]]) -> bool:
    """Whether no two sides have a value in common."""
    return len(values) > 1 and not any(one & other for one, other in combinations(values, 2))
