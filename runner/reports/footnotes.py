"""What has to be said beside the figures of a run, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.reports.terminal import percent

if TYPE_CHECKING:
    from runner.reports.run_data import RunData


def precision_note(recorded: RunData) -> str:
    """That cells are not known as well as `until:` asks for; empty if all are."""
    unsure = sum(one.reached(recorded.until) is False for one in recorded.summaries)
    if not unsure or recorded.until is None:
        return ""
    return (
        f"±{recorded.until * 100:g} % was asked for and is not reached by {unsure} of {len(recorded.summaries)} cells "
        "(`reached` in summary.csv); a larger `max:` buys more trials"
    )


#: A drift that is smaller than this part of the narrowest interval shows in none of the figures.
_SEEN = 0.5


def drift_note(recorded: RunData) -> str:
    """The sentence on a machine that became faster or slower; empty if no figure shows it."""
    drift = recorded.drift
    if not drift or drift.p > 1 - drift.confidence or abs(drift.change - 1) < _SEEN * _narrowest(recorded):
        return ""
    bounds = sorted(abs(bound - 1) for bound in (drift.low, drift.high))
    effect = (
        "cells that stopped early were measured in other times than the rest; compare them over the rounds that they "
        "share"
        if _stopped_early(recorded)
        else "intervals are wider for it; comparisons of cells hold, as each round has all of them"
    )
    return (
        f"from the first round to the last, rates {'rose' if drift.change > 1 else 'fell'} by "
        f"{percent(abs(drift.change - 1))} ({percent(bounds[0])} to {percent(bounds[1])}): {effect}"
    )


def _narrowest(recorded: RunData) -> float:
    """The half width of the narrowest interval of a bandwidth, as a part of its mean."""
    figures = (figure for one in recorded.summaries for figure in one.figures.items())
    widths = [estimate.relative for name, estimate in figures if name.endswith("_bw")]
    return min((width for width in widths if width is not None), default=0.0)


def _stopped_early(recorded: RunData) -> bool:
    """Whether some cells needed fewer trials than others; a fixed number of trials is the same for all."""
    may_stop = recorded.until is not None or recorded.steered
    return may_stop and len({len(trials) for trials in recorded.by_cell.values()}) > 1
