"""Matching of cells that differ only in the compared axes."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from runner.results.record import CellRow


class Context(NamedTuple):
    """One cell of every side, and their common position."""

    cells: tuple[CellRow, ...]
    places: Mapping[str, str]


class Matches(NamedTuple):
    """All contexts, and the axes that always change along with the compared one."""

    contexts: list[Context]
    #: The values of each such axis, side by side.
    tied: Mapping[str, tuple[frozenset[str], ...]]


def matching_cells(cells: Iterable[CellRow], rule: Mapping[str, frozenset[str]]) -> list[CellRow]:
    return [cell for cell in cells if all(cell.axes.get(axis) in values for axis, values in rule.items())]


def match_compared(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matches:
    """Return every combination of one cell of each side with equal values on the shared axes.

    `named` axes are compared. Each of their values is matched on its own, because the axes of a RAID 1 differ from
    those of a RAID 10.
    """
    contexts, tied = list[Context](), dict[str, tuple[frozenset[str], ...]]()
    for several in product(*(_by_place(side, sorted(named)) for side in sides)):
        found = match_sides(several, named)
        contexts += found.contexts
        for axis, values in found.tied.items() if found.contexts else ():
            before = tied.get(axis, (frozenset[str](),) * len(values))
            tied[axis] = tuple(map(frozenset.union, before, values))
    return Matches(contexts, dict(sorted(tied.items())))


def unmatched_cells(sides: Sequence[Sequence[CellRow]], contexts: Iterable[Context]) -> list[CellRow]:
    """Return the cells without a partner."""
    used = {cell.id for context in contexts for cell in context.cells}
    return [cell for side in sides for cell in side if cell.id not in used]


def match_sides(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matches:
    """Match sides with one position each on the compared axes.

    An axis with different values on every side, and of the same kind (stack, tunables or workload), changes along with
    them and counts as compared: the level with the name of a layout.
    """
    values = [_values(side) for side in sides]
    shared = {axis for axis in values[0] if all(axis in one for one in values)} - set(named) if values else set()
    kinds = {kind_of(axis) for axis in named}
    tied = {axis for axis in shared if kind_of(axis) in kinds and _apart([one[axis] for one in values])}
    ignored = {*named, *tied}
    rows = [Context((), {})]
    for side in sides:
        rows = _joined(rows, side, ignored)
    return Matches(rows, {axis: tuple(frozenset(one[axis]) for one in values) for axis in sorted(tied)})


def match_along(groups: Mapping[str, Sequence[CellRow]], along: str) -> list[dict[str, CellRow]]:
    """Match cells along an axis; `groups` maps its values to cells.

    A position that excludes one value still has the others.
    """
    sides = list(groups.values())
    values = [_values(side) for side in sides]
    shared = {axis for axis in values[0] if all(axis in one for one in values)} - {along} if values else set()
    tied = {axis for axis in shared if kind_of(axis) == kind_of(along) and _apart([one[axis] for one in values])}
    tied |= _parts_of(along, values)
    kept = sorted(shared - tied)
    parts: dict[tuple[str, ...], dict[str, list[CellRow]]] = {}
    for value, side in groups.items():
        for cell in side:
            parts.setdefault(_key(cell.axes, kept), {}).setdefault(value, []).append(cell)
    return [
        dict(zip(part, context.cells, strict=True))
        for part in parts.values()
        for context in match_sides(list(part.values()), {along, *tied}).contexts
    ]


def kind_of(axis: str) -> str:
    """Return what an axis concerns: the workload, a tunable or the stack."""
    kind = axis.partition(".")[0]
    return kind if kind in {"tune", "workload"} else "stack"


def _parts_of(named: str, values: Sequence[Mapping[str, set[str]]]) -> set[str]:
    """Return the axes that the name of a layout or workload determines: one value for each name that has the axis."""
    if named not in {"layout", "workload"}:
        return set()
    axes = {axis for one in values for axis in one if kind_of(axis) == kind_of(named)}
    return {axis for axis in axes if all(len(one[axis]) == 1 for one in values if axis in one)}


def _by_place(cells: Iterable[CellRow], names: Sequence[str]) -> list[list[CellRow]]:
    found: dict[tuple[str, ...], list[CellRow]] = {}
    for cell in cells:
        found.setdefault(_key(cell.axes, names), []).append(cell)
    return [*found.values()]


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
    """Return whether no two sides share a value."""
    return len(values) > 1 and not any(one & other for one, other in combinations(values, 2))
