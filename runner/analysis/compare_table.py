"""A comparison as a table, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.analysis.compare import Speed, differences
from runner.analysis.metrics import METRICS
from runner.reports.table import HINT, Grid
from runner.reports.terminal import percent
from runner.reports.terminal_text import figure, times
from runner.space.notes import few

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.analysis.compare import Comparison, Line, Missing
    from runner.reports.table import Value
    from runner.statistics.ratios import Ratio


#: The largest difference between the ratio of geometric means and that of shown means without a note.
_APART = 0.02


def data_table(done: Comparison) -> Grid:
    head = ("name", "cell_a", "cell_b", "metric", "a", "b", "ratio", "ratio_low", "ratio_high", "p", "verdict")
    columns = (
        *head,
        "within",
        "confidence",
        "paired",
        "earlier_runs",
        "trials_a",
        "trials_b",
        "values_a",
        "values_b",
        "stopped_a",
        "stopped_b",
        "host_limited_a",
        "host_limited_b",
    )
    rows: list[tuple[Value, ...]] = [
        (
            *(line.name, *line.cells, line.metric, *line.means),
            *_ratio_values(line.ratio),
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
    return Grid(columns, rows, (*done.notes, *_doubts(done), *_told(differences(done.a, done.b))))


def display_table(done: Comparison, *, most: int | None, hint: str = HINT) -> Grid:
    order = list(Speed)
    lines = sorted(done.lines, key=lambda line: (order.index(line.speed), -_distance(line)))
    cut = lines if most is None else lines[:most]
    rows: list[tuple[Value, ...]] = [
        (
            *(line.name, line.metric),
            *(figure(mean, METRICS[line.metric]) for mean in line.means),
            times(line.ratio.ratio) if line.ratio else "",
            f"{times(line.ratio.low)} to {times(line.ratio.high)}" if line.ratio and line.ratio.low else "",
            f"{line.speed.value}{' (!)' if line.doubtful else ''}",
        )
        for line in cut
    ]
    columns = ("cell", "figure", f"A: {done.a.name}", f"B: {done.b.name}", "B / A", "interval", "B is")
    notes = [_sentence(done)]
    if len(cut) < len(lines):
        notes.append(f"{len(lines) - len(cut):,} more lines; {hint}")
    notes += [*_of_means(done.lines), *_without_ratio(done.missing)]
    told = _told(differences(done.a, done.b))
    return Grid(columns, rows, (*done.notes, *notes, *_doubts(done), *told), frozenset(columns[2:6]))


def _of_means(lines: Sequence[Line]) -> Iterator[str]:
    quotients = [(*line.means, line.ratio.ratio) for line in lines if line.ratio and all(line.means)]
    differing = sum(abs(b / a / ratio - 1) > _APART for a, b, ratio in quotients if a and b)
    if differing:
        yield (
            "B / A is of geometric means, over the rounds of both where these are compared: in "
            f"{differing:,} of {len(lines):,} lines more than {percent(_APART)} from that of the columns' means"
        )


def _without_ratio(missing: Sequence[Missing]) -> Iterator[str]:
    names: dict[tuple[str, str], list[str]] = {}
    for one in missing:
        names.setdefault((one.why, one.side), []).append(one.name)
    return (f"no ratio of {few(cells)}: {why} in {side}" for (why, side), cells in names.items())


def _ratio_values(ratio: Ratio | None) -> tuple[Value, ...]:
    if ratio is None:
        return (None, None, None, None)
    bounds = (ratio.low, ratio.high) if ratio.low else (None, None)  # a single value has no interval
    return (ratio.ratio, *bounds, ratio.p)


def _sentence(done: Comparison) -> str:
    if not done.lines:
        return "B against A: no cell has figures on both sides"
    counts = ", ".join(f"{done.counts.get(speed, 0)} {speed}" for speed in Speed)
    return (
        f"B against A: {counts}; same is within ±{percent(done.within)}; intervals of {done.confidence * 100:g} %, "
        f"verdicts corrected for {len(done.lines)} comparison{'s' if len(done.lines) > 1 else ''}"
    )


def _doubts(done: Comparison) -> tuple[str, ...]:
    sides = [[line.host_limited[at] for line in done.lines] for at in (0, 1)]
    said = [
        f"{name} ({side.name}) in {sum(some for _, some in counts):,} of {sum(of for of, _ in counts):,} trials"
        for name, side, counts in zip("AB", (done.a, done.b), sides, strict=True)
        if any(some for _, some in counts)
    ]
    if not said:
        return ()
    lines = sum(line.doubtful for line in done.lines)
    rest = f"{lines:,} of {len(done.lines):,} verdicts use such trials, and may describe the host"
    return (f"(!) host-limited trials (too slow for the simulated disks): {'; '.join(said)}; {rest}",)


def _told(differing: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    if not differing:
        return ()
    lines = [f"  {name}: {left} → {right}" for name, left, right in differing]
    return ("the environments differ, which may be the reason for a difference:", *lines)


def _distance(line: Line) -> float:
    ratio = line.ratio.ratio if line.ratio else 1.0
    return max(ratio, 1 / ratio)
