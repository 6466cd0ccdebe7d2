"""The table at the end of a run, and notes on the run's precision and drift."""

from collections.abc import Sequence

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.cell_figures import CellFigures
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.table import Sheet
from matrix_runner.pages.terminal_text import (
    BAD,
    DOUBT,
    GOOD,
    digits,
    doubt,
    figure,
    host_limited_mark,
    percent,
    rate,
    stalled_mark,
    unsettled_mark,
)
from matrix_runner.records.record import COUNTED, WORST, CellRow, Kind, Outcome, Trial, counted_trials
from matrix_runner.statistics.ratios import LEAST_VALUES, host_ratios
from matrix_runner.statistics.rounds import correlation_of_rounds
from matrix_runner.work.metrics import FLUSH, LARGE, OF_SYNC, SIDES, SYNC, TOTAL, shown_sides, sides_of

_SYNC_P99 = f"{FLUSH} p99"
_FEW = 10  # figures of fewer requests are marked
_STYLES = {Kind.PASSED: GOOD, Kind.FAILURE: BAD, Kind.ERROR: BAD, Kind.SKIPPED: DOUBT}


def table(recorded: RunData, *, rows: int = 50) -> Sheet:
    shown = shown_cells(recorded, rows)
    title = f"{recorded.matrix} on {recorded.machine}"
    syncs = (SYNC,) if any(f"{SYNC}_bw" in one.figures for one in shown) else ()
    totals = (TOTAL,) if _is_mixed(shown) else ()
    sides = (*syncs, *totals, *shown_sides(one.figures for one in shown))
    flushes = (_SYNC_P99,) if any(f"{FLUSH}_iops" in one.figures for one in shown) else ()
    columns = ("cell", *sides, "±", "p99", *flushes, "trials", "outcome")
    return Sheet(
        columns,
        [
            (
                *(one.cell.name, *_numbers(one, sides), *(_tail(one, (FLUSH,)) for _ in flushes)),
                *(str(one.measured), outcome(one)),
            )
            for one in shown
        ],
        right=frozenset(columns[1:-1]),
        title=f"{title} ({recorded.marks})" if recorded.marks else title,
        groups=[_stack(one.cell) for one in shown],
        spare=("trials", "p99"),
        remark="outcome",
        usual=COUNTED,
        styles=[_STYLES[one.outcome.kind] if one.outcome else "" for one in shown],
    )


def sync_text(summary: CellFigures) -> str:
    bw, seconds = (summary.figures.get(f"{SYNC}_{name}") for name in OF_SYNC)
    return f"{digits(bw.mean / 1e6)} MB/s, {figure(seconds.mean, 's')}" if bw and seconds else ""


def shown_cells(recorded: RunData, rows: int = 50) -> list[CellFigures]:
    def rank(summary: CellFigures) -> int:
        return WORST.index(summary.outcome) if summary.outcome in WORST else len(WORST)

    return sorted((one for one in recorded.summaries if one.is_needed), key=rank)[:rows]


def _is_mixed(shown: Sequence[CellFigures]) -> bool:
    return any(TOTAL in sides_of(one.figures) for one in shown)


def caption(recorded: RunData, *, rows: int = 50) -> str:
    needed, shown = [one for one in recorded.summaries if one.is_needed], shown_cells(recorded, rows)
    reordered = shown != needed[: len(shown)]
    unneeded = len(recorded.summaries) - len(needed)
    left_out = len(recorded.every) - unneeded - len(shown)
    text = f"{left_out} more cells in summary.csv. " if left_out else ""
    text += f"{unneeded} cells that searches did not need are left out. " if unneeded else ""
    text += (
        f"MB/s: 10⁶ bytes per second; ±: {recorded.confidence * 100:g} % confidence"
        f"{', of the total of mixed work' * _is_mixed(shown)}; "
        "p99: latency of all trials' requests, the larger of read and write."
    )
    if any(f"{FLUSH}_iops" in one.figures for one in shown):
        text += f" {_SYNC_P99}: of fsync and fdatasync."
    if any(_rate(one, side) for one in shown for side in SIDES):
        text += f" MB/s where requests have {LARGE // 1024} KiB and more, IOPS where they are smaller."
    worst = [one for one in WORST if any(summary.outcome is one for summary in shown)]
    return text + (f" {' and '.join(worst).capitalize()} cells come first." if reordered else "")


def _stack(cell: CellRow) -> str:
    parts = cell.name.split("/")
    work = cell.axes.get("workload", "")
    return "/".join(parts[: parts.index(work, 1)]) if work in parts[1:] else ""


def _numbers(summary: CellFigures, shown: Sequence[str]) -> tuple[str, ...]:
    sides = sides_of(summary.figures)
    rates = [sync_text(summary) if side == SYNC else _rate(summary, side) if side in sides else "" for side in shown]
    known = summary.figures[name] if (name := summary.headline) else None
    return *rates, doubt(known), _tail(summary, SIDES)


def _tail(summary: CellFigures, sides: Sequence[str]) -> str:
    tails = (summary.figures.get(f"{side}_lat_p99") for side in sides)
    return figure(max((one.mean for one in tails if one), default=None), "ns")


