"""What has to be said beside the figures of a run, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.reports.terminal import percent

if TYPE_CHECKING:
    from runner.reports.run_data import Recorded


def unreached(recorded: Recorded) -> str:
    """That cells are not known as well as `until:` asks for; empty if all are."""
    unsure = sum(one.reached(recorded.until) is False for one in recorded.summaries)
    if not unsure or recorded.until is None:
        return ""
    return (
        f"±{recorded.until * 100:g} % was asked for and is not reached by {unsure} of {len(recorded.summaries)} cells "
        "(`reached` in summary.csv); a larger `max:` buys more trials"
    )


def drifted(recorded: Recorded) -> str:
    """That the machine was not the same all the time; blocks keep that from looking like a difference of cells."""
    drift = recorded.drift
    if not drift or drift.p > 1 - drift.confidence:
        return ""
    bounds = sorted(abs(bound - 1) for bound in (drift.low, drift.high))
    return (
        f"from the first block to the last, rates {'rose' if drift.change > 1 else 'fell'} by "
        f"{percent(abs(drift.change - 1))} ({percent(bounds[0])} to {percent(bounds[1])}): cells that stopped "
        "early were measured in other times than the rest; compare them over the blocks that they share"
    )
