"""Names of rows from the axes that differ, in natural order, and explanations for two sides without common cells."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from runner.analysis.axes import (
    ALIASES,
    DEFAULT,
    grouped,
    is_part,
    is_tunable,
    is_workload_axis,
    keys_of,
    may_lack,
    names_of,
    side_by_side,
    tunables_with_default,
    varying_axes,
)
from runner.space.notes import few

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from runner.analysis.axes import Axes, Key
    from runner.results.record import CellRow

_DIGITS = re.compile(r"(\d+)")
Place = tuple[int, float, str]


@lru_cache(maxsize=4096)
def value_key(value: str) -> Place:
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
    return tuple(map(_part_key, name.split("/")))


def _part_key(part: str) -> tuple[Place, ...]:
    axis, equals, value = part.partition("=")
    words = [(0, float(one), "") if one.isdecimal() else (1, 0.0, one) for one in _DIGITS.split(axis) if one]
    return (*words, *((value_key(value),) if equals else ()))


#: Axes whose values need no name before them.
_PLAIN = frozenset({"run", "matrix", "layout", "workload"})


@dataclass(frozen=True, slots=True)
class Naming:
    #: The axes of a key.
    names: tuple[str, ...]
    #: Axes with one value in all rows.
    fixed: Mapping[str, str]
    #: Axes that the name of a layout or workload determines, with the value for each name.
    implied: Mapping[str, Mapping[str, Mapping[str, str]]]

    def label(self, key: Sequence[str | None]) -> str:
        left_out = {*self.fixed, *(name for names in self.implied.values() for name in names)}
        shown = {name: one for name, one in zip(self.names, key, strict=True) if one and name not in left_out}
        short = {
            name: name.removeprefix("tune.") if is_tunable(name) else name.rpartition(".")[2] for name in self.names
        }
        counts = Counter(short.values())
        labels = {name: one if counts[one] == 1 else name for name, one in short.items()}
        return "/".join(one if name in _PLAIN else f"{labels[name]}={one}" for name, one in shown.items()) or "all"

    def notes(self) -> Iterator[str]:
        fixed = ", ".join(f"{name}={value}" for name, value in self.fixed.items() if name != "synthetic")
        if fixed:
            yield f"in all rows: {fixed}"
        for by, along in self.implied.items():
            yield from describe_determined(by, along)


def naming_of(
    cells: Sequence[Axes], names: Sequence[str], keys: Sequence[Sequence[str | None]], but: Collection[str]
) -> Naming:
    changing = {*varying_axes(cells), *but}
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
    """Return the axes that the name of a layout or workload can determine."""
    return [name for name in names if is_part(name) and is_workload_axis(name) == is_workload_axis(by)]


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
    shown, names = {*names_of(cells)}, {*names_of(declared)}
    return tuple(
        f"{alias} is {' or '.join(name for name in members if name in names)}"
        for alias, members in ALIASES.items()
        if alias in shown and alias not in names
    )


#: Differences of runs that can change cells of the same name.
_CELL_FACTS = ("seed", "disk", "digest.matrix")


def unrelated_runs(cells: Mapping[str, AbstractSet[str]], declared: AbstractSet[str]) -> list[str]:
    """Return the runs without any declared cell, with the ids of their cells.

    Empty if all runs share a cell: then they are of one matrix, in an earlier state.
    """
    if len(cells) < 2 or frozenset.intersection(*map(frozenset, cells.values())):
        return []
    return [name for name, ids in cells.items() if not ids & declared]


def explain_same_names(
    left: Sequence[CellRow], right: Sequence[CellRow], facts_apart: Iterable[tuple[str, str, str]]
) -> tuple[str, str]:
    """Explain why cells of one name differ, and what to do. Their ids cover all resolved values.

    Empty if that is not the reason. `facts_apart` is the differences of the runs.
    """
    a, b = ({cell.name: cell.axes for cell in side} for side in (left, right))
    alike = sorted(a.keys() & b.keys())
    if not alike or {cell.id for cell in left} & {cell.id for cell in right}:
        return "", ""
    axes = {
        axis: f"{a[name].get(axis, 'none')} → {b[name].get(axis, 'none')}"
        for name in alike
        for axis in {**a[name], **b[name]}
        if a[name].get(axis) != b[name].get(axis)
    }
    facts = {name: f"{one} → {other}" for name, one, other in facts_apart if name.startswith(_CELL_FACTS)}
    if axes or len(facts) > 1:
        facts.pop("digest.matrix", None)  # it only shows that something differs
    changes = [f"{name}: {change}" for name, change in {**axes, **facts}.items()]
    what = few(changes, 4) if changes else "in a value that the store does not have"
    seed = "give both runs one `seed:`: simulated disks take the position of their platters from it"
    count = f"{len(alike):,} cell{'s have' if len(alike) != 1 else ' has'}"
    return (
        f"{count} the same name on both sides but another id, as what it resolves to differs: {what}",
        seed if "seed" in facts and not axes else "compare runs of one matrix on the same disks",
    )


def differing_axes(columns: Iterable[Sequence[Axes]], names: Iterable[str]) -> dict[str, list[list[str]]]:
    """Return the axes on which no two columns share a value, with the values of each. A layer's axis may be lacking."""
    every = list(columns)
    defaults = tunables_with_default(axes for column in every for axes in column)
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


