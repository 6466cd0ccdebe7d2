"""The part of a large run that its pages show: all values of most axes, and some values of the longest ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matrix_runner.pages.axis_charts import in_order, is_numeric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.records.record import CellRow

_LEAST = 2  # values of an axis that stay: its ends
_NAMED = 6  # values that the text names


@dataclass(frozen=True, slots=True)
class Part:
    cells: Sequence[CellRow]
    every: Sequence[CellRow]
    values: Mapping[str, tuple[Sequence[str], int]]  # of each shortened axis: those that stay, and how many it has

    @property
    def text(self) -> str:
        axes = "; ".join(
            f"{axis.removeprefix('workload.')} {_some(kept)} ({len(kept)} of {every} values)"
            for axis, (kept, every) in self.values.items()
        )
        return f"{len(self.cells):,} of {len(self.every):,} cells{f', with {axes}' if axes else ''}"


def choose_part(cells: Sequence[CellRow], most: int) -> Part:
    """Choose cells so that charts and effects of the part stay complete: every combination of the values that stay.

    Numbers of workloads go first: a page without some stack could miss the best one.
    """
    kept, values = cells, _values(cells)
    every = {axis: len(several) for axis, several in values.items()}
    while len(kept) > most and (axis := _longest(values)):
        values[axis] = _every_second(values[axis])
        chosen = {*values[axis]}
        kept = [cell for cell in kept if axis not in cell.axes or cell.axes[axis] in chosen]
    if len(kept) > most:
        kept = [kept[at * len(kept) // most] for at in range(most)]
    shortened = {axis: (of, every[axis]) for axis, of in values.items() if len(of) < every[axis]}
    return Part(kept, cells, shortened)


def _values(cells: Sequence[CellRow]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, value in cell.axes.items():
            found.setdefault(axis, {})[value] = None
    return {axis: in_order(several) for axis, several in found.items()}


def _longest(values: Mapping[str, Sequence[str]]) -> str | None:
    """Return the axis to shorten: the longest one of the first kind that has one."""
    long = [axis for axis, several in values.items() if len(several) > _LEAST]
    return min(long, key=lambda axis: (_kind(axis, values[axis]), -len(values[axis])), default=None)


def _kind(axis: str, values: Sequence[str]) -> tuple[bool, bool]:
    return not is_numeric(axis, values), not axis.startswith("workload.")


def _every_second(values: Sequence[str]) -> list[str]:
    """Return half of the values, with both ends."""
    count = (len(values) + 1) // 2
    return [values[at * (len(values) - 1) // (count - 1)] for at in range(count)]


def _some(values: Sequence[str]) -> str:
    few = [*values[: _NAMED - 1], "…", values[-1]] if len(values) > _NAMED else values
    return ", ".join(few)
