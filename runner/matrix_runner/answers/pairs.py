"""The sides of a comparison, and pairs of their cells that differ only in the compared axis."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from matrix_runner.answers.axes import (
    MOST,
    Axes,
    Key,
    Row,
    TooManyRows,
    alias_notes,
    axis_values,
    describe_absences,
    describe_differences,
    differing_axes,
    grouped,
    in_reading_order,
    is_workload_axis,
    keys_of,
    lack_any,
    may_lack,
    names_of,
    naming_of,
    share_a_row,
    side_by_side,
    unite_axes,
    value_key,
    varying_axes,
)
from matrix_runner.answers.selectors import full_name, runs_named
from matrix_runner.answers.stored_samples import Samples, kernels_of
from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import few
from matrix_runner.language.suggestions import few_names
from matrix_runner.records.files import split_owner
from matrix_runner.records.record import EQUAL

if TYPE_CHECKING:
    from matrix_runner.records.record import CellRow
    from matrix_runner.records.store import RunRow

Several: TypeAlias = Sequence[Samples]


KINDS = ("run", "kernel", "host", "revision")  # the possible kinds of sides, besides an axis
BY_ID = frozenset({"run", "host", "revision"})  # kinds whose cells match by id only
_KERNEL_AXIS = "kernel"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Side:
    name: str
    found: Sequence[Samples]

    @cached_property
    def runs(self) -> list[RunRow]:
        return list({one.run.id: one.run for one in self.found}.values())

    @cached_property
    def kernels(self) -> set[str]:
        return kernels_of(self.found)


def runs_of(kind: str, word: str, runs: Sequence[RunRow]) -> list[RunRow]:
    if kind == "run":
        return runs_named(word, runs)
    if kind == "host":
        return _some([run for run in runs if run.host == word], kind, word, {run.host for run in runs})
    if kind == "revision":
        fitting = [run for run in runs if len(word) >= 4 and run.revision.startswith(word)]
        return _some(fitting, kind, word, {run.revision[:12] for run in runs})
    return list(runs)


def side_of(kind: str, word: str, found: Sequence[Samples]) -> Side:
    if kind in BY_ID:
        return Side(word, found)
    if kind == "kernel":
        return Side(word, _on_kernel(word, found))
    axis = full_name(kind, found)
    values = axis_values((one.cell.axes for one in found), axis)
    fitting = [one for one, value in zip(found, values, strict=True) if value == word]
    return Side(word, _some(fitting, axis, word, filter(None, values)))


def _on_kernel(word: str, found: Sequence[Samples]) -> list[Samples]:
    """Return the trials on one kernel: by release, prefix of it up to a dot or dash, or name in the matrix."""

    def release(kernel: str) -> bool:
        return kernel == word or (kernel.startswith(word) and kernel[len(word)] in ".-+_")

    left = [one if one.cell.axes.get(_KERNEL_AXIS) == word else one.under(release) for one in found]
    kernels = kernels_of(found)
    return _some([one for one in left if one.rows], "kernel", word, kernels)


def _some(fitting: list[_T], kind: str, word: str, values: Iterable[str]) -> list[_T]:
    if not fitting:
        known = few_names(sorted({*filter(None, values)}, key=value_key))
        raise BadInput(f"no run in the store has {kind} '{word}'", details=f"there are: {known}" if known else "")
    return fitting


def is_odd(round_number: int) -> bool:
    """Return whether a round is odd. Alternate rounds spread drift over both parts."""
    return round_number % 2 == 1


def parts(name: str, found: Sequence[Samples], first: Callable[[int], bool] = is_odd) -> tuple[Side, Side]:
    return (
        Side(f"{name}, odd rounds", [one.in_rounds(first) for one in found]),
        Side(f"{name}, even rounds", [one.in_rounds(lambda round_number: not first(round_number)) for one in found]),
    )


#: Cells are equal by their ids, for any rest of the matrix and any order.
_IRRELEVANT = frozenset({"seed", EQUAL, "digest.matrix", "digest.models", "digest.work"})
_MOST = 20  # the most earlier runs to use. More add little precision, and their level is older.


def earlier_groups(a: Side, b: Side, runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Return the earlier runs in the environments of A and B. A side of several runs shows its own scatter."""
    sides = [side.runs for side in (a, b)]
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return []
    compared = [run for (run,) in sides]
    ids, last = {run.id for run in compared}, max(run.started for run in compared)
    groups: dict[Hashable, list[RunRow]] = {_conditions(run): [] for run in compared}
    for run in runs:
        alike = groups.get(_conditions(run))
        if alike is not None and run.finished and run.id not in ids and run.started < last and len(alike) < _MOST:
            alike.append(run)
    return [group for group in groups.values() if group]


def _conditions(run: RunRow) -> Hashable:
    facts = frozenset(fact for fact in run.environment.items() if fact[0] not in _IRRELEVANT)
    return run.matrix, run.machine, run.synthetic, run.host, facts


_CELL_FACTS = ("seed", "disk", "digest.matrix")  # differences of runs that can change cells of the same name


