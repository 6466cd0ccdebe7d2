"""History of a figure of a cell over all runs, with uncertainty and level changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.analysis.metrics import COMPARED, METRICS, metrics_for, more_is_faster
from runner.analysis.naming import name_key
from runner.analysis.tables import warnings
from runner.reports.table import HINT, Grid
from runner.reports.terminal import percent
from runner.reports.terminal_text import figure, times
from runner.statistics.changes import find_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.analysis.samples import Samples
    from runner.reports.table import Value
    from runner.results.record import CellRow
    from runner.statistics.changes import Change
    from runner.statistics.stopping import Estimate

_BARS = "▁▂▃▄▅▆▇█"
#: The longest line of bars. Later runs take precedence.
_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Point:
    samples: Samples
    estimate: Estimate


@dataclass(frozen=True)
class Series:
    """A figure of one cell on one host, oldest run first. Synthetic runs have a separate series."""

    cell: CellRow
    metric: str
    machine: str
    host: str
    synthetic: bool
    points: Sequence[Point]
    changes: Sequence[Change]

    @property
    def bars(self) -> str:
        values = [point.estimate.mean for point in self.points]
        least, span = min(values), max(values) - min(values)
        steps = {change.at for change in self.changes}
        begin = max(0, len(values) - _WIDTH)
        drawn = [_BARS[round((value - least) / span * 7) if span else 3] for value in values]
        return "".join(f"|{bar}" if at in steps else bar for at, bar in enumerate(drawn[begin:], start=begin))


def timelines(found: Sequence[Samples], metrics: Sequence[str]) -> list[Series]:
    by_place: dict[tuple[str, str, str, bool], list[Samples]] = {}
    for one in sorted(found, key=lambda one: (one.run.started, one.run.id)):
        by_place.setdefault((one.cell.id, one.run.machine, one.run.host, one.run.synthetic), []).append(one)
    told = []
    for (_, machine, host, synthetic), several in by_place.items():
        for metric in metrics_for(several, metrics):
            points = [Point(one, estimate) for one in several if (estimate := one.estimate(metric))]
            if points:
                means = [point.estimate.mean for point in points]
                steps = find_changes(means) if min(means) > 0 else []
                cell = several[-1].cell  # the latest name
                told.append(Series(cell, metric, machine, host, synthetic, points, steps))
    return sorted(told, key=lambda one: (name_key(one.cell.name), one.cell.id, one.machine, one.host, one.metric))


def data_table(told: Sequence[Series]) -> Grid:
    who = ("cell", "name", "machine", "host", "synthetic", "figure", "run", "started", "kernel", "revision")
    step = ("change", "change_low", "change_high", "change_p")
    rows: list[tuple[Value, ...]] = []
    for one in told:
        steps = {change.at: change for change in one.changes}
        rows += [
            (
                *(one.cell.id, one.cell.name, one.machine, one.host, one.synthetic, one.metric),
                *_run(point),
                *(point.estimate.n, *_bounds(point.estimate)),
                *_step(steps.get(at)),
            )
            for at, point in enumerate(one.points)
        ]
    columns = (*who, "trials", "value", "value_low", "value_high", "value_rel", *step)
    return Grid(columns, rows, warnings(point.samples.run for one in told for point in one.points))


def display_table(told: Sequence[Series], *, most: int) -> Grid:
    return _in_full(told[0], most) if len(told) == 1 else _in_short(told, most)


def _in_full(one: Series, most: int) -> Grid:
    steps = {change.at: change for change in one.changes}
    begin = max(0, len(one.points) - most)
    rows: list[tuple[Value, ...]] = []
    for at, point in enumerate(one.points[begin:], start=begin):
        started, run = point.samples.run.started[:16].replace("T", " "), point.samples.run.name
        doubt = percent(point.estimate.relative) if point.estimate.relative is not None else ""
        words = _words(steps[at], one.metric) if at in steps else ""
        marks = [
            f"(!) {count} {word}"
            for count, word in ((point.samples.host_limited, "host-limited"), (point.samples.unsettled, "unsettled"))
            if count
        ]
        kernel = ", ".join(point.samples.kernels)
        value = figure(point.estimate.mean, METRICS[one.metric])
        rows.append(
            (started, run, kernel, value, doubt, str(point.estimate.n), "; ".join(filter(None, (words, *marks))))
        )
    notes = [
        f"{one.cell.name}: {one.metric} on {one.host or 'an unknown host'} ({one.machine})",
        f"{one.bars}  {_range(one)}",
        f"{len(one.points)} run{'s' if len(one.points) > 1 else ''}, {_count(one.changes)}"
        + (f"; the first {begin} are not shown" if begin else ""),
    ]
    columns = ("started", "run", "kernel", one.metric, "±", "trials", "")
    warned = warnings(point.samples.run for point in one.points)
    return Grid(columns, rows, (*warned, *notes), frozenset({one.metric, "±", "trials"}))


def _in_short(told: Sequence[Series], most: int) -> Grid:
    several = len({(one.host, one.machine) for one in told}) > 1
    cut = told[:most]
    ids: dict[str, set[str]] = {}
    for one in told:
        ids.setdefault(one.cell.name, set()).add(one.cell.id)
    columns = ("cell", *(("host",) if several else ()), "figure", "runs", "history", "latest", "±", "changes")
    rows: list[tuple[Value, ...]] = []
    for one in cut:
        last = one.points[-1].estimate
        marked = f"{one.machine}, synthetic" if one.synthetic else one.machine
        rows.append(
            (
                # Different cells with one name: other seeds or other disks.
                f"{one.cell.name} ({one.cell.id[:8]})" if len(ids[one.cell.name]) > 1 else one.cell.name,
                *(*((f"{one.host} ({marked})",) if several else ()), one.metric, str(len(one.points))),
                *(one.bars, figure(last.mean, METRICS[one.metric])),
                percent(last.relative) if last.relative is not None else "",
                "; ".join(_dated(one, change) for change in one.changes),
            )
        )
    left = (f"{len(told) - len(cut):,} more; {HINT}",) if len(told) > len(cut) else ()
    warned = warnings(point.samples.run for one in told for point in one.points)
    return Grid(columns, rows, (*warned, *left), frozenset({"runs", "latest", "±"}))


def _run(point: Point) -> tuple[Value, ...]:
    run = point.samples.run
    return (run.name, run.started, ", ".join(point.samples.kernels), run.revision)


def _bounds(estimate: Estimate) -> tuple[Value, ...]:
    return (estimate.mean, *estimate.bounds, estimate.relative)


def _step(change: Change | None) -> tuple[Value, ...]:
    if change is None:
        return (None, None, None, None)
    return (change.ratio.ratio, change.ratio.low, change.ratio.high, change.p)


def _words(change: Change, metric: str) -> str:
    more = change.ratio.ratio > 1
    faster = more == more_is_faster(metric)
    word = ("faster" if faster else "slower") if metric in COMPARED else "more" if more else "less"
    bounds = f"{times(change.ratio.low)} to {times(change.ratio.high)}"
    return f"{word} from here on: {times(change.ratio.ratio)} ({bounds})"


def _dated(one: Series, change: Change) -> str:
    return f"{times(change.ratio.ratio)} from {one.points[change.at].samples.run.started[:10]} on"


def _range(one: Series) -> str:
    values = [point.estimate.mean for point in one.points]
    unit = METRICS[one.metric]
    return f"from {figure(min(values), unit)} to {figure(max(values), unit)}"


def _count(changes: Sequence[Change]) -> str:
    return f"{len(changes)} change{'s' if len(changes) != 1 else ''} of level" if changes else "no change of level"
