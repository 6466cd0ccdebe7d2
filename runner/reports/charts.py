"""Where the dots and lines of a chart stand, as parts of its width; what draws them is a template.

A chart is rows of labels, each above a line for the interval and a dot for the value, from zero on: so lengths can be
compared, names may be as long as they are, and it is read on a phone as on a wall. The libraries that draw charts would
bring scripts, colours of their own and a date into every one of them, for what is a circle and a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import floor, log10
from typing import TYPE_CHECKING

from runner.reports.number_format import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.statistics.stopping import Estimate

#: How much of the width the axis takes: what stands at its end needs room.
_WIDTH = 96.0
#: An interval that reaches so many times as far as the largest value would make all else small: it is cut.
_REACH = 2.0
#: Below this, in any unit, there is nothing to be seen.
_NOTHING = 1e-9
#: Heights in pixels: of a label, of a line below it, of the axis.
_LABEL, _LINE, _AXIS = 22, 16, 24


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval. No interval: a single trial has none."""

    side: str
    y: int
    x: float
    low: float | None
    high: float | None
    #: The interval goes on beyond the end of the chart.
    beyond: bool
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """What a label says, and how high it stands."""

    label: str
    y: int
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """All that is drawn."""

    title: str
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    height: int
    #: Rows that there was no room for.
    left: int = 0

    @property
    def sides(self) -> list[str]:
        """What its dots are of."""
        return list(dict.fromkeys(dot.side for row in self.rows for dot in row.dots))


#: A label, and what was measured there: of reading, of writing.
Line = tuple[str, "Mapping[str, Estimate]"]


def chart(title: str, unit: str, lines: Sequence[Line], *, most: int) -> Chart | None:
    """The first `most` lines as a chart; None where there is nothing to be drawn."""
    shown = [line for line in lines[:most] if line[1]]
    if not shown:
        return None
    end = _end(estimate for _, measured in shown for estimate in measured.values())
    rows, y = [], 0
    for label, measured in shown:
        rows.append(Row(label, y + _LABEL - 6, tuple(_dots(y + _LABEL, measured, unit, end))))
        y += _LABEL + _LINE * len(measured)
    return Chart(title, tuple(rows), tuple(_ticks(end, unit)), y + _AXIS, len(lines) - len(lines[:most]))


def interval(estimate: Estimate, unit: str) -> str:
    """Between which bounds it lies, in words; empty where a single trial leaves that unknown."""
    low, high = estimate.bounds
    if low is None:
        return ""
    if high is None:
        return f"from {figure(low, unit)}" if low else "anything"
    (least, of_least), (most, of_most) = (figure(bound, unit).split(" ") for bound in (low, high))
    return f"{least} to {most} {of_most}" if of_least == of_most else f"{least} {of_least} to {most} {of_most}"


def step(end: float) -> float:
    """A round distance, which goes into what lies between zero and the end four times at most."""
    rough = end / 4
    power = 10.0 ** floor(log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)


def _end(estimates: Iterable[Estimate]) -> float:
    """What stands at the end of the axis."""
    known = [(one.mean, one.bounds[1] or one.mean) for one in estimates]
    largest = max(mean for mean, _ in known)
    end = max(min(high, _REACH * largest) for _, high in known)
    return end if end > _NOTHING else 1.0


def _ticks(end: float, unit: str) -> Iterator[Tick]:
    apart = step(end)
    for number in count():
        value = number * apart
        if value > end * 1.001:
            return
        yield Tick(_place(value, end), figure(value, unit) if value else "0")


def _dots(y: int, measured: Mapping[str, Estimate], unit: str, end: float) -> Iterator[Dot]:
    for number, (side, one) in enumerate(measured.items()):
        low, high = one.bounds
        known = interval(one, unit)
        beyond = low is not None and (high is None or high > end * 1.001)
        yield Dot(
            side,
            y + _LINE * number + _LINE // 2,
            _place(one.mean, end),
            None if low is None else _place(min(low, end), end),
            None if low is None else 100.0 if beyond else _place(high or 0.0, end),
            beyond,
            f"{side} {figure(one.mean, unit)}" + (f" ({known})" if known else ""),
        )


def _place(value: float, end: float) -> float:
    return round(_WIDTH * value / end, 2)
