"""Axes of cells under the names that layers share, rows of cells that agree on them, and the names of rows."""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite
from typing import Generic, TypeAlias, TypeVar

from matrix_runner.base.findings import few
from matrix_runner.base.quantities import parse_percent, parse_size, parse_time

T = TypeVar("T")
K = TypeVar("K", bound="Hashable")
Key = tuple[str | None, ...]  # a position on each of some axes; None agrees with every position
MOST = 1000  # the most rows of one combination that a table can have


def grouped(keyed: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = {}
    for key, item in keyed:
        found.setdefault(key, []).append(item)
    return found


class TooManyRows(Exception):
    """Items lack so many positions that the combinations are too many."""


@dataclass(slots=True)  # not frozen: there may be 50,000
class Row(Generic[T]):
    key: Key
    columns: tuple[tuple[T, ...], ...]


def side_by_side(columns: Sequence[Sequence[tuple[Key, T]]]) -> list[Row[T]]:
    """Return the rows. Items share one if they agree on all positions that both have, so an item may be in several."""
    keys = list(dict.fromkeys(key for column in columns for key, _ in column))
    if not any(None in key for key in keys):  # items agree only on equal keys
        by_key = [grouped(column) for column in columns]
        return [Row(key, tuple([tuple(column.get(key, ())) for column in by_key])) for key in keys]
    open_places = {place for key in keys for place, value in enumerate(key) if value is None}

    def fixed(key: Key) -> Key:
        return tuple(None if place in open_places else value for place, value in enumerate(key))

    # Only items of one group can agree.
    by_group = [grouped((fixed(key), (key, item)) for key, item in column) for column in columns]
    rows: list[Row[T]] = []
    for group, own_keys in grouped((fixed(key), key) for key in keys).items():
        for key in combinations(own_keys):
            members = ([item for own, item in column.get(group, ()) if _merged(own, key) == key] for column in by_group)
            rows.append(Row(key, tuple(map(tuple, members))))
    return rows


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
    if any(None not in pair and pair[0] != pair[1] for pair in zip(one, other, strict=True)):
        return None
    return tuple(left if left is not None else right for left, right in zip(one, other, strict=True))


Axes: TypeAlias = "Mapping[str, str]"

#: A setting, with its name in each kind of layer.
ALIASES = {"stripe_unit": ("md.chunk", "lvm.stripe_size"), "width": ("md.devices", "lvm.stripes")}
DEFAULT = "default"  # the declared value of a tunable that keeps the setting of the kernel


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


def axis_values(cells: Iterable[Axes], axis: str) -> list[str | None]:
    """Return the value of each cell on an axis by its own or a shared name."""
    if axis in ALIASES:
        return [axes.get(axis, aliases_of(axes).get(axis)) for axes in cells]
    return [axes.get(axis) for axes in cells]  # no call for each of 100,000 cells


def values_by_axis(cells: Iterable[Axes]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for axes in cells:
        for axis, value in axes.items():
            found.setdefault(axis, set()).add(value)
    return found


def common_aliases(cells: Iterable[Axes]) -> list[str]:
    """Return the shared names that unite axes of these cells. A cell with two axes of one name prevents that."""
    kinds = _kinds(cells)
    found = []
    for alias, names in ALIASES.items():
        there = [{*names}.intersection(kind) for kind in kinds]
        if all(len(one) < 2 for one in there) and len(set().union(*there)) > 1:
            found.append(alias)
    return found


def unite_axes(cells: Sequence[Axes], named: Collection[str]) -> list[Axes]:
    """Replace axes by their shared names if these unite cells or are `named`. Other named axes stay."""
    asked = [alias for alias in ALIASES if alias in named]
    free = [alias for alias in common_aliases(cells) if not {*ALIASES[alias]} & {*named}]
    renamed = {name: alias for alias in (*asked, *free) for name in ALIASES[alias]}
    if not renamed:
        return [*cells]
    return [{renamed.get(name, name): value for name, value in axes.items()} for axes in cells]


def is_workload_axis(axis: str) -> bool:
    return axis.partition(".")[0] == "workload"


def is_tunable(axis: str) -> bool:
    return axis.startswith("tune.")


def may_lack(axis: str) -> bool:
    return axis in ALIASES or ("." in axis and not is_workload_axis(axis))


def _kinds(cells: Iterable[Axes]) -> Collection[tuple[str, ...]]:
    """Return the different combinations of axes: many cells have the same."""
    return dict.fromkeys(map(tuple, cells))


def names_of(cells: Iterable[Axes]) -> list[str]:
    return list(dict.fromkeys(name for kind in _kinds(cells) for name in kind))


def varying_axes(cells: Sequence[Axes], but: Collection[str] = ()) -> list[str]:
    return [name for name in names_of(cells) if name not in but and not is_constant(cells, name)]


def lack_any(cells: Sequence[Axes], names: Collection[str]) -> bool:
    return any(not {*names} <= {*kind} for kind in _kinds(cells))


def is_constant(cells: Sequence[Axes], name: str) -> bool:
    # In a complete matrix, the last cell has another value on each axis.
    return bool(cells) and cells[0].get(name) == cells[-1].get(name) and len({axes.get(name) for axes in cells}) == 1


def tunables_with_default(cells: Sequence[Axes]) -> set[str]:
    tunables = filter(is_tunable, names_of(cells))
    return {name for name in tunables if any(axes.get(name) == DEFAULT for axes in cells)}


def keys_of(cells: Sequence[Axes], names: Sequence[str], runs: Sequence[str]) -> list[Key]:
    """Return the position of each cell on some axes; None if the stack lacks the axis, which then separates no cells.

    A missing tunable counts as `default` if any cell has that value. An axis that a run lacks, and that other cells of
    the layout have, is unknown, not lacking: runs of a matrix may have had other axes.
    """
    keys: list[Key] = [tuple(map(axes.get, names)) for axes in cells]
    if not any(None in key for key in keys):
        return keys
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


NUMBERED = {"md.level"}  # axes whose numbers are names


def number_of(value: str) -> float | None:
    for parse in (float, parse_size, parse_percent, parse_time):
        try:
            return float(parse(value))
        except (ValueError, TypeError):
            continue
    return None


def finite_number(value: str) -> float | None:
    found = number_of(value)
    return found if found is not None and isfinite(found) and abs(found) < 1e18 else None


def in_order(values: Iterable[str]) -> list[str]:
    """Return numbers in numeric order, then words in the order in which they were declared."""
    return sorted(dict.fromkeys(values), key=number_key)


def number_key(value: str) -> tuple[bool, float]:
    number = finite_number(value)
    return number is None, number or 0.0


def is_numeric(axis: str, values: Iterable[str]) -> bool:
    return axis not in NUMBERED and all(finite_number(value) is not None for value in values)


_DIGITS = re.compile(r"(\d+)")
Place = tuple[int, float, str]


@lru_cache(maxsize=4096)
def value_key(value: str) -> Place:
    for number in (float, parse_size, parse_time):
        try:
            return 0, float(number(value)), value
        except (ValueError, TypeError):
            continue
    return 1, 0.0, value


def declared_key(value: str) -> tuple[int, float]:
    """Sort numbers by value, and keep the order of words, because sorts are stable."""
    return value_key(value)[:2]


@lru_cache(maxsize=65536)
def name_key(name: str) -> tuple[tuple[Place, ...], ...]:
    """Sort cell names part by part: `raid5/chunk=16KiB/…` after `raid5/chunk=4KiB/…`, and before `raid10/…`."""
    return tuple(map(_part_key, name.split("/")))


def _part_key(part: str) -> tuple[Place, ...]:
    axis, equals, value = part.partition("=")
    words = [(0, float(one), "") if one.isdecimal() else (1, 0.0, one) for one in _DIGITS.split(axis) if one]
    return (*words, *((value_key(value),) if equals else ()))


_PLAIN = frozenset({"run", "matrix", "layout", "workload"})  # axes whose values need no name before them


@dataclass(frozen=True)
class Naming:
    names: tuple[str, ...]
    fixed: Mapping[str, str]
    #: Axes that the name of a layout or workload determines, with the value for each name.
    implied: Mapping[str, Mapping[str, Mapping[str, str]]]

    def label(self, key: Sequence[str | None]) -> str:
        return "/".join([f"{label}{one}" for at, label in self._labels if (one := key[at])]) or "all"

    @cached_property
    def _labels(self) -> Sequence[tuple[int, str]]:
        """The positions of the axes that a name has, and the text before their values."""
        short = {
            name: name.removeprefix("tune.") if is_tunable(name) else name.rpartition(".")[2] for name in self.names
        }
        counts = Counter(short.values())
        left_out = {*self.fixed, *(name for names in self.implied.values() for name in names)}
        return [
            (at, "" if name in _PLAIN else f"{short[name] if counts[short[name]] == 1 else name}=")
            for at, name in enumerate(self.names)
            if name not in left_out
        ]

    def notes(self) -> Iterator[str]:
        fixed = ", ".join(f"{name}={value}" for name, value in self.fixed.items() if name != "synthetic")
        if fixed:
            yield f"in all rows: {fixed}"
        for by, along in self.implied.items():
            yield from describe_determined(by, along)


def naming_of(
    cells: Sequence[Axes], names: Sequence[str], keys: Sequence[Sequence[str | None]], but: Collection[str]
) -> Naming:
    changing = {*names, *but}
    fixed = {name: value for name, value in (cells[0] if cells else {}).items() if name not in changing}
    for at, name in enumerate(names):
        values = {key[at] for key in keys}
        if len(values) == 1 and (value := values.pop()):
            fixed[name] = value
    implied = {}
    for by in ("layout", "workload"):
        parts = [name for name in parts_of(by, names) if name not in fixed]
        implied[by] = determined_axes(cells, by, parts) if by in names and by not in fixed else {}
    return Naming(tuple(names), fixed, implied)


def parts_of(by: str, names: Iterable[str]) -> list[str]:
    parts = (name for name in names if name in ALIASES or ("." in name and not is_tunable(name)))
    return [name for name in parts if is_workload_axis(name) == is_workload_axis(by)]


def determined_axes(cells: Sequence[Axes], by: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    found = {}
    for name in names:
        pairs = {(axes.get(by), axes.get(name)) for axes in cells}
        if len(pairs) == len({value for value, _ in pairs}):
            found[name] = {value: theirs for value, theirs in pairs if value is not None and theirs is not None}
    return found


def describe_determined(axis: str, along: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    axes = []
    for name, values in along.items():
        by_value = grouped((values[by], by) for by in sorted(values, key=value_key))
        axes.append(f"{name} " + ", ".join(f"{value} ({', '.join(names)})" for value, names in by_value.items()))
    return (f"goes with {axis}: {'; '.join(axes)}",) if axes else ()


def alias_notes(cells: Sequence[Axes], declared: Iterable[Axes]) -> tuple[str, ...]:
    shown = ALIASES.keys() & names_of(cells)
    names = {*names_of(declared)} if shown else set()
    return tuple(
        f"{alias} is {' or '.join(name for name in members if name in names)}"
        for alias, members in ALIASES.items()
        if alias in shown and alias not in names
    )


def unrelated_runs(cells: Mapping[str, AbstractSet[str]], declared: AbstractSet[str]) -> list[str]:
    """Return the runs without any declared cell. Runs that all share one are of an earlier state of the matrix."""
    if len(cells) < 2 or frozenset.intersection(*map(frozenset, cells.values())):
        return []
    return [name for name, ids in cells.items() if not ids & declared]


def differing_axes(columns: Iterable[Sequence[Axes]], names: Iterable[str]) -> dict[str, list[list[str]]]:
    every = list(columns)
    defaults = tunables_with_default([axes for column in every for axes in column])
    found = {}
    for name in names:
        absent = DEFAULT if name in defaults else "none"
        sets = [{axes.get(name, absent) for axes in column} for column in every]
        known = [one - {"none"} if may_lack(name) else one for one in sets]
        some = [one for one in known if one]
        if len(some) > 1 and sum(map(len, some)) == len(set().union(*some)):
            found[name] = [sorted(one, key=value_key) for one in known]
    return found


def describe_differences(apart: Mapping[str, Sequence[Sequence[str]]]) -> str:
    if not apart:
        return "they share single values, but no combination"
    axes = (f"{name} ({' → '.join(few(one, 4) or 'none' for one in values)})" for name, values in apart.items())
    return f"they differ in {', '.join(axes)}"


def share_a_row(columns: Sequence[Sequence[Axes]], axis: str) -> bool:
    cells = [axes for column in columns for axes in column]
    names = varying_axes(cells, {axis})
    along = determined_axes(cells, axis, names)
    keys = iter(keys_of(cells, [name for name in names if name not in along], [""] * len(cells)))
    rows = side_by_side([[(next(keys), 0) for _ in column] for column in columns])
    return any(sum(map(bool, row.columns)) > 1 for row in rows)


def describe_absences(placed: Iterable[tuple[str, Axes, Key]], names: Sequence[str]) -> Iterator[str]:
    """Describe which cells lack an axis; `placed` has the compared value, the axes of a cell, and its row's key."""
    lacking: dict[tuple[str, bool], dict[str, None]] = {}
    lackable = [(at, name) for at, name in enumerate(names) if may_lack(name)]
    for value, axes, key in placed:
        for at, name in lackable:
            if name not in axes and (position := key[at]):
                as_default = is_tunable(name) and position == DEFAULT
                lacking.setdefault((name, as_default), {})[value] = None
    for (name, as_default), values in lacking.items():
        what = f"count as {DEFAULT}" if as_default else "are in the row of each value"
        yield f"cells of {few(values)} without {name} {what}"
