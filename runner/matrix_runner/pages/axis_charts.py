"""Charts over axes: lines with intervals, latency against rate, distributions of latency."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from typing import ClassVar

from matrix_runner.answers.axes import determined_axes, finite_number, in_order, is_numeric, varying_axes
from matrix_runner.answers.cell_figures import CellFigures
from matrix_runner.answers.stored_samples import Samples
from matrix_runner.base.quantities import parse_size, parse_time
from matrix_runner.pages.charts import Tick, end_of, interval, log_ticks, spared, ticks
from matrix_runner.pages.terminal_text import SOME_HOST_LIMITED, figure, host_limited_mark
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.statistics.percentile import merge
from matrix_runner.statistics.stopping import Estimate, Rule, estimate_mean
from matrix_runner.work.metrics import SIDES

MOST_SERIES = 6  # lines of a chart; more could not be told apart
_LEAST_POINTS = 3  # of a line
_DEPTH = "workload.iodepth"
_WAITING = 0.05  # the least share of waiting (iowait) that has a chart
_SHARES = (0.001, 0.01, *(number / 20 for number in range(1, 20)), 0.98, 0.99, 0.995, 0.998, 0.999, 1.0)


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    text: str
    low: float | None = None
    high: float | None = None
    host_limited: bool = False


def point(at: float, end: float, value: float, top: float, text: str) -> Point:
    """Return a point without an interval. `end`, `top`: the largest values of both axes."""
    return Point(round(100 * at / end, 2), round(100 - 100 * value / top, 2), text)


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[Point, ...]
    colour: int = 0  # from 1; 0: that of its place in the chart, which its pattern has too
    dash: int = 0

    @property
    def path(self) -> str:
        return " ".join(f"{one.x:g},{one.y:g}" for one in self.points)

    @property
    def host_limited(self) -> bool:
        return any(one.host_limited for one in self.points)


@dataclass(frozen=True, slots=True)
class Plot:
    kind: ClassVar[str] = "plot"
    title: str
    about: str
    series: tuple[Series, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    left: int = 0  # number of lines that are not drawn
    dots: bool = True
    height: int = 270

    @property
    def note(self) -> str:
        return SOME_HOST_LIMITED if any(one.host_limited for one in self.series) else ""


COLOURS = 8  # as many as the page has; explore_views.js has as many


@dataclass(frozen=True, slots=True)
class Colours:
    """Numbers of colours, from 1, by the values of one axis."""

    axis: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)  # lines along the axis, by their names

    def number(self, name: str, cells: Iterable[CellRow]) -> int:
        """Return the colour of a line. One whose cells differ in the axis keeps the colour that it got first."""
        values = {cell.axes.get(self.axis, "") for cell in cells}
        if len(values) == 1 and (known := self.numbers.get(values.pop())):
            return known
        return self._others.setdefault(name, len(self._others) % COLOURS + 1)


def choose_colours(cells: Sequence[CellRow]) -> Colours:
    names = varying_axes([cell.axes for cell in cells])
    axes = {name: [cell.axes.get(name, "") for cell in cells] for name in names}
    axis = colour_axis(axes)
    values = in_size_order(dict.fromkeys(axes.get(axis, ())))
    return Colours(axis, {value: min(at, COLOURS) for at, value in enumerate(values, start=1)})


def colour_axis(axes: Mapping[str, Sequence[str]]) -> str:
    """Return the axis that colours show, from the values of all cells: the run, the layout or the first one."""
    return next((name for name in ("run", "layout") if name in axes), next(iter(independent(axes)), ""))


def independent(axes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the axes whose value does not follow from that of an earlier one."""
    found: list[str] = []
    for name, values in axes.items():
        if not any(len(set(zip(axes[by], values, strict=True))) == len(set(axes[by])) for by in found):
            found.append(name)
    return found


def in_size_order(values: Iterable[str]) -> list[str]:
    """Sort numbers, sizes and times by size; words keep their order. A missing value is last."""
    given = sorted(values, key=lambda value: value == "")
    words = [value for value in given if value]
    for number in (float, parse_size, parse_time):
        try:
            return [*sorted(words, key=number), *given[len(words) :]]
        except (ValueError, TypeError):
            continue
    return given


@dataclass(frozen=True)
class Group:
    """The cells of one workload that have figures, and the axes that vary on their own."""

    about: str
    cells: tuple[tuple[str, CellFigures], ...]
    names: Mapping[str, str]  # short names of axes
    colours: Colours = field(default_factory=Colours)

    @cached_property
    def metric(self) -> tuple[str, str, str]:
        small = all(str(one.headline).endswith("iops") for _, one in self.cells)
        return ("total_iops", "1/s", "IOPS") if small else ("total_bw", "bytes/s", "bandwidth")

    @cached_property
    def axes(self) -> list[str]:
        return free_axes([one.cell for _, one in self.cells])

    def ordered(self, axes: Sequence[str]) -> list[str]:
        found = [axis for axis in axes if is_numeric(axis, self.values(axis))]
        return sorted(found, key=lambda axis: -len(self.values(axis)))

    def values(self, axis: str) -> list[str]:
        if axis not in self._values:
            self._values[axis] = in_order(one.cell.axes[axis] for _, one in self.cells if axis in one.cell.axes)
        return self._values[axis]

    def lines(self, axis: str) -> Mapping[str, list[CellFigures]]:
        """Return the cells of each line in order of the axis, the highest line first."""
        if axis not in self._lines:
            self._lines[axis] = _lines_along(self, axis)
        return self._lines[axis]

    @cached_property
    def _values(self) -> dict[str, list[str]]:
        return {}

    @cached_property
    def _lines(self) -> dict[str, Mapping[str, list[CellFigures]]]:
        return {}


