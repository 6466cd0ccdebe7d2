"""What was measured, as tables: a row a cell of a run, a row a trial, or one axis against all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import BadInput
from runner.history.metrics import METRICS, is_percentile
from runner.history.ordering import of_value
from runner.reports.figures import figure
from runner.reports.grid import Grid
from runner.reports.terminal import is_large, percent, rate, told_by, unsettled_of
from runner.store.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.history.samples import Sample, Samples
    from runner.reports.grid import Value
    from runner.stats.stopping import Estimate
    from runner.store.shared import RunRow

_CELL = ("run", "cell", "name", "machine", "made_up", "host", "kernel", "revision", "started")
_BECAME = ("measured", "broken", "skipped", "reason", "strained", "unsettled", "stopped")


def cells_grid(found: Sequence[Samples], metrics: Sequence[str]) -> Grid:
    """One row a cell of a run, for programs: plain numbers in plain units."""
    axes = axes_of(found)
    columns = (*_CELL, *_BECAME, *_named(axes), *(f"{one}{end}" for one in metrics for end in _ENDS))
    rows = [
        (
            *_who(one),
            *(one.counts.get(outcome, 0) for outcome in ("measured", "broken", "skipped")),
            *("; ".join(one.reasons), one.strained, one.unsettled, one.stopped.value),
            *(one.cell.axes.get(axis) for axis in axes),
            *(value for metric in metrics for value in _values(one.estimate(metric))),
        )
        for one in found
    ]
    return Grid(columns, rows, warnings(one.run for one in found))


_ENDS = ("", "_low", "_high", "_rel")


def trials_grid(found: Sequence[Samples], metrics: Sequence[str]) -> Grid:
    """One row a trial."""
    axes = axes_of(found)
    columns = (*_CELL, "trial", "outcome", "reason", "strained", "unsettled", *_named(axes), *metrics)
    rows: list[tuple[Value, ...]] = [
        (
            *_who(one),
            *(trial.block, trial.outcome, trial.reason, trial.strained, trial.unsettled),
            *(one.cell.axes.get(axis) for axis in axes),
            *trial.values,
        )
        for one in found
        for trial in one.trials
    ]
    return Grid(columns, rows, warnings(one.run for one in found))


def shown(found: Sequence[Samples], metrics: Sequence[str], *, most: int | None, unread: int = 0) -> Grid:
    """One row a cell of a run, for people; at most so many. `unread`: runs that nobody looked into for that."""
    several = unread > 0 or len({one.run.id for one in found}) > 1
    cut = found if most is None else found[:most]
    usual = set(metrics) == {"read_bw", "write_bw", "read_iops", "write_iops"}
    heads = ("read", "write", "±") if usual else tuple(head for one in metrics for head in (one, "±"))
    columns = (*(("run",) if several else ()), "cell", *heads, "trials", "outcome")
    rows = [
        (
            *((one.run.name,) if several else ()),
            one.cell.name,
            *(_usual(one) if usual else _asked(one, metrics)),
            str(one.counts.get("measured", 0)),
            _became(one),
        )
        for one in cut
    ]
    rest = (
        f"{len(found) - len(cut):,} more cells" if len(cut) < len(found) else "",
        f"{unread} more runs" if unread else "",
    )
    left = (f"{' and '.join(filter(None, rest))}; `--rows` shows more, `--format csv` all",) if any(rest) else ()
    title = () if several or not found else (f"run {found[0].run.name}",)
    return Grid(columns, rows, (*warnings(one.run for one in found), *title, *left), frozenset({*heads, "trials"}))


def shown_trials(found: Sequence[Samples], metrics: Sequence[str], *, most: int) -> Grid:
    """One row a trial, for people; at most so many."""
    several = len({one.run.id for one in found}) > 1
    columns = (*(("run",) if several else ()), "cell", "trial", *metrics, "outcome")
    rows: list[tuple[Value, ...]] = [
        (
            *((one.run.name,) if several else ()),
            *(one.cell.name, str(trial.block)),
            *(figure(value, METRICS[metric]) for metric, value in zip(metrics, trial.values, strict=True)),
            _of_trial(trial),
        )
        for one in found
        for trial in one.trials
    ]
    left = (f"{len(rows) - most:,} more trials; `--rows` shows more, `--format csv` all",) if len(rows) > most else ()
    notes = (*warnings(one.run for one in found), *left)
    return Grid(columns, rows[:most], notes, frozenset({*metrics, "trial"}))


def _of_trial(trial: Sample) -> str:
    marks = (" (!) strained" if trial.strained else "") + (" (!) unsettled" if trial.unsettled else "")
    return f"{trial.outcome}{marks}{f': {trial.reason}' if trial.reason else ''}"


def full_name(axis: str, found: Iterable[Samples]) -> str:
    """The full name of an axis, which may be written short (`chunk` for `md.chunk`) where that is clear."""
    names = axes_of(found)
    fitting = [axis] if axis in names else [name for name in names if name.endswith(f".{axis}")]
    if len(fitting) != 1:
        raise BadInput(
            f"no cell that was chosen has an axis '{axis}'"
            if not fitting
            else f"'{axis}' could be {' or '.join(fitting)}",
            resolution=f"there are {', '.join(names) or 'none'}",
        )
    return fitting[0]


def pivot(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    """Rows: cells without one axis; columns: its values; in each place the mean of a figure, for people.

    Without `metric`, the rates of each row: of reads, writes or both, as bandwidth or as requests like in other tables.
    """
    table = _table(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, cells in table.lines:
        for name in _told_by(cells, metric):
            label = () if metric else (name.partition("_")[0],)
            rows.append((*key, *label, *(_place(one, name) for one in cells)))
    columns = (*table.names, *(() if metric else ("figure",)))
    return Grid((*columns, *table.heads), rows, _notes(found, table.among, axis, metric), frozenset(table.heads))


def plain_pivot(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    """The same for programs: as numbers, with bounds and trials."""
    table = _table(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, cells in table.lines:
        for name in _told_by(cells, metric):
            strained = sum(one.strained_of(name) for one in cells if one)
            rows.append((*key, name, *(value for one in cells for value in _with_trials(one, name)), strained))
    places = [*(f"{head}{end}" for head in table.heads for end in (*_ENDS, "_trials")), "strained"]
    notes = _notes(found, table.among, axis, metric)
    return Grid((*table.names, "metric", *places), rows, notes, frozenset(places))


@dataclass(frozen=True, slots=True)
class _Table:
    """Cells by all that they differ in but one axis, and by that."""

    #: Those that have the axis.
    among: Sequence[Samples]
    #: What lines are told apart by.
    names: tuple[str, ...]
    heads: Sequence[str]
    lines: Sequence[tuple[tuple[str, ...], Sequence[Samples | None]]]


def _table(found: Sequence[Samples], axis: str) -> _Table:
    among = [one for one in found if axis in one.cell.axes]
    values = sorted(dict.fromkeys(one.cell.axes[axis] for one in among), key=of_value)
    several = len({one.run.id for one in among}) > 1
    along = _along(among, axis)
    varying = [name for name in _varying(among, axis) if name not in along]
    places: dict[tuple[str, ...], dict[str, Samples]] = {}
    for one in among:
        key = (*((one.run.name,) if several else ()), *(one.cell.axes.get(name, "") for name in varying))
        nth = 1
        # Cells that differ in something that no axis names stand below each other.
        while one.cell.axes[axis] in places.setdefault((*key, str(nth)), {}):
            nth += 1
        places[*key, str(nth)][one.cell.axes[axis]] = one
    ordered = sorted(places.items(), key=lambda item: tuple(map(of_value, item[0])))
    return _Table(
        among,
        (*(("run",) if several else ()), *varying),
        [f"{axis}={value}" for value in values],
        [(key[:-1], [by_value.get(value) for value in values]) for key, by_value in ordered],
    )


def _told_by(cells: Sequence[Samples | None], metric: str | None) -> list[str]:
    """The figures of a line, without those that none of its cells has."""
    there = [one for one in cells if one]
    return [name for name in ([metric] if metric else _rates_of(there)) if any(one.estimate(name) for one in there)]


def _notes(found: Sequence[Samples], among: Sequence[Samples], axis: str, metric: str | None) -> tuple[str, ...]:
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


_MEANS = (
    "means over trials: bandwidth where a row has requests of 64 KiB and more, requests per second where it has not"
)
_SIDES = ("read", "write")
#: What axes begin with that are not of a layer of a layout.
_OF_NO_LAYER = {"workload", "tune"}


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
    return (*_values(found), found.n if found else None)


def _lacking(found: Sequence[Samples], metric: str | None) -> tuple[str, ...]:
    """How many cells cannot be seen, as they have no such figure."""
    wanted_ = [metric] if metric else [f"{side}_bw" for side in _SIDES]
    lacking = sum(not any(one.estimate(name) for name in wanted_) for one in found)
    if not lacking:
        return ()
    return (f"{lacking:,} of {len(found):,} cells have no {metric or 'figures'}",)


def warnings(runs: Iterable[RunRow]) -> tuple[str, ...]:
    """What must stand wherever figures of these runs are shown."""
    different = {run.id: run for run in runs}.values()
    made_up = sorted({run.machine for run in different if run.made_up})
    if not made_up:
        return ()
    told = f"made up by the {' and '.join(made_up)} machine: nothing of it was measured"
    if all(run.made_up for run in different):
        return (f"figures are {told}",)
    names = ", ".join(run.name for run in different if run.made_up)
    return (f"measured and made-up figures stand beside each other: those of {names} are {told}",)


def unfinished(runs: Iterable[RunRow], recorded: Mapping[str, int]) -> tuple[str, ...]:
    """Which of these runs have not come to their end; `recorded`: how many trials there are of each."""
    return tuple(
        f"{run.name} is not finished: {recorded.get(run.id, 0):,} of {'at most ' if run.until else ''}"
        f"{run.planned:,} trials"
        for run in {run.id: run for run in runs}.values()
        if not run.finished
    )


def axes_of(found: Iterable[Samples]) -> list[str]:
    """Every axis that any of the cells has."""
    different = {id(one.cell): one.cell for one in found}
    return list(dict.fromkeys(axis for cell in different.values() for axis in cell.axes))


def _named(axes: Iterable[str]) -> list[str]:
    """An axis that happens to be called like a column of ours says that it is the axis."""
    taken = {*_CELL, *_BECAME, *METRICS, "trial", "outcome"}
    return [f"axis.{axis}" if axis in taken else axis for axis in axes]


def _who(one: Samples) -> tuple[Value, ...]:
    run, cell = one.run, one.cell
    kernels = ", ".join(one.kernels)
    return (run.name, cell.id, cell.name, run.machine, run.made_up, run.host, kernels, run.revision, run.started)


def _values(estimate: Estimate | None) -> tuple[Value, ...]:
    if estimate is None:
        return (None, None, None, None)
    return (estimate.mean, *estimate.bounds, estimate.relative)


def _usual(one: Samples) -> tuple[str, ...]:
    bw = {side: one.estimate(f"{side}_bw") for side in ("read", "write")}
    iops = {side: one.estimate(f"{side}_iops") for side in ("read", "write")}
    rates = [_rate(bw[side], iops[side]) for side in ("read", "write")]
    told = [told_by(bw[side], iops[side]) for side in ("read", "write")]
    widths = [found.relative for found in told if found and found.relative is not None]
    return (*rates, percent(max(widths)) if widths else "")


def _rate(bw: Estimate | None, iops: Estimate | None) -> str:
    return rate(bw.mean, iops.mean) if bw and iops else ""


def _asked(one: Samples, metrics: Iterable[str]) -> Iterable[str]:
    for metric in metrics:
        found = one.estimate(metric)
        yield figure(found.mean, METRICS[metric]) if found else ""
        yield percent(found.relative) if found and found.relative is not None else ""


def _became(one: Samples) -> str:
    strained = f" (!) {one.strained} strained" if one.strained else ""
    reason = f": {'; '.join(one.reasons)}" if one.reasons else ""
    unsettled = unsettled_of(one.unsettled, one.counts.get(Outcome.MEASURED, 0))
    return f"{one.outcome}{strained}{unsettled}{reason}"


def _place(one: Samples | None, metric: str) -> str:
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
