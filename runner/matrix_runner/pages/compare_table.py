"""A comparison as a table, for people and for programs, and as one HTML page."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import exp, inf

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.comparison import Comparison, Line, Speed, Suspect, effort_to_tell, noise_floor
from matrix_runner.answers.history import Alarm, Series, find_alarms
from matrix_runner.answers.pairs import Side, differences
from matrix_runner.answers.stored_samples import more_is_faster, unit_of
from matrix_runner.base.findings import few
from matrix_runner.language.references import KnownChange, format_change
from matrix_runner.pages.charts import Chart, RatioLine, ratio_chart
from matrix_runner.pages.run_data import Section
from matrix_runner.pages.table import HINT, Grid, Value, more_lines, ratio_values
from matrix_runner.pages.terminal_text import figure, percent, ratio_texts, times, times_within

_FEW_FIGURES = 40  # with fewer, one or two figures decide the noise floor
_FEW_EFFORTS = 3
_APART = 0.02  # the largest difference between the ratio of geometric means and that of shown means without a note


def data_table(done: Comparison) -> Grid:
    head = ("name", "cell_a", "cell_b", "metric", "a", "b", "ratio", "ratio_low", "ratio_high", "p", "verdict")
    by_side = [f"{name}_{side}" for name in ("trials", "values", "stopped", "host_limited") for side in "ab"]
    columns = (*head, "within", "confidence", "paired", "earlier_runs", *by_side)
    rows: list[tuple[Value, ...]] = [
        (
            *(line.name, *line.cells, line.metric, *line.means),
            *(*ratio_values(line.ratio), line.ratio.p if line.ratio else None),
            *(line.speed.value, done.within, done.confidence),
            *((line.ratio.paired, line.ratio.foreseen) if line.ratio else (None, None)),
            *(trials for trials, _ in line.host_limited),
            *((line.ratio.n_a, line.ratio.n_b) if line.ratio else (None, None)),
            *line.stopped,
            *(host_limited for _, host_limited in line.host_limited),
        )
        for line in done.lines
    ]
    blank: tuple[Value, ...] = (None,)
    rows += [
        (one.name, *blank * 9, f"{one.why} in {one.side}", *blank * (len(columns) - len(head))) for one in done.missing
    ]
    return Grid(columns, rows, (*done.notes, *_caveats(done)))


def display_table(done: Comparison, *, most: int | None, hint: str = HINT) -> Grid:
    order = {speed: number for number, speed in enumerate(Speed)}
    lines = sorted(done.lines, key=lambda line: (order[line.speed], -_distance(line)))
    cut = lines if most is None else lines[:most]
    rows: list[tuple[Value, ...]] = [
        (
            *(line.name, line.metric),
            *(figure(mean, unit_of(line.metric), min(filter(None, line.means), default=None)) for mean in line.means),
            *ratio_texts(line.ratio),
            f"{line.speed.value}{', measured again' * bool(line.again)}{' (!)' if line.doubtful else ''}",
        )
        for line in cut
    ]
    columns = ("cell", "figure", f"A: {done.a.name}", f"B: {done.b.name}", "B / A", "interval", "B is")
    more = more_lines(len(lines) - len(cut), hint) if len(cut) < len(lines) else ""
    about = (_summary(done), *_efforts(done), *describe_again(done), *describe_alarms(done))
    known = describe_known(done.lines, "accepted, and part of what B is compared with", "remove or end its entry")
    notes = filter(None, (*done.notes, *about, *known, more, *_ratio_notes(done), *_caveats(done)))
    return Grid(columns, rows, tuple(notes), frozenset(columns[2:6]))


def describe_alarms(done: Comparison) -> list[str]:
    """Describe the slower figures by cause; a list of single cells is the table itself."""
    alarms = find_alarms(done.lines)
    if all(len(alarm.figures) == 1 for alarm in alarms):
        return []
    return [f"slower together: {alarm.name}: {describe_alarm(alarm)}" for alarm in alarms]


_AGAIN = {
    (True, True): "confirmed: slower when measured again, too",
    (True, False): "not refuted: slower, but what was measured again alone cannot tell",
    (False, False): "went away: not slower when measured again",
}


_SUSPECTS = {
    Suspect.KERNEL: "the old kernel {} is faster tonight, so it is the kernel",
    Suspect.HOST: "the old kernel {} is slow tonight as well, so the host or its disks changed",
    Suspect.BOTH: "the old kernel {} is faster tonight, but slower than before: the kernel, and the host or its disks",
    Suspect.UNKNOWN: "trials on the old kernel {} cannot tell whether it is the kernel",
}


def describe_again(done: Comparison) -> Iterator[str]:
    """Say what became of the figures that were slower in the planned rounds, and were measured again."""
    for what, lines in grouped((_again(line), line) for line in done.lines if line.again).items():
        yield f"{what}: {few(f'{one.name} ({one.metric} {times(exp(one.log_speed))})' for one in lines)}"


def _again(line: Line) -> str:
    found = _AGAIN[line.speed is Speed.SLOWER, line.again is Speed.SLOWER] if line.again else ""
    return f"{found}; {_SUSPECTS[line.suspect].format(line.old_kernel)}" if line.suspect else found


def describe_line(line: Line) -> str:
    before, now = (figure(mean, unit_of(line.metric)) for mean in line.means)
    found = line.ratio
    ratio = f", {times_within(found.ratio, found.low, found.high)}" if found else ""
    return "; ".join(filter(None, (f"{before} \u2192 {now}{ratio}", _again(line))))


def confirmed(done: Comparison) -> Iterator[Section]:
    """Yield the section of a run with `--confirm`, if figures were measured again."""
    lines = [line for line in done.lines if line.again]
    if lines:
        table = display_table(replace(done, lines=lines), most=MOST_LINES)
        cases = [(f"{one.name} {one.metric}", one.speed is Speed.SLOWER, describe_line(one)) for one in lines]
        source = f"the rounds after the planned ones, against {_describe_side(done.a)}"
        yield Section("Measured again", source, table, {}, [*describe_again(done), *describe_alarms(done)], cases)


def describe_alarm(alarm: Alarm[Line]) -> str:
    line, count = alarm.figures[0], len(alarm.figures)
    strongest = f"{line.metric} {describe_line(line)}"
    if count == 1:
        return strongest
    return f"{count:,} figures, {times(alarm.speed)} as fast on average; most {line.name}: {strongest}"


def describe_known(figures: Iterable[Line | Series], accepted: str, remedy: str) -> Iterator[str]:
    """Describe the accepted changes of figures, and what became of them."""
    for several in grouped((id(change), (change, one)) for one in figures for change in one.known).values():
        change, text = several[0][0], describe_change(several[0][0])
        yield f"{accepted} in {len(several):,} figures: {text}"
        if gone := sum(any(change is other for other in one.gone) for _, one in several):
            yield f"gone in {gone:,} of {len(several):,} figures: {text}; {remedy}"


def describe_change(change: KnownChange) -> str:
    about = f"{change.reason}{f' <{change.link}>' if change.link else ''}"
    until = f" until {change.until}" if change.until else ""
    return f"{format_change(change.change)} from {change.since}{until}: {about}"


def describe_noise_floor(done: Comparison) -> str:
    ratios = [line.ratio for line in done.lines if line.ratio]
    least = noise_floor(ratios)
    if least is None:
        return ""
    few_figures = f"{len(ratios)} figure{'s' if len(ratios) != 1 else ''}"
    rough = f" (a rough value, from {few_figures})" if len(ratios) < _FEW_FIGURES else ""
    return (
        "a run with itself: A is its odd rounds and B its even ones, so what differs is noise. Noise floor: if "
        f"such a run is repeated completely, 95 % of the figures differ by at most \u00b1{percent(least)}{rough}"
    )


def _ratio_notes(done: Comparison) -> Iterator[str]:
    quotients = [(*line.means, line.ratio.ratio) for line in done.lines if line.ratio]
    paired = ", over the rounds of both" if any(line.ratio.paired for line in done.lines if line.ratio) else ""
    if differing := sum(abs(b / a / ratio - 1) > _APART for a, b, ratio in quotients if a and b):
        yield (
            f"B / A is a ratio of geometric means{paired}: in {differing:,} of {len(done.lines):,} lines "
            f"it is more than {percent(_APART)} from the ratio of the means shown"
        )
    for (why, side), cells in grouped(((one.why, one.side), one.name) for one in done.missing).items():
        yield f"no ratio of {few(cells)}: {why} in {side}"


def _summary(done: Comparison) -> str:
    if not done.lines:
        return "B against A: no cell has figures on both sides"
    counts = Counter(line.speed for line in done.lines)
    return (
        f"B against A: {', '.join(f'{counts[speed]} {speed}' for speed in Speed)}; same is within "
        f"±{percent(done.within)}; intervals of {done.confidence * 100:g} %, "
        f"verdicts corrected for {len(done.lines)} comparison{'s' if len(done.lines) > 1 else ''}"
    )


def _efforts(done: Comparison) -> Iterator[str]:
    """Say how many trials would decide the figures that cannot tell, the slowest first."""
    lines = sorted((line for line in done.lines if line.speed is Speed.UNKNOWN), key=lambda line: line.log_speed)
    efforts = [(line, effort_to_tell(done, line)) for line in lines[:_FEW_EFFORTS]]
    needed = [f"{line.name} ({line.metric}) takes about {found[0]:,} {found[1]}" for line, found in efforts if found]
    if needed:
        yield f"cannot tell yet: {', '.join(needed)} on each side"


def _caveats(done: Comparison) -> Iterator[str]:
    limited = any(one.host_limited for side in (done.a, done.b) for one in side.found)
    by_line = [line.host_limited for line in done.lines] if limited else []
    sides = [[line[at] for line in by_line] for at in (0, 1)]
    doubts = [
        f"{name} ({side.name}) in {sum(some for _, some in counts):,} of {sum(of for of, _ in counts):,} trials"
        for name, side, counts in zip("AB", (done.a, done.b), sides, strict=True)
        if any(some for _, some in counts)
    ]
    if doubts:
        lines = sum(line.doubtful for line in done.lines)
        rest = f"{lines:,} of {len(done.lines):,} verdicts use such trials, and may describe the host"
        yield f"(!) host-limited trials (the host was too slow or too busy): {'; '.join(doubts)}; {rest}"
    if differing := differences(done.a, done.b):
        yield "the environments differ, which may be the reason for a difference:"
        yield from (f"  {name}: {left} → {right}" for name, left, right in differing)


def _distance(line: Line) -> float:
    ratio = line.ratio.ratio if line.ratio else 1.0
    return max(ratio, 1 / ratio)


MOST_DOTS, MOST_LINES = 100, 500  # rows of the chart and of the table
_ABOUT = (
    "A row for each figure, the slowest first: a dot for how many times as fast B is as A, 1 in the middle, and a line "
    "for its interval. Differences in the shaded part count as equal. The table has the same figures."
)


def page(done: Comparison) -> bytes:
    from matrix_runner.pages.html import render_page  # brings templates along

    return render_page(
        "compare.html.j2",
        title=f"{done.b.name} against {done.a.name}",
        sides={"A": _describe_side(done.a), "B": _describe_side(done.b)},
        chart=_ratios(done),
        table=display_table(done, most=MOST_LINES, hint="`matrix compare --format csv` has all"),
        within=percent(done.within),
        confidence=f"{done.confidence * 100:g}",
        count=len(done.lines),
        has_latencies=any(not more_is_faster(line.metric) for line in done.lines),
        invented=any(run.synthetic for side in (done.a, done.b) for run in side.runs),
    )


def _describe_side(side: Side) -> str:
    runs = few((run.name for run in side.runs), 3)
    return side.name if runs in {"", side.name} else f"{side.name} ({runs})"


def _ratios(done: Comparison) -> Chart | None:
    lines = sorted(_ratio_lines(done), key=lambda line: line.ratio.ratio)
    if not lines:
        return None
    title = "Speed of B, as a multiple of that of A"
    if (left := len(lines) - MOST_DOTS) > 0:
        half = MOST_DOTS // 2
        lines = [*lines[:half], *lines[-half:]]
        title += f" (the {half} slowest and the {half} fastest; {left:,} more are in the table)"
    return ratio_chart(title, lines, about=_ABOUT, equal=done.within)


def _ratio_lines(done: Comparison) -> Iterator[RatioLine]:
    """Yield how many times as fast B is: for latencies, the inverse of their ratio."""
    figures = Counter(line.name for line in done.lines)
    for line in done.lines:
        if line.ratio and 0 < line.ratio.ratio < inf:
            what = f"{line.name}, {line.metric}" if figures[line.name] > 1 else line.name
            label = f"{what}: {times(line.ratio.ratio)}, {line.speed.value}{' (!)' if line.doubtful else ''}"
            speed = line.ratio if more_is_faster(line.metric) else line.ratio.inverse
            yield RatioLine(label, speed, line.speed.value)
