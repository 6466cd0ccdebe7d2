"""A comparison as one HTML page: a chart of all ratios, the slowest first, above the table."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from matrix_runner.answers.stored_samples import more_is_faster
from matrix_runner.base.findings import few
from matrix_runner.pages.charts import Chart, RatioLine, ratio_chart
from matrix_runner.pages.compare_table import display_table
from matrix_runner.pages.html import render_page
from matrix_runner.pages.terminal import percent
from matrix_runner.pages.terminal_text import times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.pages.compare import Comparison
    from matrix_runner.pages.pairs import Side

MOST_DOTS, MOST_LINES = 100, 500  # rows of the chart and of the table
_ABOUT = (
    "A row for each figure, the slowest first: a dot for how many times as fast B is as A, 1 in the middle, and a line "
    "for its interval. Differences in the shaded part count as equal. The table has the same figures."
)


def page(done: Comparison) -> bytes:
    return render_page(
        "compare.html.j2",
        title=f"{done.b.name} against {done.a.name}",
        sides={"A": _describe(done.a), "B": _describe(done.b)},
        chart=_chart(done),
        table=display_table(done, most=MOST_LINES, hint="`matrix compare --format csv` has all"),
        within=percent(done.within),
        confidence=f"{done.confidence * 100:g}",
        count=len(done.lines),
        has_latencies=any(not more_is_faster(line.metric) for line in done.lines),
        invented=any(run.synthetic for side in (done.a, done.b) for run in side.runs),
    )


def _describe(side: Side) -> str:
    runs = few((run.name for run in side.runs), 3)
    return side.name if runs in {"", side.name} else f"{side.name} ({runs})"


def _chart(done: Comparison) -> Chart | None:
    lines = sorted(_lines(done), key=lambda line: line.ratio.ratio)
    if not lines:
        return None
    title = "Speed of B, as a multiple of that of A"
    if (left := len(lines) - MOST_DOTS) > 0:
        half = MOST_DOTS // 2
        lines = [*lines[:half], *lines[-half:]]
        title += f" (the {half} slowest and the {half} fastest; {left:,} more are in the table)"
    return ratio_chart(title, lines, about=_ABOUT, equal=done.within)


def _lines(done: Comparison) -> Iterator[RatioLine]:
    """Yield how many times as fast B is: for latencies, the inverse of their ratio."""
    figures = Counter(line.name for line in done.lines)
    for line in done.lines:
        if line.ratio and 0 < line.ratio.ratio < inf:
            what = f"{line.name}, {line.metric}" if figures[line.name] > 1 else line.name
            label = f"{what}: {times(line.ratio.ratio)}, {line.speed.value}{' (!)' if line.doubtful else ''}"
            speed = line.ratio if more_is_faster(line.metric) else line.ratio.inverse
            yield RatioLine(label, speed, line.speed.value)
