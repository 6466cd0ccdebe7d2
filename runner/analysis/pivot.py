"""One axis against all others: a column for each of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.analysis.metrics import METRICS, is_percentile
from runner.analysis.natural_sort import as_declared, of_value
from runner.analysis.tables import ENDS, axes_of, values_of, warnings
from runner.language.metrics import is_large
from runner.reports.number_format import figure
from runner.reports.table import Grid
from runner.reports.terminal import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.analysis.samples import Samples
    from runner.reports.table import Value

_MEANS = (
    "means over trials: bandwidth where a row has requests of 64 KiB and more, requests per second where it has not"
)
_SIDES = ("read", "write")
#: What axes begin with that are not of a layer of a layout.
_OF_NO_LAYER = {"workload", "tune"}


def pivot(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    """Rows: cells without one axis; columns: its values; in each place the mean of a figure, for people.

    Without `metric`, the rates of each row: of reads, writes or both, as bandwidth or as requests like in other tables.
    """
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, cells in table.lines:
        for name in told_by(cells, metric):
            label = () if metric else (name.partition("_")[0],)
            rows.append((*key, *label, *(place(one, name) for one in cells)))
    columns = (*table.names, *(() if metric else ("figure",)))
    return Grid((*columns, *table.heads), rows, notes_of(found, table.among, axis, metric), frozenset(table.heads))


def plain_pivot(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    """The same for programs: as numbers, with bounds and trials."""
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, cells in table.lines:
        for name in told_by(cells, metric):
            strained = sum(one.strained_of(name) for one in cells if one)
            rows.append((*key, name, *(value for one in cells for value in _with_trials(one, name)), strained))
    places = [*(f"{head}{end}" for head in table.heads for end in (*ENDS, "_trials")), "strained"]
    notes = notes_of(found, table.among, axis, metric)
    return Grid((*table.names, "metric", *places), rows, notes, frozenset(places))


@dataclass(frozen=True, slots=True)
class Table:
    """Cells by all that they differ in but one axis, and by that."""

    #: Those that have the axis.
    among: Sequence[Samples]
    #: What lines are told apart by.
    names: tuple[str, ...]
    #: Those of the axis, in the order in which people look for them.
    values: Sequence[str]
    heads: Sequence[str]
    lines: Sequence[tuple[tuple[str, ...], Sequence[Samples | None]]]


def table_of(found: Sequence[Samples], axis: str) -> Table:
    """Cells that have an axis, in lines of those that differ in nothing else."""
    among = [one for one in found if axis in one.cell.axes]
    values = sorted(dict.fromkeys(one.cell.axes[axis] for one in among), key=as_declared)
    several = len({one.run.id for one in among}) > 1
    invented = any(one.run.made_up for one in among)
    along = _along(among, axis)
    varying = [name for name in _varying(among, axis) if name not in along]
    places: dict[tuple[str, ...], dict[str, Samples]] = {}
    for one in among:
        run = (*((one.run.name,) if several else ()), *((str(one.run.made_up).lower(),) if invented else ()))
        key = (*run, *(one.cell.axes.get(name, "") for name in varying))
        nth = 1
        # Cells that differ in something that no axis names stand below each other.
        while one.cell.axes[axis] in places.setdefault((*key, str(nth)), {}):
            nth += 1
        places[*key, str(nth)][one.cell.axes[axis]] = one
    ordered = sorted(places.items(), key=lambda item: tuple(map(as_declared, item[0])))
    return Table(
        among,
        (*(("run",) if several else ()), *(("made_up",) if invented else ()), *varying),
        values,
        [f"{axis}={value}" for value in values],
        [(key[:-1], [by_value.get(value) for value in values]) for key, by_value in ordered],
    )


def told_by(cells: Sequence[Samples | None], metric: str | None) -> list[str]:
    """The figures of a line, without those that none of its cells has."""
    there = [one for one in cells if one]
    return [name for name in ([metric] if metric else _rates_of(there)) if any(one.estimate(name) for one in there)]


def notes_of(found: Sequence[Samples], among: Sequence[Samples], axis: str, metric: str | None) -> tuple[str, ...]:
    """What must be said beside a table along an axis."""
    shared = _shared(among, axis)
    return (
        *warnings(one.run for one in among),
        f"{metric}: {_what(metric)}, in {METRICS[metric] or 'requests'}" if metric else _MEANS,
        *((f"{len(found) - len(among):,} of {len(found):,} cells have no {axis}",) if len(among) < len(found) else ()),
        *_lacking(among, metric),
        *_strained(among, metric),
        *((f"all of {shared}",) if shared else ()),
        *(f"{name} goes with {axis}: {_told_along(values)}" for name, values in _along(among, axis).items()),
    )


def _what(metric: str) -> str:
    return "of the requests of all trials together" if is_percentile(metric) else "mean over trials"


def _rates_of(cells: Iterable[Samples]) -> list[str]:
    """By which figures a row of cells is told: one for each direction, and the same for all of them."""
    found = []
    for side in _SIDES:
        rates = [(one.estimate(f"{side}_bw"), one.estimate(f"{side}_iops")) for one in cells]
        large = any(bw and iops and is_large(bw.mean, iops.mean) for bw, iops in rates)
        found.append(f"{side}_{'bw' if large else 'iops'}")
    return found


def _with_trials(one: Samples | None, metric: str) -> tuple[Value, ...]:
    found = one.estimate(metric) if one else None
    return (*values_of(found), found.n if found else None)


def _lacking(found: Sequence[Samples], metric: str | None) -> tuple[str, ...]:
    """How many cells cannot be seen, as they have no such figure."""
    wanted_ = [metric] if metric else [f"{side}_bw" for side in _SIDES]
    lacking = sum(not any(one.estimate(name) for name in wanted_) for one in found)
    if not lacking:
        return ()
    return (f"{lacking:,} of {len(found):,} cells have no {metric or 'figures'}",)


def place(one: Samples | None, metric: str) -> str:
    """The mean of a figure and its doubt; empty where there is none."""
    found = one.estimate(metric) if one else None
    if found is None:
        return ""
    doubt = f" ± {percent(found.relative)}" if found.relative is not None else ""
    strained = " (!)" if one and one.strained_of(metric) else ""
    return f"{figure(found.mean, METRICS[metric])}{doubt}{strained}"


def _strained(found: Sequence[Samples], metric: str | None) -> tuple[str, ...]:
    """That some of it says as much about the host as about the disks."""
    metrics = [metric] if metric else [f"{side}_bw" for side in _SIDES]
    strained = sum(max(one.strained_of(name) for name in metrics) for one in found)
    of = sum(max(len(one.counted(name)) for name in metrics) for one in found)
    if not strained:
        return ()
    return (f"(!) in {strained:,} of {of:,} trials the host could not keep up with modelled disks",)


def _varying(found: Sequence[Samples], but: str) -> list[str]:
    """The axes by which these cells differ."""
    return [name for name in axes_of(found) if name != but and len({one.cell.axes.get(name) for one in found}) > 1]


def _along(found: Sequence[Samples], axis: str) -> dict[str, dict[str, str]]:
    """What a layout or a workload of some name is made of, if it has one value for each name; and those values.

    It tells no lines apart: cells of two layouts could never stand in the same one. Whatever else happens to change
    with an axis does, as a line would say that the axis is all that its cells differ in.
    """
    along: dict[str, dict[str, str]] = {}
    for name in _varying(found, axis):
        if not _is_part(name, axis):
            continue
        pairs = {(one.cell.axes[axis], one.cell.axes.get(name)) for one in found}
        if len(pairs) == len({value for value, _ in pairs}):
            along[name] = {value: theirs for value, theirs in pairs if theirs is not None}
    return along


def _is_part(name: str, axis: str) -> bool:
    """It belongs to what the values of the other axis are names of."""
    of, dot, _ = name.partition(".")
    return bool(dot) and (of == axis if axis == "workload" else axis == "layout" and of not in _OF_NO_LAYER)


def _told_along(values: Mapping[str, str]) -> str:
    return ", ".join(
        f"{theirs} ({value})" for value, theirs in sorted(values.items(), key=lambda item: of_value(item[0]))
    )


def _shared(found: Sequence[Samples], but: str) -> str:
    """Where all of them stand on the other axes."""
    varying = {*_varying(found, but), but}
    first: Mapping[str, str] = found[0].cell.axes
    return ", ".join(f"{name}={value}" for name, value in first.items() if name not in varying)
