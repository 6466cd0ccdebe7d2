"""The part of a large run that its pages show."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.run_data import choose_part
from matrix_runner.records.record import CellRow

if TYPE_CHECKING:
    from collections.abc import Sequence

DEPTHS = [str(number) for number in range(1, 101)]
SIZES = ["4KiB", "8KiB", "16KiB", "32KiB", "64KiB"]


def grid(**axes: Sequence[str]) -> list[CellRow]:
    names = [name.replace("__", ".") for name in axes]
    return [
        CellRow(str(at), str(at), dict(zip(names, one, strict=True))) for at, one in enumerate(product(*axes.values()))
    ]


CELLS = grid(layout=["a", "b", "c"], workload__rw=["read", "write", "trim"], workload__iodepth=DEPTHS, md__chunk=SIZES)


@pytest.mark.parametrize("most", [45 * 100, 1000, 200, 90])
def test_it_has_every_combination_of_its_values(most: int) -> None:
    part = choose_part(CELLS, most)
    values = [sorted({cell.axes[axis] for cell in part.cells}) for axis in CELLS[0].axes]
    assert sorted(tuple(cell.axes.values()) for cell in part.cells) == sorted(product(*values))
    assert most // 4 < len(part.cells) <= most
    assert sorted(part.cells, key=lambda cell: int(cell.id)) == part.cells


def test_numbers_of_workloads_go_first_and_keep_their_ends() -> None:
    kept = choose_part(CELLS, 4500 // 20).values
    assert list(kept) == ["workload.iodepth"]
    some, of = kept["workload.iodepth"]
    assert (some[0], some[-1], of) == ("1", "100", 100)
    assert len(some) == len(set(some)) == 4


def test_stacks_stay_until_only_the_ends_of_numbers_are_left() -> None:
    assert {cell.axes["layout"] for cell in choose_part(CELLS, 36).cells} == {"a", "b", "c"}
    assert "layout" in choose_part(CELLS, 20).values


def test_cells_without_long_axes_are_taken_evenly() -> None:
    cells = [CellRow(str(at), str(at), {}) for at in range(100)]
    assert [cell.id for cell in choose_part(cells, 4).cells] == ["0", "25", "50", "75"]


def test_a_cell_without_the_axis_stays() -> None:
    alone = CellRow("alone", "alone", {"layout": "a"})
    assert alone in choose_part([*CELLS, alone], 500).cells


def test_the_text_names_what_stays() -> None:
    assert choose_part(CELLS, 4500 // 20).text == "180 of 4,500 cells, with iodepth 1, 33, 65, 100 (4 of 100 values)"
    assert "iodepth 1, 3, 5, 7, 9, …, 100 (50 of 100 values)" in choose_part(CELLS, 4499).text
    assert choose_part(CELLS, 4500).text == "4,500 of 4,500 cells"