def explain_same_names(
    left: Sequence[CellRow], right: Sequence[CellRow], facts_apart: Iterable[tuple[str, str, str]]
) -> tuple[str, str]:
    """Explain why cells of one name have different ids, if that is the reason: ids cover all resolved values."""
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


def differences(a: Side, b: Side, *, with_seed: bool = False) -> list[tuple[str, str, str]]:
    """Return the names and both values. For equal cells, the seed decides only their order, so it is left out."""
    environments = _environment(a), _environment(b)
    found = []
    for name in sorted((environments[0].keys() | environments[1].keys()) - {EQUAL, *(() if with_seed else ("seed",))}):
        left, right = (" | ".join(sorted(one.get(name, ()))) for one in environments)
        if left != right:
            found.append((name, left or "not known", right or "not known"))
    return found


def _environment(side: Side) -> dict[str, set[str]]:
    """Return all environment values of its runs. Values that a kernel reports count only for runs on that kernel."""
    kernels = side.kernels
    found: dict[str, set[str]] = {}
    for run in side.runs:
        for name, text in run.environment.items():
            kernel, fact = split_owner(name)
            if kernel is None:
                found.setdefault(name, set()).add(text)
            elif not kernel or kernel in kernels:
                found.setdefault(f"guest.{fact}", set()).add(text)
    if kernels:
        found["guest.kernel"] = kernels
    return found


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
    why: tuple[str, str] = ("", "")  # without pairs: the axes on which no two cells agree, and what to do


def pairs_of(kind: str, a: Side, b: Side, facts_apart: Iterable[tuple[str, str, str]] = ()) -> Pairs:
    """Match cells by id, or if the id covers the compared axis, cells of one matrix that agree on all other axes."""
    if kind in BY_ID:
        return _by_id(a, b, facts_apart)
    axis = _KERNEL_AXIS if kind == "kernel" else full_name(kind, [*a.found, *b.found])
    left, right = (_by_matrix(kind, side.found) for side in (a, b))
    parts: list[Pairs] = []
    # Cells without an axis of kernels have no matrix here, and match by id.
    if None in left or None in right:
        parts.append(_by_id(Side(a.name, left.pop(None, [])), Side(b.name, right.pop(None, [])), facts_apart))
    matrices = [matrix for matrix in {**left, **right} if matrix is not None]
    for matrix in matrices:
        sides = Side(a.name, left.get(matrix, [])), Side(b.name, right.get(matrix, []))
        parts.append(_by_axis(axis, *sides, matrix if len(matrices) > 1 else ""))
    whys = [part.why for part in parts if any(part.why)]
    return Pairs(
        [pair for part in parts for pair in part.found],
        ([one for part in parts for one in part.alone[0]], [one for part in parts for one in part.alone[1]]),
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        _of_matrices(a, b) or (whys[0] if whys else ("", "")),
    )


def _by_matrix(kind: str, found: Sequence[Samples]) -> dict[str | None, list[Samples]]:
    by_id = kind == "kernel"  # on the sides of other axes, all cells have a value
    return grouped((None if by_id and _KERNEL_AXIS not in one.cell.axes else one.run.matrix, one) for one in found)


def _of_matrices(a: Side, b: Side) -> tuple[str, str] | None:
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
        return Pairs((), (alone[0], alone[1]), why=(describe_differences(apart), _OTHER_CELLS))
    changes = ", ".join(f"{name} ({one or 'none'} → {other or 'none'})" for name, (one, other) in bound.items())
    along = f"changes along with {axis}, and is compared with it: {changes}" if changes and axis not in KINDS else ""
    axes_of = {id(one): axes for one, axes in zip(every, cells, strict=True)} if lack_any(cells, places) else {}
    notes = (
        along,
        *naming.notes(),
        *alias_notes(cells, (one.cell.axes for one in every)),
        *(describe_absences(_placed(rows, (a.name, b.name), axes_of), places) if axes_of else ()),
    )
    return Pairs([*pairs.values()], (alone[0], alone[1]), tuple(filter(None, notes)))


def _placed(
    rows: Iterable[Row[list[Samples]]], names: tuple[str, str], axes_of: Mapping[int, Axes]
) -> Iterator[tuple[str, Axes, Key]]:
    for row in rows:
        for name, column in zip(names, row.columns, strict=True):
            yield from ((name, axes_of[id(several[0])], row.key) for several in column)


def tied_axes(axis: str, left: Sequence[Axes], right: Sequence[Axes]) -> dict[str, tuple[str, str]]:
    """Return the axes of its kind that change with the compared one. One of each kind would compare two things."""
    found = {}
    for name in sorted({*names_of([*left, *right])} - {axis}):
        if is_workload_axis(name) != is_workload_axis(axis):
            continue
        one, other = (_only_value(side, name) for side in (left, right))
        if one is not None and other is not None and one != other:
            found[name] = (one, other)
    return found


def _only_value(cells: Sequence[Axes], name: str) -> str | None:
    """Return the value that all cells have, empty text if none has the axis; None: they differ, or there are none."""
    first = cells[0].get(name, "") if cells else None
    return first if all(axes.get(name, "") == first for axes in cells) else None