def coloured(group: Group, lines: Iterable[Series], cells: Mapping[str, Sequence[CellRow]]) -> tuple[Series, ...]:
    """Give each line its colour, and a pattern that no other line of the chart has: if it can, that of the colour."""
    made, free = list[Series](), list(range(1, COLOURS + 1))
    for line in lines:
        colour = group.colours.number(line.name, cells[line.name])
        dash = colour if colour in free else free[0]
        free.remove(dash)
        made.append(replace(line, colour=colour, dash=dash))
    return tuple(made)


def free_axes(cells: Sequence[CellRow]) -> list[str]:
    """Return the axes in which cells differ, the layout first, without those that it determines, such as the level.

    A number that differs between all layouts, such as the stripes of `stripe-1` to `stripe-4`, replaces the layout.
    """
    axes = [cell.axes for cell in cells]
    differing = varying_axes(axes, {"workload"})
    if "layout" not in differing:
        return differing
    others = [name for name in differing if name != "layout"]
    same = determined_axes(axes, "layout", others)
    ordered = (name for name in same if is_numeric(name, (one.get(name, "") for one in axes)))
    number = next((name for name in ordered if determined_axes(axes, name, ["layout"])), "layout")
    return [number, *(name for name in others if name not in same)]


def plots(group: Group) -> Iterator[Plot]:
    axes = group.axes
    ordered = [axis for axis in group.ordered(axes) if len(group.values(axis)) >= _LEAST_POINTS]
    for axis in dict.fromkeys((*ordered[:1], *(name for name in ordered if name == _DEPTH))):
        name, unit, what = group.metric
        if made := _lines(group, axis, what, unit, {one.cell.id: one.figures[name] for _, one in group.cells}):
            yield made
    if _DEPTH in ordered:
        for side in SIDES:
            if made := _knee(group, side):
                yield made


def _lines_along(group: Group, axis: str) -> Mapping[str, list[CellFigures]]:
    others = [name for name in group.axes if name != axis]
    name, *_ = group.metric
    found: dict[str, list[CellFigures]] = {}
    for _, one in group.cells:
        if axis in one.cell.axes:
            places = ((other, one.cell.axes[other]) for other in others if other in one.cell.axes)
            label = ", ".join(v if other == "layout" else f"{group.names[other]}={v}" for other, v in places)
            found.setdefault(label or group.about, []).append(one)
    lines = {
        label: sorted(several, key=lambda one: finite_number(one.cell.axes[axis]) or 0.0)
        for label, several in found.items()
        if len(several) > 1
    }
    order = sorted(lines, key=lambda label: -max(one.figures[name].mean for one in lines[label]))
    return {label: lines[label] for label in order}


def waiting(group: Group, trials: Mapping[str, Sequence[Trial]], rule: Rule) -> Plot | None:
    """Draw the share of the time in which processors waited for requests, along the longest ordered axis."""
    ordered = group.ordered(group.axes)
    if not ordered or len(group.values(ordered[0])) < _LEAST_POINTS:
        return None
    shares = {
        one.cell.id: estimate_mean(values, rule, one.stopped)
        for _, one in group.cells
        if (values := [at.facts.iowait for at in trials[one.cell.id] if at.counted and at.facts.iowait is not None])
    }
    if max((one.mean for one in shares.values()), default=0.0) < _WAITING:
        return None
    return _lines(group, ordered[0], "waiting of the processors (iowait)", "share", shares)


#: Cells by the name of their line.
_Lines = Mapping[str, Sequence[CellFigures]]


