"""The figures of a run as sections of the page: tables and charts of each workload, layout and job."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from typing import NamedTuple

from matrix_runner.answers.axes import determined_axes, grouped, names_of, varying_axes
from matrix_runner.answers.cell_figures import CellFigures
from matrix_runner.base.text import strip_illegal
from matrix_runner.pages import axis_charts
from matrix_runner.pages.charts import Chart, Line, chart, figure_and_interval, overview
from matrix_runner.pages.concerns import held_back_by
from matrix_runner.pages.effects import Effects, HeatMap, effects, heat_maps
from matrix_runner.pages.run_data import Past, RunData
from matrix_runner.pages.table import Grid, Sheet
from matrix_runner.pages.terminal import marks_of, outcome
from matrix_runner.pages.terminal_text import displayed_rate, doubt, figure
from matrix_runner.records.record import WORST, CellRow, Trial
from matrix_runner.statistics.stopping import Estimate, estimate_mean
from matrix_runner.work.metrics import ALL_SIDES, COSTS, FLUSH, OF_SYNC, SIDES, SYNC, TOTAL, sides_of

#: Limits of the page: rows of all tables, charts, rows of one chart. The CSV files have all.
MOST_ROWS, MOST_CHARTS, CHART_ROWS = 1000, 60, 24
BEFORE_FOLD = 12  # charts that the page shows at once; details have the others
_LEAST_IN_SECTION = 2  # charts of a section that are shown, if there are many sections
Picture = Chart | axis_charts.Plot | HeatMap
WIDTH, HEIGHT = 84, 18  # of the line of earlier runs, in pixels
_EDGE = 3  # room for the dot of that line
_LEAST_SPAN = 0.1  # of the values: smaller changes look small
_NONE = ("", "")
_SYNCS = "syncs"  # the columns of fsync and fdatasync
_COSTS = {one.name: one for one in COSTS}


@dataclass(frozen=True, slots=True)
class Sparkline:
    path: str
    end: tuple[float, float]
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    name: str
    texts: tuple[tuple[str, str], ...]
    trials: int
    outcome: str
    folder: str  # folder of its scripts and raw outputs, or empty
    bottleneck: str
    broken: bool
    doubtful: bool
    history: Sparkline | None  # None with fewer than two earlier runs


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    same: str  # axes that all cells share
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    pictures: tuple[Picture, ...]
    shown: int  # pictures before the fold
    is_cut: bool = False  # some charts are not drawn
    effects: Grid | None = None
    jobs: Grid | None = None  # None if no cell has several jobs

    @property
    def has_history(self) -> bool:
        return any(row.history for row in self.rows)

    @property
    def has_bottlenecks(self) -> bool:
        return any(row.bottleneck for row in self.rows)


def sections(
    recorded: RunData, *, rows: int = MOST_ROWS, charts: int = MOST_CHARTS, before: int = BEFORE_FOLD
) -> Iterator[Section]:
    """Make the sections, with `before` charts of all of them together before a fold."""
    groups, colours = _groups(recorded.summaries), axis_charts.choose_colours(recorded.cells)
    shown = max(_LEAST_IN_SECTION, ceil(before / max(1, len(groups))))
    for title, summaries in groups.items():
        if not rows:
            return
        made = _section(recorded, title, summaries, colours, rows, charts)
        made = replace(made, shown=min(shown, before, len(made.pictures)))
        rows -= len(made.rows)
        charts -= len(made.pictures)
        before -= made.shown
        yield made


def _groups(summaries: Sequence[CellFigures]) -> Mapping[str, list[CellFigures]]:
    layouts = dict[str, set[str]]()
    for one in summaries:
        layouts.setdefault(one.cell.workload, set()).add(one.cell.layout)
    cells = ((one.cell.layout, one.cell.workload, one) for one in summaries)
    return grouped((work if len(layouts[work]) > 1 else f"{layout} · {work}", one) for layout, work, one in cells)


def _section(
    recorded: RunData, title: str, summaries: Sequence[CellFigures], colours: axis_charts.Colours, rows: int, room: int
) -> Section:
    labels, same, differing = _labels([one.cell for one in summaries])
    columns = _columns([sides_of(one.figures) for one in summaries])
    if any(f"{SYNC}_bw" in one.figures for one in summaries):
        columns.insert(0, SYNC)
    if any(f"{FLUSH}_iops" in one.figures for one in summaries):
        columns.append(_SYNCS)
    columns += [cost for cost in _COSTS if any(_cost(recorded.by_cell[one.cell.id], cost) for one in summaries)]
    # A total has no latency.
    headings = {
        SYNC: (SYNC, "sync time"),
        _SYNCS: ("syncs", "sync p99"),
        **{name: (one.heading + " (emulated)" * recorded.emulated,) for name, one in _COSTS.items()},
        TOTAL: (TOTAL,),
        "rate": ("rate", "p99"),
        **{side: (side, f"{side} p99") for side in SIDES},
    }
    named = list(zip(labels, summaries, strict=True))
    axes = axis_charts.free_axes([one.cell for one in summaries])
    short = {**_short([*dict.fromkeys((*differing, *axes))]), "layout": "layout"}
    group = axis_charts.Group(title, tuple(one for one in named if "total_bw" in one[1].figures), short, colours)
    found = None
    if room > 0 and group.cells:
        found = effects(group, recorded.by_cell, recorded.confidence, steered=recorded.steered)
    possible = _pictures(recorded, named, group, differing, found)
    drawn = tuple(islice(possible, max(0, room)))
    is_cut = bool(group.cells) if room <= 0 else next(possible, None) is not None
    return Section(
        title,
        same,
        tuple(heading for column in columns for heading in headings[column]),
        tuple(_row(recorded, label, one, columns) for label, one in named[:rows]),
        drawn,
        len(drawn),
        is_cut,
        found.table if found else None,
        job_grid(named[:rows], rows=MOST_ROWS),
    )


def _pictures(
    recorded: RunData,
    named: Sequence[tuple[str, CellFigures]],
    group: axis_charts.Group,
    differing: Sequence[str],
    found: Effects | None,
) -> Iterator[Picture]:
    """Yield the charts that fit what varies: the most important first, and each only when it is asked for."""
    yield from filter(None, _charts(named, group.about, differing))
    if not group.cells:
        return
    yield from heat_maps(group)
    yield from axis_charts.plots(group)
    if waits := axis_charts.waiting(group, recorded.by_cell, recorded.rule):
        yield waits
    if found:
        yield found.chart
    for side in ALL_SIDES:
        if curve := axis_charts.distribution(group, side, recorded.by_cell):
            yield curve


def _columns(sides: Sequence[Sequence[str]]) -> list[str]:
    """Return the column groups: the total of mixed work and each direction, or one if each cell has one direction."""
    found = [side for side in (TOTAL, *SIDES) if any(side in of_cell for of_cell in sides)]
    return ["rate"] if len(found) > 1 and all(len(of_cell) < 2 for of_cell in sides) else found


def _labels(cells: Sequence[CellRow]) -> tuple[list[str], str, list[str]]:
    """Return a label for each cell, what all cells share, and the axes in which they differ."""
    every = [cell.axes for cell in cells]
    differing = varying_axes(every, {"workload"})
    shared = [name for name in names_of(every) if name not in {"workload", "layout", *differing}]  # the title has these
    axes = [name for name in names_of(every) if name in {*differing, *shared}]
    if "layout" in differing:
        along = determined_axes(every, "layout", differing)
        differing = [name for name in differing if name == "layout" or name not in along]
    short = _short(axes)
    labels = [_format_axes(cell, differing, short) for cell in cells]
    if not all(labels) or len(set(labels)) < len(labels):
        return [cell.name for cell in cells], "", differing
    return labels, _format_axes(cells[0], shared, short), differing


def _short(axes: Sequence[str]) -> Mapping[str, str]:
    last = {name: name.rpartition(".")[2] for name in axes}
    often = Counter(last.values())
    return {name: one if often[one] == 1 else name for name, one in last.items()}


def _format_axes(cell: CellRow, axes: Sequence[str], short: Mapping[str, str]) -> str:
    found = ((name, cell.axes[name]) for name in axes if name in cell.axes)
    return ", ".join(value if name == "layout" else f"{short[name]}={value}" for name, value in found)


def _row(recorded: RunData, label: str, summary: CellFigures, columns: Sequence[str]) -> Row:
    trials = recorded.by_cell[summary.cell.id]
    has_folder = not recorded.archived and any(trial.folder for trial in trials)
    return Row(
        label,
        summary.cell.name,
        tuple(text for column in columns for text in _texts(summary, column, recorded)),
        summary.measured,
        outcome(summary),
        f"cells/{strip_illegal(summary.cell.name)}/" if has_folder else "",
        held_back_by(trials),
        summary.outcome in WORST,
        bool(marks_of(summary)),
        _history(recorded, summary),
    )


def _history(recorded: RunData, summary: CellFigures) -> Sparkline | None:
    past, name = recorded.history.get(summary.cell.id, ()), summary.headline
    if len(past) < 2 or not name:  # two points are no line
        return None
    return sparkline(past, summary.figures[name], "bytes/s" if name.endswith("_bw") else "1/s")


def _cost(trials: Sequence[Trial], name: str) -> list[float]:
    found = (getattr(one.facts, name) for one in trials if one.counted)
    return [one for one in found if one is not None]


def _texts(summary: CellFigures, column: str, recorded: RunData) -> tuple[tuple[str, str], ...]:
    sides = sides_of(summary.figures)
    if column in _COSTS:
        costs = _cost(recorded.by_cell[summary.cell.id], column)
        mean = estimate_mean(costs, recorded.rule, summary.stopped) if costs else None
        return (figure_and_interval(mean, _COSTS[column].unit),)
    if column == SYNC:
        return tuple(figure_and_interval(summary.figures.get(f"{SYNC}_{name}"), unit) for name, unit in OF_SYNC.items())
    if column == _SYNCS:
        return figure_and_interval(summary.figures.get(f"{FLUSH}_iops"), "1/s"), _tail(summary, FLUSH)
    if column == TOTAL:
        return (_rate(summary, TOTAL) if TOTAL in sides else _NONE,)
    if column in SIDES:
        return _rate(summary, column), _tail(summary, column)
    for side in sides:
        rate, known = _rate(summary, side)
        return (f"{side} {rate}", known), _tail(summary, side)
    return _NONE, _NONE


def _rate(summary: CellFigures, side: str) -> tuple[str, str]:
    unit, found = _rate_of(summary, side) or ("", None)
    return figure_and_interval(found, unit)


def _rate_of(summary: CellFigures, side: str) -> tuple[str, Estimate] | None:
    bw, iops = (summary.figures.get(f"{side}_{measure}") for measure in ("bw", "iops"))
    found = displayed_rate(bw, iops)
    return ("bytes/s" if found is bw else "1/s", found) if found else None


def _tail(summary: CellFigures, side: str) -> tuple[str, str]:
    return figure_and_interval(summary.figures.get(f"{side}_lat_p99"), "ns")


def _charts(named: Sequence[tuple[str, CellFigures]], about: str, axes: Sequence[str]) -> Iterator[Chart | None]:
    """Draw bandwidths, request rates and latencies in separate charts, because their units differ."""
    named = [(f"{label}{marks_of(summary)}", summary) for label, summary in named]
    cells = {label: summary.cell for label, summary in named}
    for unit, what in (("bytes/s", "bandwidth"), ("1/s", "requests per second")):
        yield _chart(f"{about}: {what}", unit, _lines(named, unit), cells, axes)
    tails: list[Line] = []
    for label, summary in named:
        if found := {side: one for side in ALL_SIDES if (one := summary.figures.get(f"{side}_lat_p99"))}:
            tails.append((label, found))
    yield _chart(f"{about}: 99 % of the requests took at most", "ns", tails, cells, axes)


def _chart(
    title: str, unit: str, lines: Sequence[Line], cells: Mapping[str, CellRow], axes: Sequence[str]
) -> Chart | None:
    """Draw a row for each cell, or, if they are too many, for each value of one axis: the layout, if it varies."""
    if len(lines) <= CHART_ROWS or not axes:
        return chart(title, unit, lines, most=CHART_ROWS)
    counts = {axis: len({cell.axes.get(axis) for cell in cells.values()}) for axis in axes}
    along = min(axes, key=lambda axis: (axis != "layout", counts[axis] > CHART_ROWS, -counts[axis]))
    name = _short(axes)[along]
    valued = ((cells[line[0]].axes.get(along, "none"), line) for line in lines)
    groups = grouped((value if along == "layout" else f"{name}={value}", line) for value, line in valued)
    return overview(title, unit, groups, name, most=CHART_ROWS)


def _lines(named: Sequence[tuple[str, CellFigures]], unit: str) -> list[Line]:
    found: list[Line] = []
    for label, summary in named:
        rates = {side: rate for side in sides_of(summary.figures) if (rate := _rate_of(summary, side))}
        if sync := summary.figures.get(f"{SYNC}_bw"):
            rates[SYNC] = ("bytes/s", sync)
        if here := {side: one for side, (of, one) in rates.items() if of == unit}:
            found.append((label, here))
    return found


def sparkline(past: Sequence[Past], now: Estimate, unit: str) -> Sparkline:
    """Draw the means of earlier runs, the oldest first, and of this one, with the same distance between runs."""
    values = [*(one.mean for one in past), now.mean]
    low, high = min(values), max(values)
    span = max(high - low, _LEAST_SPAN * high) or 1.0
    bottom = (low + high - span) / 2
    across, up = WIDTH - 2 * _EDGE, HEIGHT - 2 * _EDGE
    places = [
        (
            round(_EDGE + across * number / (len(values) - 1), 1),
            round(_EDGE + up * (1 - (value - bottom) / span), 1),
        )
        for number, value in enumerate(values)
    ]
    earlier = [one.mean for one in past]
    between = " to ".join(dict.fromkeys(figure(one, unit) for one in (min(earlier), max(earlier))))
    runs = f"{len(past)} earlier run{'s' if len(past) > 1 else ''} since {past[0].started[:10]}"
    text = f"{runs}: {between}, the last {figure(earlier[-1], unit)}; this run {figure(now.mean, unit)}"
    return Sparkline(" ".join(f"{x:g},{y:g}" for x, y in places), places[-1], text)


_ID = ("cell", "job", "direction")
#: Headings and units by the names of figures.
_SHOWN = {
    "iops": ("requests", "1/s"),
    "bw": ("bandwidth", "bytes/s"),
    "lat_p50": ("p50", "ns"),
    "lat_p99": ("p99", "ns"),
}


class _Row(NamedTuple):
    id: tuple[str, str, str]
    figures: Mapping[str, Estimate]  # by the names in `_SHOWN`

    def texts(self, name: str) -> tuple[str, str]:
        return figure_and_interval(self.figures.get(name), _SHOWN[name][1])

    def doubt(self, name: str) -> str:
        return doubt(self.figures.get(name))


def job_sheet(summaries: Iterable[CellFigures], *, rows: int = 50) -> Sheet | None:
    """Return the table for the terminal; None if no cell has several jobs."""
    found = list(_rows((one.cell.name, one) for one in summaries))
    if not found:
        return None
    columns = (*_ID, "requests", "bandwidth", "±", "p50", "± p50", "p99", "± p99")
    left = f"; {len(found) - rows:,} more rows in report.html" if len(found) > rows else ""
    return Sheet(
        columns,
        [_job_texts(row) for row in found[:rows]],
        right=frozenset(columns[len(_ID) :]),
        title=f"jobs of these cells{left}",
        spare=("± p50", "p50", "bandwidth", "± p99"),
    )


def _job_texts(row: _Row) -> tuple[str, ...]:
    requests, bandwidth, p50, p99 = (row.texts(name)[0] for name in _SHOWN)
    bw, iops = row.figures.get("bw"), row.figures.get("iops")
    doubt = row.doubt("bw" if displayed_rate(bw, iops) is bw else "iops")
    return (*row.id, requests, bandwidth, doubt, p50, row.doubt("lat_p50"), p99, row.doubt("lat_p99"))


def job_grid(named: Sequence[tuple[str, CellFigures]], *, rows: int) -> Grid | None:
    """Return the table for the page, from labels and summaries of cells; None if no cell has several jobs."""
    found = list(_rows(named))
    if not found:
        return None
    headings = [heading for title, _ in _SHOWN.values() for heading in (title, f"{title}, interval")]
    left = f"{len(found) - rows:,} more rows are left out; jobs.csv has the trials of all jobs"
    notes = (left,) if len(found) > rows else ()
    texts = [(*row.id, *(text for name in _SHOWN for text in row.texts(name))) for row in found[:rows]]
    return Grid((*_ID, *headings), texts, notes, right=frozenset(headings))


def _rows(named: Iterable[tuple[str, CellFigures]]) -> Iterator[_Row]:
    for label, summary in named:
        for job, figures in summary.jobs.items():
            for side in ALL_SIDES:
                if found := {name: one for name in _SHOWN if (one := figures.get(f"{side}_{name}"))}:
                    yield _Row((label, job, side), found)
