"""Axes of cells under the names that layers share, and rows of several columns that agree on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

T = TypeVar("T")
K = TypeVar("K", bound="Hashable")
#: A position on each of some axes; None agrees with every position.
Key = tuple[str | None, ...]
#: The most rows of one combination that a table can have.
MOST = 1000


def grouped(keyed: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = {}
    for key, item in keyed:
        found.setdefault(key, []).append(item)
    return found


class TooManyRows(Exception):
    """Items lack so many positions that the combinations are too many."""


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    key: Key
    columns: tuple[tuple[T, ...], ...]


def side_by_side(columns: Sequence[Sequence[tuple[Key, T]]]) -> list[Row[T]]:
    """Return the rows: items of two columns share one if they agree on all positions that both have.

    An item that lacks a position is in the row of each item that it agrees with. Every item is in a row.
    """
    keys = list(dict.fromkeys(key for column in columns for key, _ in column))
    open_places = {place for key in keys for place, value in enumerate(key) if value is None}
    groups: dict[Key, tuple[list[Key], list[list[tuple[Key, T]]]]] = {}

    def group_of(key: Key) -> tuple[list[Key], list[list[tuple[Key, T]]]]:
        fixed = tuple(None if place in open_places else value for place, value in enumerate(key))
        return groups.setdefault(fixed, ([], [[] for _ in columns]))

    for key in keys:
        group_of(key)[0].append(key)
    for number, column in enumerate(columns):
        for key, item in column:
            group_of(key)[1][number].append((key, item))
    return [
        Row(key, tuple(tuple(item for own, item in column if _merged(own, key) == key) for column in items))
        for own_keys, items in groups.values()
        for key in combinations(own_keys)
    ]


def combinations(keys: Iterable[Key]) -> list[Key]:
    given = list(dict.fromkeys(keys))
    seen, waiting, complete = set(given), list(given), []
    while waiting:
        key = waiting.pop(0)
        grown = [more for one in given if (more := _merged(key, one)) is not None and more != key]
        if not grown:
            complete.append(key)
        for more in grown:
            if more not in seen:
                seen.add(more)
                waiting.append(more)
        if len(seen) > MOST:
            raise TooManyRows
    return complete


def _merged(one: Key, other: Key) -> Key | None:
    """Return the positions of both; None if they differ in one."""
    if any(None not in pair and pair[0] != pair[1] for pair in zip(one, other, strict=True)):
        return None
    return tuple(left if left is not None else right for left, right in zip(one, other, strict=True))


Axes: TypeAlias = "Mapping[str, str]"

#: A setting, with its name in each kind of layer.
ALIASES = {"stripe_unit": ("md.chunk", "lvm.stripe_size"), "width": ("md.devices", "lvm.stripes")}
#: The declared value of a tunable that keeps the setting of the kernel.
DEFAULT = "default"


def aliases_of(axes: Axes) -> dict[str, str]:
    """Return the settings of a cell by shared names. A name is absent if two layers of the cell have it."""
    found = {}
    for alias, names in ALIASES.items():
        there = [name for name in names if name in axes]
        if len(there) == 1 and alias not in axes:
            found[alias] = axes[there[0]]
    return found


def with_aliases(axes: Axes) -> Axes:
    return {**axes, **aliases_of(axes)}


def common_aliases(cells: Iterable[Axes]) -> list[str]:
    """Return the shared names that unite axes of these cells. A cell with two axes of one name prevents that."""
    kinds = {tuple(name for names in ALIASES.values() for name in names if name in axes) for axes in cells}
    found = []
    for alias, names in ALIASES.items():
        there = [{*names} & {*kind} for kind in kinds]
        if all(len(one) < 2 for one in there) and len(set().union(*there)) > 1:
            found.append(alias)
    return found


def under_aliases(cells: Sequence[Axes], aliases: Collection[str]) -> list[Axes]:
    renamed = {name: alias for alias in aliases for name in ALIASES.get(alias, ())}
    return [{renamed.get(name, name): value for name, value in axes.items()} for axes in cells] if renamed else [*cells]


def unite_axes(cells: Sequence[Axes], named: Collection[str]) -> list[Axes]:
    """Replace axes by their shared names if these unite cells or are `named`. Other named axes stay."""
    asked = [alias for alias in ALIASES if alias in named]
    free = [alias for alias in common_aliases(cells) if not {*ALIASES[alias]} & {*named}]
    return under_aliases(cells, {*asked, *free})


def is_workload_axis(axis: str) -> bool:
    return axis.partition(".")[0] == "workload"


def is_tunable(axis: str) -> bool:
    return axis.startswith("tune.")


def may_lack(axis: str) -> bool:
    """Return whether a stack may lack an axis: those of layers and tunables."""
    return axis in ALIASES or ("." in axis and not is_workload_axis(axis))


def names_of(cells: Iterable[Axes]) -> list[str]:
    return list(dict.fromkeys(name for axes in cells for name in axes))


def varying_axes(cells: Sequence[Axes], but: Collection[str] = ()) -> list[str]:
    return [name for name in names_of(cells) if name not in but and len({axes.get(name) for axes in cells}) > 1]


def tunables_with_default(cells: Iterable[Axes]) -> set[str]:
    return {name for axes in cells for name, value in axes.items() if value == DEFAULT and is_tunable(name)}


def keys_of(cells: Sequence[Axes], names: Sequence[str], runs: Sequence[str]) -> list[Key]:
    """Return the position of each cell on some axes. None means that the stack lacks the axis, which then distinguishes
    no cells.

    A missing tunable counts as `default` if any cell has that value. Runs of a matrix may have had other axes: an axis
    that a run lacks, and that other cells of the layout have, is unknown, not lacking.
    """
    defaults = tunables_with_default(cells)
    in_run = {(run, name) for run, axes in zip(runs, cells, strict=True) for name in axes}
    in_layout = {(axes.get("layout"), name) for axes in cells for name in axes}

    def place(run: str, axes: Axes, name: str) -> str | None:
        if name in axes:
            return axes[name]
        if not may_lack(name) or ((run, name) not in in_run and (axes.get("layout"), name) in in_layout):
            return ""
        return DEFAULT if name in defaults else None

    return [tuple(place(run, axes, name) for name in names) for run, axes in zip(runs, cells, strict=True)]


def in_reading_order(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != "layout", not is_workload_axis(name), is_tunable(name)))


def is_part(axis: str) -> bool:
    """Return whether an axis belongs to a layer or the workload, and is no name, tunable or kernel."""
    return axis in ALIASES or ("." in axis and not is_tunable(axis))
