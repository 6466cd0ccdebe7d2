"""Comparison of a run with itself: some of its rounds against the others, so that only noise differs.

A difference is then a false alarm. The scatter is the smallest difference that a comparison of two such runs can
detect.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

from runner.analysis.operands import Side
from runner.reports.terminal import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.analysis.compare import Comparison
    from runner.analysis.samples import Samples
    from runner.statistics.ratios import Ratio

#: The share of figures within the noise floor.
_SHARE = 0.95


def is_odd(round_number: int) -> bool:
    """Return whether a round is odd. Alternate rounds spread drift over both parts."""
    return round_number % 2 == 1


def parts(name: str, found: Sequence[Samples], first: Callable[[int], bool] = is_odd) -> tuple[Side, Side]:
    """Split a run into the rounds that match a predicate, and all others."""
    return (
        Side(f"{name}, odd rounds", [one.in_rounds(first) for one in found]),
        Side(f"{name}, even rounds", [one.in_rounds(lambda round_number: not first(round_number)) for one in found]),
    )


def describe_noise_floor(done: Comparison) -> str:
    """Describe the noise floor."""
    least = noise_floor(line.ratio for line in done.lines)
    if least is None:
        return ""
    return (
        "a run with itself: A is its odd rounds and B its even ones, so what differs is noise. Noise floor: of two "
        f"such runs, each whole, 95 % of the figures lie within \u00b1{percent(least)} of each other"
    )


def noise_floor(ratios: Iterable[Ratio | None]) -> float | None:
    """Return the relative difference that 95 % of the figures of two such runs stay below.

    Half a run has more noise than a whole one because of fewer trials. The result is corrected for that.
    """
    apart = sorted(abs(log(one.ratio)) * _as_whole(one.n_a, one.n_b) for one in ratios if one)
    if not apart:
        return None
    return exp(apart[min(len(apart) - 1, int(_SHARE * len(apart)))]) - 1


def _as_whole(a: int, b: int) -> float:
    return sqrt((2 / (a + b)) / (1 / a + 1 / b))
