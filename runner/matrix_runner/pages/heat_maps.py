"""Heat maps: the best figure of each pair of values of two axes, of reads and writes apart.

Their markup: page/charts.html.j2.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

from matrix_runner.answers.cell_figures import CellFigures
from matrix_runner.pages.axis_charts import Group
from matrix_runner.pages.marks import MARK
from matrix_runner.pages.terminal_text import figure
from matrix_runner.work.metrics import SIDES, sides_of

_MOST_ROWS, _MOST_COLUMNS = 24, 12  # more columns do not fit on A4
_SHADES = 9
_ALIKE = 1.25  # ratio of values that may have all shades between them
_WIDE = 20.0  # above this ratio of the largest to the smallest value, a scale is logarithmic
Fields = dict[tuple[str, str], list["CellFigures"]]  # cells by their values down and along


@dataclass(frozen=True, slots=True)
class HeatMap:
    kind: ClassVar[str] = "heat map"
    title: str
    corner: str  # names of the axes
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]  # label; text and shade (0 to 9) of each field
    most: int  # cells behind a field; the best one is shown
    is_cut: bool  # an axis has more values


def heat_maps(group: Group) -> Iterator[HeatMap]:
    """Yield the map of two axes; if its fields would mix kinds of work, one for each kind."""
    by_work: dict[str, list[tuple[str, CellFigures]]] = {}
    for label, one in group.cells:
        by_work.setdefault(_work(one), []).append((label, one))
    found = _places(group)
    if found and any(len(set(map(_work, cells))) > 1 for cells in found.fields.values()):
        parts = (replace(group, about=f"{group.about}, {work}", cells=tuple(cells)) for work, cells in by_work.items())
        yield from filter(None, map(heat_map, parts))
    elif found:
        yield _draw(group, found)


def heat_map(group: Group) -> HeatMap | None:
    found = _places(group)
    return _draw(group, found) if found else None


def _work(one: CellFigures) -> str:
    return " and ".join(side for side in sides_of(one.figures) if side in SIDES)


@dataclass(frozen=True, slots=True)
class _Places:
    """The two axes of a map, and the cells of its fields."""

    along: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    is_cut: bool
    fields: Fields


def _places(group: Group) -> _Places | None:
    axes = group.axes
    ordered = group.ordered(axes)
    down, along = [*ordered, *(axis for axis in axes if axis not in ordered)][:2][::-1] if len(axes) > 1 else ("", "")
    columns, rows = (group.values(axis) if axis else [] for axis in (along, down))
    if len(columns) > max(_MOST_COLUMNS, len(rows)):
        along, down, columns, rows = down, along, rows, columns
    is_cut = len(columns) > _MOST_COLUMNS or len(rows) > _MOST_ROWS
    columns, rows = columns[:_MOST_COLUMNS], rows[:_MOST_ROWS]
    fields: Fields = {}
    for _, one in group.cells:
        if along in one.cell.axes and down in one.cell.axes:
            fields.setdefault((one.cell.axes[down], one.cell.axes[along]), []).append(one)
    if len(columns) < 2 or len(rows) < 2 or 2 * len(fields) < len(columns) * len(rows):
        return None
    return _Places(along, down, tuple(columns), tuple(rows), is_cut, fields)


def _draw(group: Group, found: _Places) -> HeatMap:
    name, unit, what = group.metric
    best = {key: max(cells, key=lambda one: one.figures[name].mean) for key, cells in found.fields.items()}
    levels = [one.figures[name].mean for one in best.values()]
    shade = _shades(min(levels), max(levels))

    def field(row: str, column: str) -> tuple[str, int]:
        one = best.get((row, column))
        if one is None:
            return "", 0
        value = one.figures[name].mean
        return figure(value, unit).rpartition(" ")[0] + f" {MARK}" * bool(one.host_limited), shade(value)

    down, along = group.names[found.down], group.names[found.along]
    return HeatMap(
        f"{group.about}: {what}{' in MB/s' * (unit != '1/s')} by {down} and {along}",
        f"{down} \\ {along}",
        found.columns,
        tuple((row, tuple(field(row, column) for column in found.columns)) for row in found.rows),
        max(map(len, found.fields.values())),
        found.is_cut,
    )


def _shades(low: float, high: float) -> Callable[[float], int]:
    """Return a shade by value. Small differences have similar shades: they may be chance."""
    low = min(low, high / _ALIKE)
    if high <= low:
        return lambda _: 0
    if low > 0 and high / low > _WIDE:
        return lambda value: round(_SHADES * log(value / low) / log(high / low))
    return lambda value: round(_SHADES * (value - low) / (high - low))