def _lines(group: Group, axis: str, what: str, unit: str, values: Mapping[str, Estimate]) -> Plot | None:
    lines = _known(group, axis, lambda one: one.cell.id in values, least=2)
    marks = group.values(axis)
    place = _places([finite_number(value) or 0.0 for value in marks])
    across = spared([Tick(place(finite_number(one) or 0.0), one) for one in marks[:: -(-len(marks) // 8)]])
    same = "trials.csv has the figures of each trial" if unit == "share" else "The table has the same figures"
    about = f"Lines over an axis; vertical lines are intervals. {same}."
    title = f"{group.about}: {what} by {group.names[axis]}"

    def point(one: CellFigures, end: float) -> Point:
        at = one.cell.axes[axis]
        return estimated_point(place(finite_number(at) or 0.0), values[one.cell.id], unit, end, at, one)

    return _draw(group, title, about, lines, lambda one: values[one.cell.id], point, across, unit)


def _knee(group: Group, side: str) -> Plot | None:
    """Draw latency against requests per second, from the smallest queue depth to the largest."""
    iops, tail = f"{side}_iops", f"{side}_lat_p99"
    lines = _known(group, _DEPTH, lambda one: {iops, tail} <= one.figures.keys(), least=_LEAST_POINTS)
    right = max((one.figures[iops].mean for several in _first(lines).values() for one in several), default=0) or 1.0
    about = "Each line goes from the smallest queue depth to the largest. The table has the same figures."
    title = f"{group.about}: {side} p99 against IOPS, by queue depth"

    def point(one: CellFigures, end: float) -> Point:
        rate = one.figures[iops].mean
        where = f"depth {one.cell.axes[_DEPTH]}, {figure(rate, '1/s')}"
        return estimated_point(round(100 * rate / right, 2), one.figures[tail], "ns", end, where, one)

    return _draw(group, title, about, lines, lambda one: one.figures[tail], point, ticks(right, "1/s", 100), "ns")


def _known(group: Group, axis: str, is_known: Callable[[CellFigures], bool], least: int) -> _Lines:
    lines = {label: [*filter(is_known, several)] for label, several in group.lines(axis).items()}
    return {label: several for label, several in lines.items() if len(several) >= least}


def _first(lines: _Lines) -> _Lines:
    return dict([*lines.items()][:MOST_SERIES])


def _draw(
    group: Group,
    title: str,
    about: str,
    lines: _Lines,
    estimate: Callable[[CellFigures], Estimate],
    point: Callable[[CellFigures, float], Point],
    across: tuple[Tick, ...],
    unit: str,
) -> Plot | None:
    """Draw the highest lines; None without any. `point` gets the end of the axis of the estimates."""
    if not (shown := _first(lines)):
        return None
    end = end_of(estimate(one) for several in shown.values() for one in several)
    made = [Series(label, tuple(point(one, end) for one in several)) for label, several in shown.items()]
    cells = {label: [one.cell for one in several] for label, several in shown.items()}
    left = len(lines) - len(shown)
    return Plot(title, about, coloured(group, made, cells), across, ticks(end, unit, 100), left)


def distribution(group: Group, side: str, trials: Mapping[str, Sequence[Trial]]) -> Plot | None:
    """Draw which share of the requests took at most how long: of the fastest cell of each layout."""
    name, *_ = group.metric
    best: dict[str, tuple[str, CellFigures]] = {}
    for label, one in sorted(group.cells, key=lambda item: -item[1].figures[name].mean):
        if f"{side}_lat_p99" in one.figures:
            best.setdefault(one.cell.axes.get("layout", ""), (label, one))
    curves: dict[str, list[tuple[float, float]]] = {}
    for label, fastest in [*best.values()][:MOST_SERIES]:
        sides = (getattr(trial.counted, side) for trial in trials[fastest.cell.id] if trial.counted)
        apart = [found for of in sides if of and of.latencies and (found := of.latencies.unpack()).total]
        if apart:
            whole = merge(apart)
            curves[label] = [(share, float(max(1, whole.at(share)))) for share in _SHARES]
    if not curves:
        return None
    best_of = dict(best.values())
    every = [value for curve in curves.values() for _, value in curve]
    place, across = log_ticks(min(every), max(every), "ns")
    made = tuple(
        Series(
            label,
            tuple(
                Point(place(value), round(100 - 100 * share, 2), text, host_limited=bool(best_of[label].host_limited))
                for share, value in curve
                for text in (f"{share * 100:g} %: {figure(value, 'ns')}",)
            ),
        )
        for label, curve in curves.items()
    )
    up = tuple(Tick(share, f"{share} %" if share else "0") for share in (0, 25, 50, 75, 100))
    about = "Share of the requests of all trials that took at most this long. The table has the 99 % points."
    which = f", the fastest cell ({next(iter(curves))})" if len(group.cells) > 1 else ""
    which = ", the fastest cell of each layout" if len(best) > 1 else which
    title = f"{group.about}: distribution of {side} latencies{which}"
    cells = {label: [one.cell] for label, one in best.values()}
    return Plot(title, about, coloured(group, made, cells), across, up, max(0, len(best) - MOST_SERIES), dots=False)


def _places(numbers: Sequence[float]) -> Callable[[float], float]:
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low >= 8:
        return lambda value: round(100 * log(value / low) / log(high / low), 2)
    return lambda value: round(100 * (value - low) / ((high - low) or 1.0), 2)


def estimated_point(
    x: float, estimate: Estimate, unit: str, end: float, where: str, one: CellFigures | Samples
) -> Point:
    low, high = (None if bound is None else round(100 - 100 * min(bound / end, 1), 2) for bound in estimate.bounds)
    known = interval(estimate, unit)
    text = f"{where}: {figure(estimate.mean, unit)}{f' ({known})' if known else ''}"
    text += host_limited_mark(one.host_limited, one.processor_limited)
    if high is None:  # the text has the lower bound
        low = None
    return Point(x, round(100 - 100 * estimate.mean / end, 2), text, low, high, bool(one.host_limited))
