"""Heat maps: the best figure of each pair of values of two axes, of reads and writes apart.

Their markup: page/charts.html.j2.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

from matrix_runner.answers.cell_figures import CellFigures
from matrix_runner.pages.axis_charts import Group
from matrix_runner.pages.terminal_text import MARK, figure
from matrix_runner.work.metrics import SIDES, sides_of

_MOST_ROWS, _MOST_COLUMNS = 24, 12  # more columns do not fit on A4
_SHADES = 9
_ALIKE = 1.25  # ratio of values that may have all shades between them
_WIDE = 20.0  # above this ratio of the largest to the smallest value, a scale is logarithmic


@dataclass(frozen=True, slots=True)
class HeatMap:
    kind: ClassVar[str] = "heat map"
    title: str
    corner: str  # names of the axes
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]  # label; text and shade (0 to 9) of each field
    most: int  # cells behind a field; the best one is shown
    is_cut: bool  # an axis has more values
    is_mixed: bool  # the cells of some field do different kinds of work


def heat_maps(group: Group) -> Iterator[HeatMap]:
    """Yield the map of two axes; if its fields would mix kinds of work, one for each kind."""
    by_work: dict[str, list[tuple[str, CellFigures]]] = {}
    for label, one in group.cells:
        by_work.setdefault(_work(one), []).append((label, one))
    whole = _heat_map(group)
    if whole and whole.is_mixed:
        for work, cells in by_work.items():
            if made := _heat_map(replace(group, about=f"{group.about}, {work}", cells=tuple(cells))):
                yield made
    elif whole:
        yield whole


def _work(one: CellFigures) -> str:
    return " and ".join(side for side in sides_of(one.figures) if side in SIDES)


def _heat_map(group: Group) -> HeatMap | None:
    axes = group.axes
    ordered = group.ordered(axes)
    down, along = [*ordered, *(axis for axis in axes if axis not in ordered)][:2][::-1] if len(axes) > 1 else ("", "")
    columns, rows = (group.values(axis) if axis else [] for axis in (along, down))
    if len(columns) > max(_MOST_COLUMNS, len(rows)):
        along, down, columns, rows = down, along, rows, columns
    is_cut = len(columns) > _MOST_COLUMNS or len(rows) > _MOST_ROWS
    columns, rows = columns[:_MOST_COLUMNS], rows[:_MOST_ROWS]
    fields: dict[tuple[str, str], list[CellFigures]] = {}
    for _, one in group.cells:
        if along in one.cell.axes and down in one.cell.axes:
            fields.setdefault((one.cell.axes[down], one.cell.axes[along]), []).append(one)
    if len(columns) < 2 or len(rows) < 2 or 2 * len(fields) < len(columns) * len(rows):
        return None
    name, unit, what = group.metric
    best = {key: max(cells, key=lambda one: one.figures[name].mean) for key, cells in fields.items()}
    levels = [one.figures[name].mean for one in best.values()]
    shade = _shades(min(levels), max(levels))

    def field(row: str, column: str) -> tuple[str, int]:
        one = best.get((row, column))
        if one is None:
            return "", 0
        value = one.figures[name].mean
        return figure(value, unit).rpartition(" ")[0] + f" {MARK}" * bool(one.host_limited), shade(value)

    return HeatMap(
        f"{group.about}: {what}{' in MB/s' * (unit != '1/s')} by {group.names[down]} and {group.names[along]}",
        f"{group.names[down]} \\ {group.names[along]}",
        tuple(columns),
        tuple((row, tuple(field(row, column) for column in columns)) for row in rows),
        max(map(len, fields.values())),
        is_cut,
        any(len(set(map(_work, cells))) > 1 for cells in fields.values()),
    )


def _shades(low: float, high: float) -> Callable[[float], int]:
    """Return a shade by value. Small differences have similar shades: they may be chance."""
    low = min(low, high / _ALIKE)
    if high <= low:
        return lambda _: 0
    if low > 0 and high / low > _WIDE:
        return lambda value: round(_SHADES * log(value / low) / log(high / low))
    return lambda value: round(_SHADES * (value - low) / (high - low))
