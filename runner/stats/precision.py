"""When a figure is known well enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.stats.interval import student

if TYPE_CHECKING:
    from collections.abc import Sequence


def known_to(rates: Sequence[tuple[float, float]], until: float, confidence: float) -> bool:
    """Whether the mean of every direction that does I/O is known to a relative half-width of `until`.

    Looked at after every block, so the interval at the moment of stopping covers somewhat less than it says.
    """
    directions = [values for values in zip(*rates, strict=True) if any(values)]
    intervals = [student(values, confidence) for values in directions]
    widths = [interval.relative if interval else None for interval in intervals]
    return bool(widths) and all(width is not None and width <= until for width in widths)
