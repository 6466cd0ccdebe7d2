"""The figures of a cell as guidelines use them, the possible verdicts, and cells that differ only in compared axes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

from matrix_runner.records.record import CellRow, Trial, counted_trials
from matrix_runner.statistics.stopping import Rule, StopReason, stop_reason
from matrix_runner.work.fio.output import Direction, Figures, Sync
from matrix_runner.work.metrics import (
    ALL_SIDES,
    BESIDE,
    FOUND,
    OF_SYNC,
    REBUILD,
    SYNC,
    Metric,
    sides_of_kind,
    split_column,
)


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


_BESIDE = frozenset(BESIDE.values())
SEARCH = "workload.find"  # an axis of the result of a search: the figure that it found


@dataclass(frozen=True, slots=True)
class Measured:
    run: str
    cell: CellRow
    columns: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    rule: Rule = Rule(1, 1)  # noqa: RUF009 - frozen
    stopped: StopReason = StopReason.FIXED
    trials: int = 0  # the number of trials with figures
    host_limited: int = 0  # trials that are host-limited
    #: The share of the time that host-limited trials lost to the host, as a mean over all trials.
    lost_share: float = 0.0
    #: The directions that each job may have, and at "" those of all jobs; None: unknown
    jobs: Mapping[str, Collection[str]] | None = None

    def has(self, metric: Metric) -> bool:
        """Return whether it has such a figure, or may have it after a measurement."""
        found = self.cell.axes.get(SEARCH, "")
        if (found or metric.name in FOUND) and found != metric.name:
            return False
        if self.trials:
            return any(self.columns.get(column) for column in metric.columns)
        is_rebuild = "workload.sync_action" in self.cell.axes
        if metric.is_of_rebuild:
            return is_rebuild
        if is_rebuild and "workload.under.rw" not in self.cell.axes:
            return not metric.is_of_requests
        return not metric.is_of_requests or any(_side(column) in self._sides(metric.job) for column in metric.columns)

    def _sides(self, job: str) -> Collection[str]:
        if self.jobs is not None:
            return self.jobs.get(job, ())
        return sides_of_kind(self.cell.axes.get("workload.under.rw") or self.cell.axes.get("workload.rw", ""))

    def rounds(self, metric: Metric) -> dict[int, float]:
        found: dict[int, float] = {}
        for column in metric.columns:
            for round_number, value in self.columns.get(column, {}).items():
                found[round_number] = found.get(round_number, 0.0) + value
        floor = metric.floor
        return {round_number: larger for round_number, value in found.items() if (larger := max(value, floor)) > 0}


def _side(column: str) -> str:
    return split_column(column)[1].partition("_")[0]


def measured_cells(
    run: str, cells: Iterable[CellRow], trials: Mapping[str, Sequence[Trial]], rule: Rule, columns: Collection[str]
) -> Iterator[Measured]:
    for cell in cells:
        yield measured_cell(run, cell, trials.get(cell.id, ()), rule, columns)


def measured_cell(run: str, cell: CellRow, trials: Sequence[Trial], rule: Rule, columns: Collection[str]) -> Measured:
    found = counted_trials(trials)
    values: dict[str, dict[int, float]] = {}
    for trial, figures in found:
        block = trial.block
        for column in columns:
            value = getattr(trial.facts, column) if column in _BESIDE else figure_of(figures, column)
            if value is not None:
                values.setdefault(column, {})[block] = value
    rates = [figures.deciding_rate for _, figures in found]
    limited = sum(one.facts.is_host_limited for one, _ in found)
    stopped = stop_reason(rates, len(trials), rule)
    return Measured(run, cell, values, rule, stopped, len(found), limited, mean_lost_share([one for one, _ in found]))


def mean_lost_share(counted: Sequence[Trial]) -> float:
    """Return the share of the time that host-limited trials lost to the host, as a mean over all trials."""
    return sum(one.facts.lost or 0.0 for one in counted) / max(1, len(counted))


@cache
def _parts_of_column(column: str) -> tuple[str, str, str]:
    job, own = split_column(column)
    side, _, name = own.partition("_")
    if side == SYNC and name in OF_SYNC:
        side = REBUILD
    return job, side if side in {*ALL_SIDES, REBUILD} else "", name


def figure_of(figures: Figures, column: str) -> float | None:
    job, side, name = _parts_of_column(column)
    of = figures.jobs.get(job) if job else figures
    direction: Direction | Sync | None = getattr(of, side) if of and side else None
    value: float | None = getattr(direction, name) if direction else None
    return value


class Context(NamedTuple):
    cells: tuple[CellRow, ...]
    places: Mapping[str, str]


class Matches(NamedTuple):
    contexts: list[Context]
    tied: Mapping[str, tuple[frozenset[str], ...]]  # the values of each such axis, side by side


def matching_cells(cells: Iterable[CellRow], rule: Mapping[str, frozenset[str]]) -> list[CellRow]:
    return [cell for cell in cells if all(cell.axes.get(axis) in values for axis, values in rule.items())]


def match_compared(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matches:
    """Return every combination of cells of all sides with equal values on the shared axes that are not `named`."""
    contexts, tied = list[Context](), dict[str, tuple[frozenset[str], ...]]()
    for several in product(*(_grouped(side, sorted(named)).values() for side in sides)):
        found = match_sides(several, named)
        contexts += found.contexts
        for axis, values in found.tied.items() if found.contexts else ():
            before = tied.get(axis, (frozenset[str](),) * len(values))
            tied[axis] = tuple(map(frozenset.union, before, values))
    return Matches(contexts, dict(sorted(tied.items())))


def unmatched_cells(sides: Sequence[Sequence[CellRow]], contexts: Iterable[Context]) -> list[CellRow]:
    used = {cell.id for context in contexts for cell in context.cells}
    return [cell for side in sides for cell in side if cell.id not in used]


def match_sides(sides: Sequence[Sequence[CellRow]], named: Collection[str]) -> Matches:
    """Match sides with one position each on the compared axes.

    An axis with different values on every side, and of the same kind (stack, tunables or workload), changes along with
    them and counts as compared: the level with the name of a layout.
    """
    values = [axis_values(side) for side in sides]
    _, tied = _shared_axes(values, named)
    ignored = {*named, *tied}
    rows = [Context((), {})]
    for side in sides:
        rows = _joined(rows, side, ignored)
    return Matches(rows, {axis: tuple(frozenset(one[axis]) for one in values) for axis in sorted(tied)})


def match_along(groups: Mapping[str, Sequence[CellRow]], along: str) -> list[dict[str, CellRow]]:
    """Match cells along an axis, by its values. A position that excludes one value still has the others."""
    values = [axis_values(side) for side in groups.values()]
    shared, tied = _shared_axes(values, {along})
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
    kind = axis.partition(".")[0]
    return kind if kind in {"tune", "workload"} else "stack"


def _parts_of(named: str, values: Sequence[Mapping[str, set[str]]]) -> set[str]:
    """Return the axes that the name of a layout or workload determines: one value for each name that has the axis."""
    if named not in {"layout", "workload"}:
        return set()
    axes = {axis for one in values for axis in one if kind_of(axis) == kind_of(named)}
    return {axis for axis in axes if all(len(one[axis]) == 1 for one in values if axis in one)}


def _grouped(cells: Iterable[CellRow], names: Sequence[str]) -> dict[tuple[str, ...], list[CellRow]]:
    found: dict[tuple[str, ...], list[CellRow]] = {}
    for cell in cells:
        found.setdefault(_key(cell.axes, names), []).append(cell)
    return found


def _joined(rows: Sequence[Context], side: Sequence[CellRow], ignored: Collection[str]) -> list[Context]:
    known = {axis for row in rows for axis in row.places}
    common = sorted(known & {axis for cell in side for axis in cell.axes})
    by_key = _grouped(side, common)
    return [
        Context((*row.cells, cell), {**row.places, **{a: v for a, v in cell.axes.items() if a not in ignored}})
        for row in rows
        for cell in by_key.get(_key(row.places, common), ())
    ]


def _key(axes: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(axes.get(name, "") for name in names)


def axis_values(cells: Iterable[CellRow]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for cell in cells:
        for axis, value in cell.axes.items():
            found.setdefault(axis, set()).add(value)
    return found


def _shared_axes(sides: Sequence[Mapping[str, set[str]]], named: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the axes of all sides, and those among them of the same kind that have different values on every side."""
    if not sides:
        return set(), set()
    shared = set.intersection(*map(set, sides)) - set(named)
    kinds = {kind_of(axis) for axis in named}
    tied = {
        axis
        for axis in shared
        if kind_of(axis) in kinds
        and len(sides) > 1
        and not any(one[axis] & other[axis] for one, other in combinations(sides, 2))
    }
    return shared, tied
