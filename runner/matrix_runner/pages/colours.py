"""The colours of lines: one for each layout, in all charts of the pages of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from matrix_runner.base.quantities import parse_size, parse_time
from matrix_runner.records.record import CellRow

COLOURS = 8  # as many as the page has; explore_views.js has as many


@dataclass(frozen=True, slots=True)
class Colours:
    """Numbers of colours, from 1, by the values of one axis."""

    axis: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)  # lines along the axis, by their names

    def number(self, name: str, cells: Iterable[CellRow]) -> int:
        """Return the colour of a line. One whose cells differ in the axis keeps the colour that it got first."""
        values = {cell.axes.get(self.axis, "") for cell in cells}
        if len(values) == 1 and (known := self.numbers.get(values.pop())):
            return known
        return self._others.setdefault(name, len(self._others) % COLOURS + 1)


def choose_colours(cells: Sequence[CellRow]) -> Colours:
    names = dict.fromkeys(name for cell in cells for name in cell.axes)
    every = {name: [cell.axes.get(name, "") for cell in cells] for name in names}
    axes = {name: values for name, values in every.items() if len(set(values)) > 1}
    axis = colour_axis(axes)
    values = in_size_order(dict.fromkeys(axes.get(axis, ())))
    return Colours(axis, {value: min(at, COLOURS) for at, value in enumerate(values, start=1)})


def colour_axis(axes: Mapping[str, Sequence[str]]) -> str:
    """Return the axis that colours show, from the values of all cells: the run, the layout or the first one."""
    return next((name for name in ("run", "layout") if name in axes), next(iter(independent(axes)), ""))


def independent(axes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the axes whose value does not follow from that of an earlier one."""
    found: list[str] = []
    for name, values in axes.items():
        if not any(len(set(zip(axes[by], values, strict=True))) == len(set(axes[by])) for by in found):
            found.append(name)
    return found


def in_size_order(values: Iterable[str]) -> list[str]:
    """Sort numbers, sizes and times by size; words keep their order. A missing value is last."""
    given = sorted(values, key=lambda value: value == "")
    words = [value for value in given if value]
    for number in (float, parse_size, parse_time):
        try:
            return [*sorted(words, key=number), *given[len(words) :]]
        except (ValueError, TypeError):
            continue
    return given
