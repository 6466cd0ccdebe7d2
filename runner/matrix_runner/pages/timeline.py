"""History of a figure of a cell over all runs, with uncertainty and level changes."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.history import Alarm, Series
from matrix_runner.answers.selectors import describe_synthetic
from matrix_runner.answers.stored_samples import is_compared, more_is_faster, unit_of
from matrix_runner.pages import axis_charts
from matrix_runner.pages.charts import Tick, end_of, spared, ticks
from matrix_runner.pages.table import HINT, Grid, Value, estimate_values, ratio_values
from matrix_runner.pages.terminal_text import doubt, figure, legend, times, times_within
from matrix_runner.statistics.changes import ENOUGH_NIGHTS, Change, History

_BARS = "▁▂▃▄▅▆▇█"
_MOST_RUNS = 120  # of a chart, the latest
_WIDTH = 60  # the longest line of bars. Later runs take precedence.


def _bars(one: Series) -> str:
    values = [point.estimate.mean for point in one.points]
    least, span = min(values), max(values) - min(values)
    steps = {change.at for change in one.changes if change.certain}
    begin = max(0, len(values) - _WIDTH)
    drawn = [_BARS[round((value - least) / span * 7) if span else 3] for value in values]
    return "".join(f"|{bar}" if at in steps else bar for at, bar in enumerate(drawn[begin:], start=begin))


def history_plots(series: Sequence[Series]) -> Iterator[axis_charts.Plot]:
    """Draw a chart for each figure of a workload at each place: lines over runs, the highest ones."""
    keyed = (
        ((one.cell.axes.get("workload", ""), one.metric, one.machine, one.host, one.synthetic), one) for one in series
    )
    for (workload, metric, *_), several in grouped(keyed).items():
        starts = sorted({point.samples.run.started for one in several for point in one.points})[-_MOST_RUNS:]
        if len(starts) > 1:
            first, places = several[0], {start: 100 * at / (len(starts) - 1) for at, start in enumerate(starts)}
            where = f"{first.host or 'an unknown host'} ({first.machine}{', synthetic' * first.synthetic})"
            yield _plot(f"{workload}: {metric} on {where}", several, places)


def _plot(title: str, several: Sequence[Series], places: Mapping[str, float]) -> axis_charts.Plot:
    lines = [(one.cell.name, [at for at in one.points if at.samples.run.started in places]) for one in several]
    order = sorted(filter(itemgetter(1), lines), key=lambda line: -max(point.estimate.mean for point in line[1]))
    shown, unit = order[: axis_charts.MOST_SERIES], unit_of(several[0].metric)
    end = end_of(point.estimate for _, points in shown for point in points)
    drawn = [
        axis_charts.Series(
            name,
            tuple(
                axis_charts.estimated_point(round(places[run.started], 2), estimate, unit, end, run.name, samples)
                for samples, estimate in ((point.samples, point.estimate) for point in points)
                for run in (samples.run,)
            ),
        )
        for name, points in shown
    ]
    days = len({start[:10] for start in places})
    labels = dict[str, float]()
    for start, at in places.items():
        labels.setdefault(start[:10] if days > 1 else start[11:16], at)
    marks = [Tick(round(at, 2), text) for text, at in labels.items()]
    across = spared(marks[:: -(-len(marks) // 8)])
    about = "Lines over runs, the latest at the right; vertical lines are intervals. The table has changes of level."
    return axis_charts.Plot(title, about, tuple(drawn), across, ticks(end, unit, 100), len(order) - len(shown))


def data_table(series: Sequence[Series]) -> Grid:
    cell = ("cell", "name", "machine", "host", "synthetic", "figure", "run", "started", "kernel", "revision")
    step = ("change", "change_low", "change_high", "change_p")
    rows: list[tuple[Value, ...]] = []
    for one in series:
        steps = {change.at: change for change in one.changes}
        for at, point in enumerate(one.points):
            run, change = point.samples.run, steps.get(at)
            rows.append(
                (
                    *(one.cell.id, one.cell.name, one.machine, one.host, one.synthetic, one.metric),
                    *(run.name, run.started, ", ".join(point.samples.kernels), run.revision),
                    *(point.estimate.n, *estimate_values(point.estimate)),
                    *((*ratio_values(change.ratio), change.p) if change else (None,) * 4),
                )
            )
    columns = (*cell, "trials", "value", "value_low", "value_high", "value_rel", *step)
    return Grid(columns, rows, _warnings(series))


def display_table(series: Sequence[Series], *, most: int) -> Grid:
    return _points_table(series[0], most) if len(series) == 1 else _series_table(series, most)


def _points_table(one: Series, most: int) -> Grid:
    steps = {change.at: change for change in one.changes}
    begin = max(0, len(one.points) - most)
    unit = unit_of(one.metric)
    rows: list[tuple[Value, ...]] = []
    for at, point in enumerate(one.points[begin:], start=begin):
        samples, estimate = point.samples, point.estimate
        remarks = [_describe_change(steps[at], one.metric)] if at in steps else []
        counts = ((samples.host_limited, "host-limited"), (samples.unsettled, "unsettled"))
        remarks += [f"(!) {count} {word}" for count, word in counts if count]
        rows.append(
            (
                *(samples.run.started[:16].replace("T", " "), samples.run.name, ", ".join(samples.kernels)),
                *(figure(estimate.mean, unit), doubt(estimate), str(estimate.n), "; ".join(remarks)),
            )
        )
    values = [point.estimate.mean for point in one.points]
    count = sum(change.certain for change in one.changes)
    possible, is_enough = len(one.changes) - count, len(one.points) >= ENOUGH_NIGHTS
    notes = [
        f"{one.cell.name}: {one.metric} on {one.host or 'an unknown host'} ({one.machine})",
        f"{_bars(one)}  lowest {figure(min(values), unit)}, highest {figure(max(values), unit)}",
        f"{len(one.points)} run{'s' if len(one.points) > 1 else ''}, "
        + (f"{count or 'no'} change{'s' if count > 1 else ''} of level" if is_enough or count else _TOO_FEW)
        + (f", {possible} possible" if possible else "")
        + (f"; the first {begin} are not shown" if begin else ""),
    ]
    notes += _describe_history(one.history)
    columns = ("started", "run", "kernel", one.metric, "±", "trials", "")
    notes += legend(str(row[-1]) for row in rows)
    return Grid(columns, rows, (*_warnings([one]), *notes), frozenset({one.metric, "±", "trials"}))


def _series_table(series: Sequence[Series], most: int) -> Grid:
    several = len({(one.host, one.machine) for one in series}) > 1
    ids = grouped((name, cell) for cell, name in {one.cell.id: one.cell.name for one in series}.items())
    rows: list[tuple[Value, ...]] = []
    for one in series[:most]:
        last = one.points[-1].estimate
        # Different cells with one name: other seeds or other disks.
        name = f"{one.cell.name} ({one.cell.id[:8]})" if len(ids[one.cell.name]) > 1 else one.cell.name
        host = f"{one.host} ({one.machine}{', synthetic' if one.synthetic else ''})"
        changes = [
            f"{'perhaps ' * (not change.certain)}{times(change.ratio.ratio)} "
            f"from {one.points[change.at].samples.run.started[:10]} on"
            for change in one.changes
        ]
        changes += _describe_history(one.history)
        rows.append(
            (
                *(name, *((host,) if several else ()), one.metric, str(len(one.points)), _bars(one)),
                *(figure(last.mean, unit_of(one.metric)), doubt(last)),
                "; ".join(changes),
            )
        )
    columns = ("cell", *(("host",) if several else ()), "figure", "runs", "history", "latest", "±", "changes")
    left = (f"{len(series) - most:,} more; {HINT}",) if len(series) > most else ()
    return Grid(columns, rows, (*_warnings(series), *left), frozenset({"runs", "latest", "±"}))


_TOO_FEW = f"too few to find a change of level, which takes {ENOUGH_NIGHTS}"
_FALSE_STEPS = "1 % of histories without a change show a step by chance"


def _warnings(series: Sequence[Series]) -> tuple[str, ...]:
    has_step = any(change.certain for one in series for change in one.changes)
    return (
        *describe_synthetic(point.samples.run for one in series for point in one.points),
        *((_FALSE_STEPS,) if has_step else ()),
    )


def _describe_change(change: Change, metric: str) -> str:
    more = change.ratio.ratio > 1
    faster = more == more_is_faster(metric)
    word = ("faster" if faster else "slower") if is_compared(metric) else "more" if more else "less"
    ratio = change.ratio
    text = f"{word} from here on: {times_within(ratio.ratio, ratio.low, ratio.high)}"
    return text if change.certain else f"perhaps {text}"


def _describe_history(history: History) -> list[str]:
    found = []
    if history.trend is not None:
        found.append(f"a drift, no step: {times(history.trend)} from the first run to the last")
    if history.newest is not None:
        found.append(f"the newest run alone is far off: {times(history.newest)} the runs before it")
    if history.correlation is not None:
        found.append(
            f"runs are correlated ({history.correlation:.1f} from one to the next), so chance makes steps, too"
        )
    if any(not change.certain for change in history.changes):
        found.append("perhaps: a step, chance, or runs that are correlated; more runs decide")
    if history.weekly:
        found.append("weekdays differ; changes are apart from that")
    return found


def describe_alarms(alarms: Sequence[Alarm[Series]]) -> list[str]:
    return [f"alarm: {describe_history_alarm(one)}" for one in alarms]


def describe_history_alarm(alarm: Alarm[Series]) -> str:
    count, strongest = len(alarm.figures), alarm.figures[0]
    figures = f"{count:,} figures, most {strongest.cell.name}" if count > 1 else strongest.metric
    when = f"from {alarm.first.started[:10]} ({alarm.first.name}) on" if alarm.first else "by a drift, no step"
    return f"{alarm.name}: {times(alarm.speed)} as fast {when}; {figures}"
