"""Runs with known figures, for charts over axes."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from matrix_runner.pages.axis_charts import Group
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Trial
from tests.pages.samples import direction, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Axes = dict[str, str]
CHUNKS = ("4KiB", "64KiB", "1MiB")
FACTORS = {"4KiB": 1, "64KiB": 2, "1MiB": 4}


def run_of(
    rate: Callable[[Axes, int], float],
    values: Mapping[str, Sequence[str]],
    rounds: int = 3,
    request: int = 1 << 20,
) -> RunData:
    """Return a run with a cell for each combination of values."""
    cells, trials = list[CellRow](), list[Trial]()
    for number, one in enumerate(product(*values.values())):
        axes = dict(zip(values, one, strict=True))
        cells.append(CellRow(f"c{number}", "/".join(one), axes))
        trials += [measured(f"c{number}", r, direction(rate(axes, r), request)) for r in range(1, rounds + 1)]
    return RunData("m", "qemu", False, cells, trials)


def group_of(run: RunData) -> Group:
    names = {axis: axis.rpartition(".")[2] for cell in run.cells for axis in cell.axes}
    return Group("work", tuple((one.cell.name, one) for one in run.summaries), names)


def by_chunk(axes: Mapping[str, str], _: int) -> float:
    return 1e8 * FACTORS[axes["md.chunk"]] * (2 if axes["layout"] == "raid0" else 1)


LAYOUTS = {"layout": ("raid5", "raid0"), "md.chunk": CHUNKS}
TWO = {**LAYOUTS, "md.chunk": ("4KiB", "1MiB")}
