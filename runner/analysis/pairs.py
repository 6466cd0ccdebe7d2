"""Pairs of cells of two sides that differ only in the compared axis."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from runner.analysis.axes import (
    MOST,
    TooManyRows,
    grouped,
    in_reading_order,
    is_workload_axis,
    keys_of,
    may_lack,
    names_of,
    side_by_side,
    unite_axes,
    varying_axes,
    with_aliases,
)
from runner.analysis.naming import (
    alias_notes,
    common_choice,
    describe_absences,
    describe_differences,
    differing_axes,
    explain_same_names,
    naming_of,
    share_a_row,
)
from runner.analysis.operands import BY_ID, KINDS, Side, axis_of
from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from runner.analysis.axes import Axes, Key, Row
    from runner.analysis.samples import Samples

    #: One cell, in one run or several.
    Several: TypeAlias = Sequence[Samples]


_OTHER_CELLS = "compare by one of these axes, or choose cells with --only"


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    left: Several
    right: Several


@dataclass(frozen=True, slots=True)
class Pairs:
    found: Sequence[Pair]
    alone: tuple[Sequence[Several], Sequence[Several]]
    notes: tuple[str, ...] = ()
    #: Without pairs: the axes on which no two cells agree, and what to do.
    why: tuple[str, str] = ("", "")


def pairs_of(kind: str, a: Side, b: Side, facts_apart: Iterable[tuple[str, str, str]] = ()) -> Pairs:
    """Match the cells of two sides.

    Equal ids match, unless the id covers the compared axis or kernel. Then cells of one matrix match if they agree on
    all other common axes. `facts_apart` is the differences of the runs.
    """
    if kind in BY_ID:
        return _by_id(a, b, facts_apart)
    axis = axis_of(kind, (a, b))
    parts: list[Pairs] = []
    left, right = (Side(side.name, [one for one in side.found if not _has(one, axis)]) for side in (a, b))
    if left.found or right.found:
        parts.append(_by_id(left, right, facts_apart))
    having = [[one for one in side.found if _has(one, axis)] for side in (a, b)]
    matrices = list(dict.fromkeys(one.run.matrix for side in having for one in side))
    for matrix in matrices:
        one, other = (
            Side(side.name, [cell for cell in cells if cell.run.matrix == matrix])
            for side, cells in zip((a, b), having, strict=True)
        )
        parts.append(_by_axis(axis, one, other, matrix if len(matrices) > 1 else ""))
    whys = [part.why for part in parts if any(part.why)]
    return Pairs(
        [pair for part in parts for pair in part.found],
        ([one for part in parts for one in part.alone[0]], [one for part in parts for one in part.alone[1]]),
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        _of_matrices(a, b) or (whys[0] if whys else ("", "")),
    )


def _has(one: Samples, axis: str) -> bool:
    return axis in with_aliases(one.cell.axes)


def _of_matrices(a: Side, b: Side) -> tuple[str, str] | None:
    """Refuse to match cells of different matrices by axes."""
    names = [sorted({run.matrix for run in side.runs}) for side in (a, b)]
    if not all(names) or {*names[0]} & {*names[1]}:
        return None
    sides = "; ".join(f"{side.name}: {', '.join(name)}" for side, name in zip((a, b), names, strict=True))
    return f"they are of different matrices: {sides}", "name runs of one matrix with --runs"


def _by_id(a: Side, b: Side, facts_apart: Iterable[tuple[str, str, str]]) -> Pairs:
    left, right = (grouped((one.cell.id, one) for one in side.found) for side in (a, b))
    found = [Pair(side[0].cell.name, side, right[key]) for key, side in left.items() if key in right]
    alone = (
        [side for key, side in left.items() if key not in right],
        [side for key, side in right.items() if key not in left],
    )
    if found:
        return Pairs(found, alone)
    why = explain_same_names([one.cell for one in a.found], [one.cell for one in b.found], facts_apart)
    return Pairs(found, alone, why=why if any(why) else _other_runs(a, b))


def _other_runs(a: Side, b: Side) -> tuple[str, str]:
    sides = [[one.cell.axes for one in side.found] for side in (a, b)]
    apart = differing_axes(sides, names_of([*sides[0], *sides[1]]))
    if not apart:
        return "", ""
    for axis, (left, right) in apart.items():
        if len(left) == len(right) == 1 and may_lack(axis) and share_a_row(sides, axis):
            words = ("matrix", "compare", "--by", axis, left[0], right[0], "--runs", f"{a.name},{b.name}")
            return describe_differences(apart), f"compare by the axis:  {shlex.join(words)}"
    return describe_differences(apart), _OTHER_CELLS


def _by_axis(axis: str, a: Side, b: Side, matrix: str) -> Pairs:
    every, middle = [*a.found, *b.found], len(a.found)
    cells = unite_axes([one.cell.axes for one in every], {axis})
    bound = tied_axes(axis, cells[:middle], cells[middle:])
    places = in_reading_order([name for name in varying_axes(cells, {axis}) if name not in bound])
    keys = keys_of(cells, places, [one.run.id for one in every])
    columns = [
        [*grouped(zip(keys[:middle], a.found, strict=True)).items()],
        [*grouped(zip(keys[middle:], b.found, strict=True)).items()],
    ]
    try:
        rows = [row for row in side_by_side(columns) if all(row.columns)]
    except TooManyRows:
        raise BadInput(
            f"more than {MOST:,} pairs of cells",
            details=f"not all cells have {', '.join(name for name in places if may_lack(name))}",
            resolution="choose some cells with --only",
        ) from None
    naming = naming_of(cells, places, [row.key for row in rows], but={axis, *bound})
    pairs: dict[tuple[int, int], Pair] = {}
    for row in rows:
        name = "/".join(filter(None, (matrix, naming.label(row.key))))
        for one, other in product(*row.columns):
            pairs.setdefault((id(one), id(other)), Pair(name, one, other))
    used = {key for pair in pairs for key in pair}
    alone = [[several for _, several in column if id(several) not in used] for column in columns]
    if not pairs:
        sides = {a.name: cells[:middle], b.name: cells[middle:]}
        apart = differing_axes(sides.values(), places)
        choice = common_choice(axis, sides, apart)
        resolution = f"choose cells with  {choice}" if choice else _OTHER_CELLS
        return Pairs((), (alone[0], alone[1]), why=(describe_differences(apart), resolution))
    changes = ", ".join(f"{name} ({one or 'none'} → {other or 'none'})" for name, (one, other) in bound.items())
    along = f"changes along with {axis}, and is compared with it: {changes}" if changes and axis not in KINDS else ""
    axes_of = {id(one): axes for one, axes in zip(every, cells, strict=True)}
    notes = (
        along,
        *naming.notes(),
        *alias_notes(cells, (one.cell.axes for one in every)),
        *describe_absences(_placed(rows, (a.name, b.name), axes_of), places),
    )
    return Pairs([*pairs.values()], (alone[0], alone[1]), tuple(filter(None, notes)))


def _placed(
    rows: Iterable[Row[list[Samples]]], names: tuple[str, str], axes_of: Mapping[int, Axes]
) -> Iterator[tuple[str, Axes, Key]]:
    for row in rows:
        for name, column in zip(names, row.columns, strict=True):
            yield from ((name, axes_of[id(several[0])], row.key) for several in column)


def tied_axes(axis: str, left: Sequence[Axes], right: Sequence[Axes]) -> dict[str, tuple[str, str]]:
    """Return the axes with one value on each side that differs.

    They change with the compared axis (the level with the name of a layout) and count as part of it. A workload axis
    never counts as part of the stack, nor the reverse: that would compare two things at once.
    """
    found = {}
    for name in sorted({*names_of([*left, *right])} - {axis}):
        one, other = ({axes.get(name, "") for axes in side} for side in (left, right))
        if is_workload_axis(name) == is_workload_axis(axis) and len(one) == len(other) == 1 and one != other:
            found[name] = (one.pop(), other.pop())
    return found