def common_choice(
    axis: str, columns: Mapping[str, Sequence[Axes]], apart: Mapping[str, Sequence[Sequence[str]]]
) -> str:
    """Return options that choose matching cells; empty if only another workload would help, or there are none.

    With one value in each column, an axis changes along with the compared one.
    """
    if not apart or not all(is_part(name) and not is_workload_axis(name) for name in apart):
        return ""
    chosen = [
        {axis: value, **{name: values[at][0] for name, values in apart.items() if values[at]}}
        for at, value in enumerate(columns)
    ]
    kept = [
        [axes for axes in column if all(axes.get(name) == one for name, one in rule.items())]
        for column, rule in zip(columns.values(), chosen, strict=True)
    ]
    matched = share_a_row(kept, axis)
    if not matched or any({*"|,="} & {*value} for rule in chosen for value in rule.values()):
        return ""
    rules = (",".join(f"{name}={value}" for name, value in rule.items()) for rule in chosen)
    return " ".join(f"--only {shlex.quote(rule)}" for rule in rules) + "  in place of any other --only"


def share_a_row(columns: Sequence[Sequence[Axes]], axis: str) -> bool:
    """Return whether cells of two columns agree on all axes that the compared one does not determine."""
    cells = [axes for column in columns for axes in column]
    names = varying_axes(cells, {axis})
    along = determined_axes(cells, axis, names)
    keys = iter(keys_of(cells, [name for name in names if name not in along], [""] * len(cells)))
    rows = side_by_side([[(next(keys), 0) for _ in column] for column in columns])
    return any(sum(map(bool, row.columns)) > 1 for row in rows)


def describe_absences(placed: Iterable[tuple[str, Axes, Key]], names: Sequence[str]) -> Iterator[str]:
    """Describe which cells lack an axis of the rows, and in which rows they therefore appear.

    `placed` has the compared value, the axes of a cell, and the key of its row.
    """
    lacking: dict[tuple[str, bool], dict[str, None]] = {}
    for value, axes, key in placed:
        for name, position in zip(names, key, strict=True):
            if position and name not in axes and may_lack(name):
                as_default = is_tunable(name) and position == DEFAULT
                lacking.setdefault((name, as_default), {})[value] = None
    for (name, as_default), values in lacking.items():
        what = f"count as {DEFAULT}" if as_default else "are in the row of each value"
        yield f"cells of {few(values)} without {name} {what}"
