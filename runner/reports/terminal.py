"""The table at the end of a run, in units people read: MB/s (10⁶ bytes) for large requests, IOPS for small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from runner.language.metrics import LARGE, SIDES, TOTAL, is_large, sides_of
from runner.reports.number_format import digits, figure
from runner.reports.summary import FEW
from runner.results.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

    from runner.reports.run_data import Recorded
    from runner.reports.summary import CellSummary
    from runner.statistics.stopping import Estimate

_STYLES = {Outcome.MEASURED: "green", Outcome.BROKEN: "bold red", Outcome.SKIPPED: "yellow", None: "dim"}


def table(recorded: Recorded, *, rows: int = 50, pointer: str = "summary.csv") -> Table:
    """One line per cell, broken cells first; beyond `rows` lines the rest is in the file that `pointer` names."""
    everything = recorded.summaries
    shown = sorted(everything, key=lambda summary: summary.outcome is not Outcome.BROKEN)[:rows]
    title = f"{recorded.matrix} on {recorded.machine}"
    made = Table(title=Text(f"{title} ({recorded.warning})" if recorded.warning else title), caption_justify="left")
    made.add_column("cell", overflow="fold")
    mixed = any(TOTAL in sides_of(one.figures) for one in shown)
    for heading in (*((TOTAL,) if mixed else ()), "read", "write", "±", "p99", "trials"):
        made.add_column(heading, justify="right", no_wrap=True)
    made.add_column("outcome", overflow="fold")
    for summary in shown:
        said = Text(outcome(summary), style=_STYLES[summary.outcome])
        made.add_row(_Name(summary.cell.name), *_numbers(summary, mixed=mixed), said)
    made.caption = _caption(len(everything) - len(shown), pointer, recorded.confidence, mixed=mixed)
    reordered = shown != list(everything[: len(shown)])
    made.caption += _key(shown) + (" Broken cells stand first." if reordered else "")
    return made


class _Name:
    """A cell's name, which is broken at its slashes where it has to be broken."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = ""
        for part in self.name.replace("/", "/\n").split("\n"):
            if line and len(line) + len(part) > options.max_width:
                yield Text(line)
                line = ""
            line += part
        yield Text(line, overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max(map(len, self.name.replace("/", "/\n").split("\n")))
        return Measurement(min(longest, options.max_width), min(len(self.name), options.max_width))


def _key(shown: Sequence[CellSummary]) -> str:
    """Why one cell is told in MB/s and another in IOPS, where both are."""
    rates = {_rate(one, side).rpartition(" ")[2] for one in shown for side in ("read", "write")} - {""}
    return f" MB/s where requests have {LARGE // 1024} KiB and more, IOPS where they are smaller." if rates else ""


def rate(bw: float | None, iops: float | None) -> str:
    """A rate as people say it: MB/s where requests are large, IOPS where they are small."""
    if bw is None or iops is None:
        return ""
    return f"{digits(bw / 1e6)} MB/s" if is_large(bw, iops) else f"{digits(iops)} IOPS"


def told_by(bw: Estimate | None, iops: Estimate | None) -> Estimate | None:
    """The one of the two that `rate` tells, whose doubt it is that stands beside it."""
    if bw is None or iops is None:
        return None
    return bw if is_large(bw.mean, iops.mean) else iops


def percent(share: float) -> str:
    """A share of a mean: two significant digits, whole numbers from 10 on, never an exponent."""
    value = share * 100
    if value >= 9.95:
        return f"{value:,.0f} %"
    return f"{value:.2g} %" if value >= 0.01 or not value else "<0.01 %"


def _numbers(summary: CellSummary, *, mixed: bool) -> tuple[str, ...]:
    """Return the columns; `mixed`: one of them is the total, which cells of one direction leave empty."""
    sides = sides_of(summary.figures)
    rates = [_rate(summary, side) if side in sides else "" for side in (*((TOTAL,) if mixed else ()), *SIDES)]
    known = summary.figures[name].relative if (name := summary.headline) else None
    doubt = "" if known is None else percent(known)
    slowest = max((one.mean for name, one in summary.figures.items() if name.endswith("_lat_p99")), default=None)
    return *rates, doubt, figure(slowest, "ns"), str(summary.counts.get(Outcome.MEASURED, 0))


def _rate(summary: CellSummary, side: str) -> str:
    return rate(_mean(summary.figures.get(f"{side}_bw")), _mean(summary.figures.get(f"{side}_iops")))


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def outcome(summary: CellSummary) -> str:
    """What became of its trials, with a mark on whatever makes its figures doubtful, and why it broke if it did."""
    told = [f"{count} {one}" for one in Outcome if (count := summary.counts.get(one, 0))]
    words = str(summary.outcome or "not yet run") if len(told) < 2 else ", ".join(told)
    reason = f": {'; '.join(summary.reasons)}" if summary.reasons else ""
    unsettled = unsettled_of(summary.unsettled, summary.counts.get(Outcome.MEASURED, 0))
    states = " (!) two states" if summary.states else ""
    marks = (_few(summary.least_ios), _strained(summary.strained), unsettled, states)
    return words + "".join(marks) + reason


def _few(ios: int | None) -> str:
    """A mark on what rests on next to nothing."""
    if ios is None or ios >= FEW:
        return ""
    return f" (!) on {ios} request{'s' if ios != 1 else ''} only"


def _strained(trials: int) -> str:
    """A mark on what says as much about the host as about the disks."""
    return f" (!) {trials} strained" if trials else ""


def unsettled_of(trials: int, measured: int) -> str:
    """A mark on what never came to the steady state that was asked for, in so many of the measured trials."""
    if not trials:
        return ""
    return " (!) none settled" if trials == measured else f" (!) {trials} unsettled"


def _caption(left_out: int, pointer: str, confidence: float, *, mixed: bool) -> str:
    note = (
        f"MB/s: 10⁶ bytes per second; ±: {confidence * 100:g} % confidence{', of the total of mixed work' * mixed}; "
        "p99: latency of all trials' requests, the larger of read and write."
    )
    return f"{left_out} more cells in {pointer}. {note}" if left_out else note
