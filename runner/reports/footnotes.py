"""Notes on the precision and the drift of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.reports.terminal import percent

if TYPE_CHECKING:
    from runner.reports.run_data import RunData


def precision_note(recorded: RunData) -> str:
    """Report cells with wider intervals than `until:` asks for; empty if there are none."""
    unsure = sum(one.reaches(recorded.until) is False for one in recorded.summaries)
    if not unsure or recorded.until is None:
        return ""
    return (
        f"{unsure} of {len(recorded.summaries)} cells have wider intervals than the wanted ±{recorded.until * 100:g} % "
        "(`reached` in summary.csv); a larger `max:` allows more trials"
    )


#: A drift below this part of the narrowest interval is not reported.
_SEEN = 0.5


def drift_note(recorded: RunData) -> str:
    """Report that the machine became faster or slower; empty if the drift is too small to matter."""
    drift = recorded.drift
    if not drift or drift.p > 1 - drift.confidence or abs(drift.change - 1) < _SEEN * _narrowest(recorded):
        return ""
    bounds = sorted(abs(bound - 1) for bound in (drift.low, drift.high))
    effect = (
        "cells that stopped early were measured at other times than the rest; compare only the rounds that they share"
        if _stopped_early(recorded)
        else "intervals are wider; comparisons of cells stay valid, because each round has all cells"
    )
    return (
        f"from the first round to the last, rates {'rose' if drift.change > 1 else 'fell'} by "
        f"{percent(abs(drift.change - 1))} ({percent(bounds[0])} to {percent(bounds[1])}): {effect}"
    )


def _narrowest(recorded: RunData) -> float:
    """Return the half width of the narrowest interval of a bandwidth, as a part of its mean."""
    figures = (figure for one in recorded.summaries for figure in one.figures.items())
    widths = [estimate.relative for name, estimate in figures if name.endswith("_bw")]
    return min((width for width in widths if width is not None), default=0.0)


def _stopped_early(recorded: RunData) -> bool:
    """Return whether cells have different numbers of trials because some stopped early."""
    may_stop = recorded.until is not None or recorded.steered
    return may_stop and len({len(trials) for trials in recorded.by_cell.values()}) > 1
