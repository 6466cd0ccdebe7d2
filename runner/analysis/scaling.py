"""Scaling of a figure along an axis: each cell relative to the first of its line, and the exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.analysis.pivot import format_mean, line_figures, notes_of, table_of
from runner.guidelines.claims import number_of
from runner.reports.table import Grid
from runner.reports.terminal_text import digits, times
from runner.statistics.ratios import paired_ratio
from runner.statistics.trend import scaling_exponent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.analysis.samples import Samples
    from runner.reports.table import Value
    from runner.statistics.interval import Interval
    from runner.statistics.ratios import Ratio

    Cells = Sequence[Samples | None]

_NOTES = (
    "\u00d7: multiple of the first of its line, over their common rounds",
    "power: the figure is proportional to the axis to that power (1: linear, 0: constant)",
)


def display_scaling(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    """Return a table for people: the first figure of a line, then multiples of it."""
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, cells in table.lines:
        for name in line_figures(cells, metric):
            base = _base(cells, name)
            places = (
                format_mean(one, name) if one is base else _told(one, _times(one, base, name), name) for one in cells
            )
            rows.append((table.naming.label(key), name, *places, _told_power(_power(table.values, cells, name))))
    notes = (*notes_of(table, metric), *_NOTES)
    return Grid(("cell", "figure", *table.heads, "power"), rows, notes, frozenset({*table.heads, "power"}))


def data_scaling(found: Sequence[Samples], axis: str, metric: str | None) -> Grid:
    """Return the same for programs, as numbers."""
    table = table_of(found, axis)
    rows: list[tuple[Value, ...]] = []
    for key, cells in table.lines:
        for name in line_figures(cells, metric):
            base = _base(cells, name)
            ratios = (value for one in cells for value in _bounded(_times(one, base, name)))
            power = _power(table.values, cells, name)
            rows.append((*key, name, *ratios, *((power.mean, power.low, power.high) if power else (None,) * 3)))
    ends = ("", "_low", "_high")
    places = [f"{head}{end}" for head in (*(f"{one}_times" for one in table.heads), "power") for end in ends]
    return Grid((*table.naming.names, "metric", *places), rows, notes_of(table, metric), frozenset(places))


def _base(cells: Cells, metric: str) -> Samples | None:
    """Return the first cell of a line with the figure."""
    return next((one for one in cells if one and one.rounds(metric)), None)


def _times(one: Samples | None, base: Samples | None, metric: str) -> Ratio | None:
    return paired_ratio(base.rounds(metric), one.rounds(metric)) if one and base else None


def _power(values: Sequence[str], cells: Cells, metric: str) -> Interval | None:
    """Return the exponent, or None for an axis of words, or with too few common rounds."""
    known = [(number_of(value), one.rounds(metric)) for value, one in zip(values, cells, strict=True) if one]
    places = [number for number, rounds in known if number is not None and rounds]
    if len(places) < len(known):
        return None
    return scaling_exponent(places, [rounds for _, rounds in known])


def _told(one: Samples | None, ratio: Ratio | None, metric: str) -> str:
    if ratio is None:
        return ""
    doubt = f" ({times(ratio.low)} to {times(ratio.high)})" if ratio.low else ""
    return f"{times(ratio.ratio)}{doubt}{' (!)' if one and one.host_limited_of(metric) else ''}"


def _bounded(ratio: Ratio | None) -> tuple[Value, ...]:
    if ratio is None:
        return (None, None, None)
    return (ratio.ratio, *((ratio.low, ratio.high) if ratio.low else (None, None)))


def _told_power(power: Interval | None) -> str:
    return f"{digits(power.mean)} ({digits(power.low)} to {digits(power.high)})" if power else ""