def _rate(summary: CellFigures, side: str) -> str:
    bw, iops = (summary.figures.get(f"{side}_{measure}") for measure in ("bw", "iops"))
    return rate(bw.mean, iops.mean) if bw and iops else ""


def outcome(summary: CellFigures) -> str:
    counts = [f"{count} {one}" for one in Outcome if (count := summary.counts.get(one, 0))]
    words = str(summary.outcome or summary.text_without_trials) if len(counts) < 2 else ", ".join(counts)
    reason = f": {'; '.join(summary.reasons)}" if summary.reasons else ""
    return f"{words}{marks_of(summary)}{reason}"


def marks_of(summary: CellFigures) -> str:
    ios = summary.least_ios
    marks = (
        f" (!) on {ios} request{'s' if ios != 1 else ''} only" if ios is not None and ios < _FEW else "",
        host_limited_mark(summary.host_limited, summary.processor_limited),
        f" (!) {summary.saturated} saturated" if summary.saturated else "",
        stalled_mark(summary.stalled),
        unsettled_mark(summary.unsettled, summary.measured),
        " (!) two states" if summary.states else "",
    )
    return "".join(marks)


def precision_note(recorded: RunData) -> str:
    unsure = len(recorded.imprecise)
    if not unsure or recorded.until is None:
        return ""
    unsure_here = [one for one in recorded.summaries if one.reaches(recorded.until) is False]
    limited = unsure_here and all(one.host_limited for one in unsure_here)
    advice = "the host was too slow: see (!) host-limited" if limited else "a larger `max:` allows more trials"
    return (
        f"{unsure} of {len(recorded.every)} cells have wider intervals than wanted (±{recorded.until * 100:g} %; "
        f"`reached` in summary.csv); {advice}"
    )


#: A smaller drift is not reported: the order of random requests alone can do as much, and it changes no decision.
_LEAST_DRIFT = 0.02


def drift_note(recorded: RunData) -> str:
    drift = recorded.drift
    if not drift or drift.p > 1 - drift.confidence or abs(drift.change - 1) < _LEAST_DRIFT:
        return ""
    bounds = sorted(abs(bound - 1) for bound in (drift.low, drift.high))
    may_stop = recorded.until is not None or recorded.steered
    stopped_early = may_stop and len({len(trials) for trials in recorded.by_cell.values()}) > 1
    effect = (
        "cells that stopped early were measured at other times than the rest; compare only the rounds that they share"
        if stopped_early
        else "intervals are wider; comparisons of cells stay valid, because each round has all cells"
    )
    return (
        f"from the first round to the last, rates {'rose' if drift.change > 1 else 'fell'} by "
        f"{percent(abs(drift.change - 1))} ({percent(bounds[0])} to {percent(bounds[1])}): {effect}"
    )


def correlation_note(recorded: RunData) -> str:
    """Return how correlated the trials of cells are; if a run is too short to show it, that it may be."""
    if recorded.synthetic:
        return ""
    ordered = (sorted(trials, key=lambda trial: trial.round) for trials in recorded.by_cell.values())
    samples = [[figures.deciding_rate for _, figures in counted_trials(trials)] for trials in ordered]
    more, early = (
        ("", "")
        if recorded.until is None
        else (", though `until:` asks for more trials", ", and `until:` ends too early")
    )
    if found := correlation_of_rounds(samples):
        return (
            f"trials are correlated (about {found:.1f} from one round to the next): intervals of {LEAST_VALUES} or "
            f"more are wider for that, those of fewer too narrow{more}; "
            "more rounds, or rounds further apart, help"
        )
    count = len(samples[0]) if len(samples) == 1 else 0
    if not 1 < count < LEAST_VALUES:
        return ""
    return (
        f"the {count} trials followed each other; fewer than {LEAST_VALUES} do not show whether they are "
        f"correlated: then the interval is too narrow{early}; `min: {LEAST_VALUES}`, or other cells in between, help"
    )


def host_note(recorded: RunData, *, certain: bool = False) -> str:
    """Return how the hosts of a cluster differ; empty with one host or synthetic figures.

    `certain`: without hosts that may be equal.
    """
    if recorded.synthetic:
        return ""
    notes = []
    for one in host_ratios(map(_rates_by_host, recorded.by_cell.values()), recorded.confidence):
        if one.ratio is None:
            notes.append(f"{one.host} and {one.other} have no cell in common, so their cells are not compared")
            continue
        if certain and one.cells > 1 and one.ratio.low <= 1 <= one.ratio.high:
            continue
        bounds = f" ({one.ratio.low:.2f} to {one.ratio.high:.2f})" if one.cells > 1 else ""
        cells = f"in {one.cells} cells" if one.cells > 1 else "in one cell, too few for an interval"
        notes.append(f"{one.host} does {one.ratio.ratio:.2f} times the work of {one.other}{bounds}, {cells}")
    return (
        f"hosts: {'; '.join(notes)}; comparisons of cells stay valid, as they pair trials of one host" if notes else ""
    )


def _rates_by_host(trials: Sequence[Trial]) -> dict[str, list[float]]:
    counted = ((trial.facts.host, trial.counted) for trial in trials if trial.facts.host)
    return grouped((host, figures.deciding_rate) for host, figures in counted if figures)
