"""Names of rows from the axes that differ, in natural order: sizes and numbers by value, not by digits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from runner.analysis.axes import ALIASES, is_part, is_tunable, is_workload_axis, names_of, varying_axes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.analysis.axes import Axes

_DIGITS = re.compile(r"(\d+)")
Place = tuple[int, float, str]


@lru_cache(maxsize=4096)
def value_key(value: str) -> Place:
    """Sort sizes, times and numbers before words."""
    from runner.base.quantities import parse_size, parse_time

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
    return tuple(_of_part(part) for part in name.split("/"))


def _of_part(part: str) -> tuple[Place, ...]:
    axis, equals, value = part.partition("=")
    return (*_of_word(axis), *((value_key(value),) if equals else ()))


def _of_word(word: str) -> tuple[Place, ...]:
    return tuple((0, float(one), "") if one.isdecimal() else (1, 0.0, one) for one in _DIGITS.split(word) if one)


#: Axes whose values need no name before them.
_PLAIN = frozenset({"run", "matrix", "layout", "workload"})


@dataclass(frozen=True, slots=True)
class Naming:
    """The naming of the rows of one table."""

    #: The axes of a key.
    names: tuple[str, ...]
    #: Axes with one value in all rows.
    fixed: Mapping[str, str]
    #: Axes that the name of a layout or workload determines, with the value for each name.
    implied: Mapping[str, Mapping[str, Mapping[str, str]]]

    def label(self, key: Sequence[str | None]) -> str:
        """Name a row as cells are named: `random/rw=randread/stripe_unit=64KiB`."""
        left_out = {*self.fixed, *(name for names in self.implied.values() for name in names)}
        shown = {name: one for name, one in zip(self.names, key, strict=True) if one and name not in left_out}
        short = _short(self.names)
        return "/".join(one if name in _PLAIN else f"{short[name]}={one}" for name, one in shown.items()) or "all"

    def notes(self) -> Iterator[str]:
        """Yield notes on what names leave out."""
        fixed = ", ".join(f"{name}={value}" for name, value in self.fixed.items() if name != "synthetic")
        if fixed:
            yield f"in all rows: {fixed}"
        for by, along in self.implied.items():
            yield from describe_determined(by, along)


def naming_of(
    cells: Sequence[Axes], names: Sequence[str], keys: Sequence[Sequence[str | None]], but: Collection[str]
) -> Naming:
    """Name rows by these keys of these cells. `but` is axes that rows do not distinguish."""
    changing = {*varying_axes(cells), *but}
    fixed = {name: value for name, value in (cells[0] if cells else {}).items() if name not in changing}
    for at, name in enumerate(names):
        values = {key[at] for key in keys}
        if len(values) == 1 and (value := values.pop()):
            fixed[name] = value
    implied = {}
    for by in ("layout", "workload"):
        parts = [
            name
            for name in names
            if is_part(name) and is_workload_axis(name) == is_workload_axis(by) and name not in fixed
        ]
        implied[by] = determined_axes(cells, by, parts) if by in names and by not in fixed else {}
    return Naming(tuple(names), fixed, implied)


def determined_axes(cells: Sequence[Axes], by: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the axes with one value for each value of another axis, with these values."""
    found = {}
    for name in names:
        pairs = {(axes.get(by), axes.get(name)) for axes in cells}
        if len(pairs) == len({value for value, _ in pairs}):
            found[name] = {value: theirs for value, theirs in pairs if value is not None and theirs is not None}
    return found


def describe_determined(axis: str, along: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Describe what each value of an axis determines."""
    told = "; ".join(f"{name} {_grouped(values)}" for name, values in along.items())
    return (f"goes with {axis}: {told}",) if told else ()


def alias_notes(cells: Sequence[Axes], declared: Iterable[Axes]) -> tuple[str, ...]:
    """Note which axes appear under a shared name."""
    there, names = {*names_of(cells)}, {*names_of(declared)}
    return tuple(
        f"{alias} is {' or '.join(name for name in members if name in names)}"
        for alias, members in ALIASES.items()
        if alias in there and alias not in names
    )


def _grouped(values: Mapping[str, str]) -> str:
    """List each value once, with the names that have it."""
    grouped: dict[str, list[str]] = {}
    for value, theirs in sorted(values.items(), key=lambda item: value_key(item[0])):
        grouped.setdefault(theirs, []).append(value)
    return ", ".join(f"{theirs} ({', '.join(names)})" for theirs, names in grouped.items())


def _short(names: Sequence[str]) -> dict[str, str]:
    """Shorten names as in cell names, where that is clear."""
    short = {name: name.removeprefix("tune.") if is_tunable(name) else name.rpartition(".")[2] for name in names}
    taken = list(short.values())
    return {name: one if taken.count(one) == 1 else name for name, one in short.items()}
