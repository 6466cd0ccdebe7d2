"""Figures of a cell in earlier runs, as a small line in its row of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from matrix_runner.pages.terminal_text import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.statistics.stopping import Estimate

WIDTH, HEIGHT = 84, 18  # of the line, in pixels
_EDGE = 3  # room for its dot
_LEAST_SPAN = 0.1  # of the values: smaller changes look small


class Past(NamedTuple):
    started: str  # ISO 8601
    mean: float


@dataclass(frozen=True, slots=True)
class Sparkline:
    path: str
    end: tuple[float, float]
    text: str


def sparkline(past: Sequence[Past], now: Estimate, unit: str) -> Sparkline:
    """Draw the means of earlier runs, the oldest first, and of this one, with the same distance between runs."""
    values = [*(one.mean for one in past), now.mean]
    low, high = min(values), max(values)
    span = max(high - low, _LEAST_SPAN * high) or 1.0
    bottom = (low + high - span) / 2
    across, up = WIDTH - 2 * _EDGE, HEIGHT - 2 * _EDGE
    places = [
        (
            round(_EDGE + across * number / (len(values) - 1), 1),
            round(_EDGE + up * (1 - (value - bottom) / span), 1),
        )
        for number, value in enumerate(values)
    ]
    earlier = [one.mean for one in past]
    between = " to ".join(dict.fromkeys(figure(one, unit) for one in (min(earlier), max(earlier))))
    runs = f"{len(past)} earlier run{'s' if len(past) > 1 else ''} since {past[0].started[:10]}"
    text = f"{runs}: {between}, the last {figure(earlier[-1], unit)}; this run {figure(now.mean, unit)}"
    return Sparkline(" ".join(f"{x:g},{y:g}" for x, y in places), places[-1], text)
