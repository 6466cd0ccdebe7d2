"""Tables of results: a row for each cell or trial, or as a pivot, and the scaling of a figure along an axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from matrix_runner.answers.axes import (
    DEFAULT,
    MOST,
    Axes,
    Key,
    Naming,
    Row,
    TooManyRows,
    alias_notes,
    common_aliases,
    declared_key,
    describe_absences,
    describe_determined,
    describe_differences,
    determined_axes,
    differing_axes,
    in_reading_order,
    keys_of,
    may_lack,
    names_of,
    naming_of,
    number_of,
    parts_of,
    side_by_side,
    unite_axes,
    varying_axes,
    with_aliases,
)
from matrix_runner.answers.selectors import describe_synthetic
from matrix_runner.answers.stored_samples import (
    BANDWIDTHS,
    METRICS,
    USUAL_RATES,
    Sample,
    Samples,
    is_percentile,
    rates_of,
    unit_of,
)
from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import of_planned
from matrix_runner.pages.table import HINT, Grid, Value, estimate_values, ratio_values
from matrix_runner.pages.terminal_text import (
    MARK,
    digits,
    doubt,
    figure,
    host_limited_mark,
    legend,
    rate,
    stalled_mark,
    times,
    times_within,
    unsettled_mark,
)
from matrix_runner.records.record import Outcome
from matrix_runner.statistics.ratios import Interval, Ratio, paired_ratio
from matrix_runner.statistics.rounds import scaling_exponent
from matrix_runner.work.metrics import SYNC, TOTAL, headline, shown_sides, sides_of

if TYPE_CHECKING:
    from matrix_runner.records.store import RunRow


_CELL = ("run", "cell", "name", "machine", "synthetic", "host", "kernel", "revision", "started")
_OUTCOMES = tuple(one.value for one in Outcome)
_NONE = (0,) * len(_OUTCOMES)
_OUTCOME_COLUMNS = (*_OUTCOMES, "reason", "host_limited", "unsettled", "stopped")


def cells_grid(found: Sequence[Samples], metrics: Sequence[str]) -> Grid:
    axes, axis_columns = _axes_and_columns(found)
    columns = (*_CELL, *_OUTCOME_COLUMNS, *axis_columns, *(f"{one}{end}" for one in metrics for end in ENDS))
    # Compute once for each distinct cell, because many runs share cells.
    places = {id(one.cell): tuple(map(with_aliases(one.cell.axes).get, axes)) for one in found}
    rows = [
        (
            *_who(one),
            *map(one.counts.get, _OUTCOMES, _NONE),
            *("; ".join(one.reasons), one.host_limited, one.unsettled, one.stopped.value),
            *places[id(one.cell)],
            *chain.from_iterable([estimate_values(one.estimate(metric)) for metric in metrics]),
        )
        for one in found
    ]
    return Grid(columns, rows, describe_synthetic(one.run for one in found))


ENDS = ("", "_low", "_high", "_rel")


def trials_grid(found: Sequence[Samples], metrics: Sequence[str]) -> Grid:
    axes, axis_columns = _axes_and_columns(found)
    columns = (*_CELL, "trial", "outcome", "reason", "host_limited", "unsettled", *axis_columns, *metrics)
    rows: list[tuple[Value, ...]] = [
        (
            *_who(one),
            *(trial.round, trial.outcome, trial.reason, trial.host_limited, trial.unsettled),
            *map(with_aliases(one.cell.axes).get, axes),
            *trial.values,
        )
        for one in found
        for trial in one.trials
    ]
    return Grid(columns, rows, describe_synthetic(one.run for one in found))


def display_table(
    found: Sequence[Samples],
    metrics: Sequence[str],
    *,
    most: int | None,
    unread: tuple[int, int] = (0, 0),
    hint: str = HINT,
) -> Grid:
    """`unread`: cells and runs that are not in `found`."""
    left, runs = unread
    several = runs > 0 or len({one.run.id for one in found}) > 1
    cut = found if most is None else found[:most]
    usual = set(metrics) == set(USUAL_RATES)
    means = [_means(one) for one in cut] if usual else []
    syncs = (SYNC,) if any(f"{SYNC}_bw" in one for one in means) else ()
    totals = (TOTAL,) if any(TOTAL in sides_of(one) for one in means) else ()
    sides = (*syncs, *totals, *shown_sides(means))
    heads = (*sides, "±") if usual else tuple(head for one in metrics for head in (one, "±"))
    columns = (*(("run",) if several else ()), "cell", *heads, "trials", "outcome")
    rows: list[tuple[Value, ...]] = []
    for one in cut:
        name = (one.run.name, one.cell.name) if several else (one.cell.name,)
        measured = one.measured
        reason = f": {'; '.join(one.reasons)}" if one.reasons else ""
        marks = host_limited_mark(one.host_limited, one.processor_limited)
        marks += stalled_mark(one.stalled) + unsettled_mark(one.unsettled, measured)
        outcome = f"{one.outcome}{marks}{reason}"
        rows.append((*name, *(_usual(one, sides) if usual else _asked(one, metrics)), str(measured), outcome))
    left += len(found) - len(cut)
    rest = (f"{left:,} more cells" if left else "", f"{runs} more runs" if runs else "")
    more = (f"{' and '.join(filter(None, rest))}; {hint}",) if any(rest) else ()
    title = () if several or not found else (f"run {found[0].run.name}",)
    notes = (*describe_synthetic(one.run for one in found), *title, *more, *legend(str(row[-1]) for row in rows))
    return Grid(columns, rows, notes, frozenset({*heads, "trials"}))


def _marks(trial: Sample) -> str:
    limited = "processor-limited" if trial.processor_limited else "host-limited" if trial.host_limited else ""
    marks = (limited, "stalled" * trial.stalled, "unsettled" * trial.unsettled)
    return "".join(f" {MARK} {mark}" for mark in marks if mark)


def display_trials(found: Sequence[Samples], metrics: Sequence[str], *, most: int) -> Grid:
    several = len({one.run.id for one in found}) > 1
    columns = (*(("run",) if several else ()), "cell", "trial", *metrics, "outcome")
    rows: list[tuple[Value, ...]] = []
    for one in found:
        for trial in one.trials:
            run = (one.run.name,) if several else ()
            figures = (figure(value, unit_of(metric)) for metric, value in zip(metrics, trial.values, strict=True))
            reason = f": {trial.reason}" if trial.reason else ""
            rows.append((*run, one.cell.name, str(trial.round), *figures, f"{trial.outcome}{_marks(trial)}{reason}"))
    left = (f"{len(rows) - most:,} more trials; {HINT}",) if len(rows) > most else ()
    notes = (*describe_synthetic(one.run for one in found), *left, *legend(str(row[-1]) for row in rows[:most]))
    return Grid(columns, rows[:most], notes, frozenset({*metrics, "trial"}))


def describe_unfinished(runs: Iterable[RunRow], recorded: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        f"{run.name} is not finished: "
        f"{of_planned(recorded.get(run.id, 0), run.planned, 'at most ' if run.until else '')} trials"
        for run in {run.id: run for run in runs}.values()
        if not run.finished
    )


def distinct_axes(found: Iterable[Samples]) -> list[Axes]:
    return list({id(one.cell): one.cell.axes for one in found}.values())


def _axes_and_columns(found: Iterable[Samples]) -> tuple[list[str], list[str]]:
    """Return all axes and shared names, and their columns: an axis whose name equals one of ours gets a prefix."""
    cells = distinct_axes(found)
    axes = [*names_of(cells), *common_aliases(cells)]
    taken = {*_CELL, *_OUTCOME_COLUMNS, *METRICS, "trial", "outcome"}
    return axes, [f"axis.{axis}" if axis in taken else axis for axis in axes]


def _who(one: Samples) -> tuple[Value, ...]:
    run, cell = one.run, one.cell
    kernels = ", ".join(one.kernels)
    return (run.name, cell.id, cell.name, run.machine, run.synthetic, run.host, kernels, run.revision, run.started)


def _usual(one: Samples, shown: Sequence[str]) -> tuple[str, ...]:
    means = _means(one)
    sides = (SYNC, *sides_of(means))
    rates = [_usual_rate(means, side) if side in sides else "" for side in shown]
    return (*rates, doubt(one.estimate(name) if (name := headline(means)) else None))


def _usual_rate(means: Mapping[str, float], side: str) -> str:
    bw = means.get(f"{side}_bw")
    return figure(bw, "bytes/s") if side == SYNC else rate(bw, means.get(f"{side}_iops"))


def _means(one: Samples) -> dict[str, float]:
    return {metric: found.mean for metric in USUAL_RATES if (found := one.estimate(metric))}


def _asked(one: Samples, metrics: Iterable[str]) -> Iterable[str]:
    for metric in metrics:
        found = one.estimate(metric)
        yield figure(found.mean, unit_of(metric)) if found else ""
        yield doubt(found)


Slots: TypeAlias = "Sequence[Samples | None]"


def pivot(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    table = table_of(found, axis)
    several = not metric and any(len(line_figures(cells, None)) > 1 for _, cells in table.lines)
    rows: list[tuple[Value, ...]] = []
    for key, name, cells in table.rows(metric):
        side = (name.partition("_")[0],) if several else ()
        rows.append((table.naming.label(key), *side, *format_means(cells, name)))
    columns = ("cell", *(("figure",) if several else ()), *table.heads)
    return Grid(columns, rows, tuple(notes_of(table, metric)), frozenset(table.heads))


def plain_pivot(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, name, cells in table.rows(metric):
        row: list[Value] = [*key, name]
        for one in cells:
            estimate = one.estimate(name) if one else None
            row += [*estimate_values(estimate), estimate.n if estimate else None]
        rows.append((*row, sum(one.host_limited_of(name) for one in cells if one)))
    places = [*(f"{head}{end}" for head in table.heads for end in (*ENDS, "_trials")), "host_limited"]
    return Grid((*table.naming.names, "metric", *places), rows, tuple(notes_of(table, metric)), frozenset(places))


@dataclass(frozen=True, slots=True)
class Table:
    axis: str
    asked: int  # the number of selected cells; `among` has those with the axis
    among: Sequence[Samples]
    cells: Sequence[Axes]
    naming: Naming
    along: Mapping[str, Mapping[str, str]]  # axes that each value of the axis determines
    values: Sequence[str]
    lines: Sequence[tuple[tuple[str, ...], Slots]]

    @property
    def heads(self) -> list[str]:
        return [f"{self.axis}={value}" for value in self.values]

    def rows(self, metric: str | None) -> Iterator[tuple[tuple[str, ...], str, Slots]]:
        return ((key, name, cells) for key, cells in self.lines for name in line_figures(cells, metric))


def table_of(found: Sequence[Samples], axis: str) -> Table:
    among = [one for one in found if axis in with_aliases(one.cell.axes)]
    cells = unite_axes([one.cell.axes for one in among], {axis})
    varying = varying_axes(cells, {axis})
    # By axes that a layout or workload name determines, cells of two layouts would never share a line.
    along = determined_axes(cells, axis, parts_of(axis, varying)) if axis in {"layout", "workload"} else {}
    names = in_reading_order([name for name in varying if name not in along])
    runs = [one.run.id for one in among]
    first: dict[str, list[str]] = {}
    if len({*runs}) > 1:
        first["run"] = [one.run.name for one in among]
    if any(one.run.synthetic for one in among):
        first["synthetic"] = [str(one.run.synthetic).lower() for one in among]
    keys = [(*run, *key) for *run, key in zip(*first.values(), keys_of(cells, names, runs), strict=True)]
    values = sorted(dict.fromkeys(axes[axis] for axes in cells), key=declared_key)
    columns: dict[str, list[tuple[Key, Samples]]] = {value: [] for value in values}
    for key, one, axes in zip(keys, among, cells, strict=True):
        columns[axes[axis]].append((key, one))
    try:
        rows = side_by_side([*columns.values()])
    except TooManyRows:
        lacked = [name for name in names if may_lack(name) and any(name not in axes for axes in cells)]
        raise BadInput(
            f"--pivot {axis}: this gives more than {MOST:,} combinations of rows",
            details=f"not all cells have the axes {', '.join(lacked)}",
            resolution="choose some of them with --only",
        ) from None
    lines = [line for row in rows for line in _lines(row)]
    every = (*first, *names)
    naming = naming_of(cells, every, [key for key, _ in lines], but={axis, *along})
    return Table(axis, len(found), among, cells, naming, along, values, _sorted(lines, every, cells))


def _lines(row: Row[Samples]) -> Iterator[tuple[tuple[str, ...], Slots]]:
    key = tuple(value or "" for value in row.key)
    for number in range(max(map(len, row.columns))):
        yield key, [items[number] if number < len(items) else None for items in row.columns]


def _sorted(
    lines: Sequence[tuple[tuple[str, ...], Slots]], names: Sequence[str], cells: Sequence[Axes]
) -> list[tuple[tuple[str, ...], Slots]]:
    ranks: list[dict[str, int]] = []
    for at, name in enumerate(names):
        declared = dict.fromkeys((*(axes[name] for axes in cells if name in axes), *(key[at] for key, _ in lines)))
        values = sorted(declared, key=lambda value: (value != DEFAULT, *declared_key(value)))
        ranks.append({value: number for number, value in enumerate(values)})
    return sorted(lines, key=lambda line: tuple(rank[value] for rank, value in zip(ranks, line[0], strict=True)))


def line_figures(cells: Slots, metric: str | None) -> list[str]:
    filled = [one for one in cells if one]
    return [name for name in ([metric] if metric else rates_of(filled)) if any(one.estimate(name) for one in filled)]


def notes_of(table: Table, metric: str | None) -> Iterator[str]:
    among, axis = table.among, table.axis
    yield from describe_synthetic(one.run for one in among)
    if metric:
        kind = "of the requests of all trials together" if is_percentile(metric) else "mean over trials"
        yield f"{metric}: {kind}, in {unit_of(metric) or 'requests'}"
    else:
        yield "means over trials: MB/s for requests of 64 KiB and more, IOPS for smaller ones"
    if len(among) < table.asked:
        yield f"{table.asked - len(among):,} of {table.asked:,} cells have no {axis}"
    metrics = [metric] if metric else [*BANDWIDTHS, f"{SYNC}_bw"]
    if lacking := sum(not any(map(one.estimate, metrics)) for one in among):
        yield f"{lacking:,} of {len(among):,} cells have no {metric or 'figures'}"
    if host_limited := sum(max(map(one.host_limited_of, metrics)) for one in among):
        trials = sum(max(len(one.counted(name)) for name in metrics) for one in among)
        yield (f"(!) {host_limited:,} of {trials:,} trials are host-limited: the host was too slow or too busy")
    yield from table.naming.notes()
    yield from describe_determined(axis, table.along)
    yield from alias_notes(table.cells, (one.cell.axes for one in among))
    yield from describe_absences(_placed(table), table.naming.names)
    yield from _explain_disjoint_columns(table)


def _placed(table: Table) -> Iterator[tuple[str, Axes, Key]]:
    axes_of = {id(one): axes for one, axes in zip(table.among, table.cells, strict=True)}
    for key, cells in table.lines:
        yield from ((value, axes_of[id(one)], key) for value, one in zip(table.values, cells, strict=True) if one)


def _explain_disjoint_columns(table: Table) -> Iterator[str]:
    if len(table.values) < 2 or any(sum(one is not None for one in cells) > 1 for _, cells in table.lines):
        return
    columns = {value: [axes for axes in table.cells if axes[table.axis] == value] for value in table.values}
    apart = differing_axes(columns.values(), table.naming.names)
    yield f"no two columns have a row in common: {describe_differences(apart)}"


def format_means(cells: Slots, metric: str) -> list[str]:
    """Format a row, with one unit."""
    means = [found.mean for one in cells if one and (found := one.estimate(metric))]
    return [_format_mean(one, metric, min(means, default=None)) for one in cells]


def _format_mean(one: Samples | None, metric: str, least: float | None = None) -> str:
    found = one.estimate(metric) if one else None
    if found is None:
        return ""
    width = f" ± {text}" if (text := doubt(found)) else ""
    host_limited = " (!)" if one and one.host_limited_of(metric) else ""
    return f"{figure(found.mean, unit_of(metric), least)}{width}{host_limited}"


_SCALING_NOTES = (
    "\u00d7: multiple of the first of its line, over their common rounds",
    "power: the figure is proportional to the axis to that power (1: linear, 0: constant)",
)


def display_scaling(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, name, cells in table.rows(metric):
        base, power = _base(cells, name), _power(table.values, cells, name)
        places = (
            _format_mean(one, name) if one is base else _format_times(one, _times(one, base, name), name)
            for one in cells
        )
        shown = f"{digits(power.mean)} ({digits(power.low)} to {digits(power.high)})" if power else ""
        rows.append((table.naming.label(key), name, *places, shown))
    notes = (*notes_of(table, metric), *_SCALING_NOTES)
    return Grid(("cell", "figure", *table.heads, "power"), rows, notes, frozenset({*table.heads, "power"}))


def data_scaling(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, name, cells in table.rows(metric):
        base, power = _base(cells, name), _power(table.values, cells, name)
        ratios = (value for one in cells for value in ratio_values(_times(one, base, name)))
        rows.append((*key, name, *ratios, *((power.mean, power.low, power.high) if power else (None,) * 3)))
    ends = ("", "_low", "_high")
    places = [f"{head}{end}" for head in (*(f"{one}_times" for one in table.heads), "power") for end in ends]
    return Grid((*table.naming.names, "metric", *places), rows, tuple(notes_of(table, metric)), frozenset(places))


def _base(cells: Slots, metric: str) -> Samples | None:
    return next((one for one in cells if one and one.rounds(metric)), None)


def _times(one: Samples | None, base: Samples | None, metric: str) -> Ratio | None:
    return paired_ratio(base.rounds(metric), one.rounds(metric)) if one and base else None


def _power(values: Sequence[str], cells: Slots, metric: str) -> Interval | None:
    known = [(number_of(value), one.rounds(metric)) for value, one in zip(values, cells, strict=True) if one]
    places = [number for number, rounds in known if number is not None and rounds]
    if len(places) < len(known):
        return None
    return scaling_exponent(places, [rounds for _, rounds in known])


def _format_times(one: Samples | None, ratio: Ratio | None, metric: str) -> str:
    if ratio is None:
        return ""
    shown = times_within(ratio.ratio, ratio.low, ratio.high) if ratio.low else times(ratio.ratio)
    return f"{shown}{' (!)' if one and one.host_limited_of(metric) else ''}"
