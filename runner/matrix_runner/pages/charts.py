"""The geometry of charts: positions of dots and lines. sections.py chooses what is drawn."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise, takewhile
from math import ceil, floor, inf, log10
from typing import ClassVar

from matrix_runner.pages.terminal_text import figure, times, times_within
from matrix_runner.statistics import screening
from matrix_runner.statistics.ratios import Ratio
from matrix_runner.statistics.stopping import Estimate

_WIDTH = 96.0  # per cent of the width that the axis takes; its last label needs the rest
_REACH = 2.0  # intervals are cut at this multiple of the largest value; longer ones would make all others too small
_NOTHING = 1e-9  # the smallest end of an axis, in any unit
_LABEL, _LINE, _AXIS = 22, 16, 24  # heights in pixels: of a label, of a line below it, of the axis
_TEXT, _LONGEST = 14, 56  # height of one more line of a label, and its characters: as many fit a telephone


_NARROW = 270  # pixels of an axis on a telephone
_LETTER, _APART = 7.0, 3.0  # pixels of a letter of its ticks, and between two texts
_AT_END = 90  # per cent; texts beyond end at their tick


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    text: str
    spare: bool = False  # a narrow page hides its text, because all texts do not fit


@dataclass(frozen=True, slots=True)
class Dot:
    side: str
    y: int
    x: float
    low: float | None
    high: float | None
    beyond: bool  # the interval continues beyond the end of the chart
    text: str
    is_open: bool = False  # the interval has no known upper end; `high` is then the dot


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    y: int
    dots: tuple[Dot, ...]
    texts: tuple[str, ...]  # the label, without long lines
    clouds: tuple[tuple[str, int, str], ...] = ()  # all cells of the row: direction, height, path of their dots

    @property
    def lines(self) -> list[tuple[int, str]]:
        return [(self.y + _TEXT * number, text) for number, text in enumerate(self.texts)]


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]
    height: int
    left: int = 0  # number of rows that are not drawn
    each: str = "cell"  # what a row is for
    about: str = ""  # a description, if it is not of dots for cells
    note: str = ""  # a sentence below the chart
    band: tuple[float, float] | None = None  # start and width of the shaded part of the axis
    kind: ClassVar[str] = "dots"

    @property
    def sides(self) -> list[str]:
        clouds = (side for row in self.rows for side, *_ in row.clouds)
        return list(dict.fromkeys((*(dot.side for row in self.rows for dot in row.dots), *clouds)))

    @property
    def has_key(self) -> bool:
        return not self.about or self.band is not None


Line = tuple[str, "Mapping[str, Estimate]"]  # a label, with its estimates by direction


def chart(title: str, unit: str, lines: Sequence[Line], *, most: int) -> Chart | None:
    shown = [line for line in lines[:most] if line[1]]
    if not shown:
        return None
    end = end_of(estimate for _, measured in shown for estimate in measured.values())
    rows, y = [], 0
    for label, measured in shown:
        texts = _wrapped(label)
        below = y + _LABEL + _TEXT * (len(texts) - 1)
        rows.append(Row(label, y + _LABEL - 6, tuple(_dots(below, measured, unit, end)), texts))
        y = below + _LINE * len(measured)
    return Chart(title, tuple(rows), ticks(end, unit), y + _AXIS, len(lines) - len(lines[:most]))


def overview(title: str, unit: str, groups: Mapping[str, Sequence[Line]], each: str, *, most: int) -> Chart | None:
    """Draw many cells on one scale: a row for each group, with its best cell and a small dot for each other one."""
    shown = {label: [line for line in lines if line[1]] for label, lines in [*groups.items()][:most]}
    shown = {label: lines for label, lines in shown.items() if lines}
    if not shown:
        return None
    best = {label: _best(lines, unit) for label, lines in shown.items()}
    largest = max(one.mean for lines in shown.values() for _, measured in lines for one in measured.values())
    end = max(largest, end_of(one for _, measured in best.values() for one in measured.values()))
    rows, y = [], 0
    for label, lines in shown.items():
        name, measured = best[label]
        sides = dict.fromkeys(side for _, one in lines for side in one)
        own = name.removeprefix(f"{label}, ")
        many = f"{label}: {len(lines):,} cells, best {own}" if len(lines) > 1 else own
        texts = _wrapped(many)
        below = y + _LABEL + _TEXT * (len(texts) - 1)
        heights = {side: below + _LINE * number + _LINE // 2 for number, side in enumerate(sides)}
        clouds = tuple((side, height, _cloud(lines, side, end)) for side, height in heights.items())
        dots = tuple(replace(dot, y=heights[dot.side]) for dot in _dots(0, measured, unit, end))
        rows.append(Row(many, y + _LABEL - 6, dots, texts, clouds))
        y = below + _LINE * len(sides)
    return Chart(title, tuple(rows), ticks(end, unit), y + _AXIS, max(0, len(groups) - most), each)


def _best(lines: Sequence[Line], unit: str) -> Line:
    """Return the cell with the highest rate or the lowest latency, by the larger figure of its directions."""
    if unit == "ns":
        return min(lines, key=lambda line: max(one.mean for one in line[1].values()))
    return max(lines, key=lambda line: max(one.mean for one in line[1].values()))


def _cloud(lines: Sequence[Line], side: str, end: float) -> str:
    """Return dots as a path, in thousandths of the axis: ten times smaller than as many circles."""
    places = sorted({round(1000 * one.mean / end) for _, measured in lines if (one := measured.get(side))})
    return "".join(f"M{place} 8h0" for place in places)


def interval(estimate: Estimate, unit: str) -> str:
    low, high = estimate.bounds
    if low is None:
        return ""
    if high is None:
        return f"from {figure(low, unit)}" if low else "unbounded"
    (least, _, of_least), (most, _, of_most) = (figure(bound, unit).partition(" ") for bound in (low, high))
    return f"{least} to {most} {of_most}" if of_least == of_most else f"{least} {of_least} to {most} {of_most}"


def figure_and_interval(estimate: Estimate | None, unit: str) -> tuple[str, str]:
    return (figure(estimate.mean, unit), interval(estimate, unit)) if estimate else ("", "")


def _wrapped(label: str) -> tuple[str, ...]:
    return tuple(textwrap.wrap(label, _LONGEST, break_on_hyphens=False)) or (label,)


def step(end: float) -> float:
    rough = end / 4
    power = 10.0 ** floor(log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)


def end_of(estimates: Iterable[Estimate]) -> float:
    known = [(one.mean, one.bounds[1] or one.mean) for one in estimates]
    largest = max(mean for mean, _ in known)
    end = max(min(high, _REACH * largest) for _, high in known)
    return end if end > _NOTHING else 1.0


def ticks(end: float, unit: str, width: float = _WIDTH) -> tuple[Tick, ...]:
    apart = step(end)
    values = takewhile(lambda value: value <= end * 1.001, (number * apart for number in count()))
    return spared([Tick(round(width * value / end, 2), figure(value, unit) if value else "0") for value in values])


def spared(marks: Sequence[Tick], *, group: int = 1, pixels: int = _NARROW) -> tuple[Tick, ...]:
    """Mark ticks as spare if the texts of all do not fit a narrow page: it shows every second one, or third, and so on.

    `group`: it may also show only the first of so many.
    """
    steps = (1, *range(max(2, group), len(marks) + 1, group))
    every = next((step for step in steps if _fit(marks[::step], pixels)), len(marks))
    return tuple(replace(one, spare=bool(at % every)) for at, one in enumerate(marks))


def _fit(marks: Sequence[Tick], pixels: int) -> bool:
    spans = [_span(one, pixels, is_first=not at) for at, one in enumerate(marks)]
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def _span(mark: Tick, pixels: int, *, is_first: bool) -> tuple[float, float]:
    """Return where the text of a tick begins and ends on an axis of so many pixels."""
    at, width = mark.x * pixels / 100, _LETTER * len(mark.text) + _APART
    start = at if is_first else at - width if mark.x > _AT_END else at - width / 2
    return start, start + width


def log_ticks(low: float, high: float, unit: str) -> tuple[Callable[[float], float], tuple[Tick, ...]]:
    """Return the place of a value on a logarithmic axis in per cent, and its ticks."""
    start = 10.0 ** floor(log10(low))
    reach = log10(max(high, start * 10) / start)

    def place(value: float) -> float:
        return round(100 * log10(value / start) / reach, 2)

    factors = (1, 2, 5) if reach <= 2 else (1,)
    values = [start * 10.0**power * factor for power in range(ceil(reach) + 1) for factor in factors]
    marks = [Tick(place(value), figure(value, unit)) for value in values if value <= max(high, start * 10)]
    return place, spared(marks, group=len(factors))


_LEAST_REACH = 0.05  # of the axis of a chart of ratios
_WHOLE = 0.25  # intervals of ratios are not cut up to this difference
#: Possible ticks of ratios, from 1 on.
_MORE = (1, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_LESS = (1, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
_TICKS_APART = _WIDTH / 8  # on a telephone, this is the width of a text and of a space


@dataclass(frozen=True, slots=True)
class RatioLine:
    label: str
    ratio: Ratio | screening.Estimate
    side: str = "total"


_OF_EFFECTS = "A row for each effect: a dot for a ratio of rates, 1 in the middle, and a line for its interval."


def ratio_chart(title: str, lines: Sequence[RatioLine], *, about: str = _OF_EFFECTS, equal: float = 0.0) -> Chart:
    """Draw ratios with intervals on a logarithmic axis with 1 in its middle. `equal`: shade up to this difference."""
    largest = max(abs(log10(one.ratio.ratio)) for one in lines)
    known = [abs(log10(bound)) for one in lines for bound in (one.ratio.low, one.ratio.high) if 0 < bound < inf]
    least = log10(1 + max(_LEAST_REACH, 2 * equal))
    reach = max(least, min(max([largest, *known]), max(_REACH * largest or inf, log10(1 + _WHOLE)))) * 1.05
    place = _ratio_places(reach)
    drawn, y = [], 0
    for line in lines:
        texts = _wrapped(line.label)
        below = y + _LABEL + _TEXT * (len(texts) - 1)
        dot = _ratio_dot(line, below + _LINE // 2, reach)
        drawn.append(Row(line.label, y + _LABEL - 6, (dot,), texts))
        y = below + _LINE
    band = (place(1 / (1 + equal)), round(place(1 + equal) - place(1 / (1 + equal)), 2)) if equal else None
    across = tuple(_ratio_ticks(place, reach))
    return Chart(title, tuple(drawn), across, y + _AXIS, about=about, band=band)


def _ratio_places(reach: float) -> Callable[[float], float]:
    middle = _WIDTH / 2

    def place(value: float) -> float:
        power = log10(value) if 0 < value < inf else -inf if not value else inf
        return round(middle + middle * max(-1.0, min(1.0, power / reach)), 2)

    return place


def _ratio_dot(line: RatioLine, y: int, reach: float) -> Dot:
    one, place = line.ratio, _ratio_places(reach)
    beyond = one.high == inf or max(log10(one.high), -log10(one.low) if one.low else inf) > reach
    text = times_within(one.ratio, one.low, one.high) if one.high < inf else times(one.ratio)
    return Dot(line.side, y, place(one.ratio), place(one.low), place(one.high), beyond, text)


def _ratio_ticks(place: Callable[[float], float], reach: float) -> Iterator[Tick]:
    chosen = {1.0: place(1)}
    for values in (_LESS, _MORE):
        last = place(1)
        for value in values:
            if abs(log10(value)) <= reach and abs(place(value) - last) >= _TICKS_APART:
                chosen[value] = last = place(value)
    for value in sorted(chosen):
        yield Tick(chosen[value], f"{value:g}\u00d7")


def _dots(y: int, measured: Mapping[str, Estimate], unit: str, end: float) -> Iterator[Dot]:
    for number, (side, one) in enumerate(measured.items()):
        low, high = one.bounds
        known = interval(one, unit)
        beyond = low is not None and high is not None and high > end * 1.001
        yield Dot(
            side,
            y + _LINE * number + _LINE // 2,
            _place(one.mean, end),
            None if low is None else _place(min(low, end), end),
            None if low is None else 100.0 if beyond else _place(one.mean if high is None else high, end),
            beyond,
            f"{side} {figure(one.mean, unit)}" + (f" ({known})" if known else ""),
            low is not None and high is None,
        )


def _place(value: float, end: float) -> float:
    return round(_WIDTH * value / end, 2)
