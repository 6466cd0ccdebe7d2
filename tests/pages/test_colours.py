"""A layout has one colour in all charts of both pages of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from matrix_runner.pages.axis_charts import COLOURS, Colours, choose_colours, distribution, plots
from matrix_runner.pages.explore import _content, explored
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow
from tests.support.charted import LAYOUTS, Axes, by_chunk, group_of, run_of

PAGE = Path("runner/matrix_runner/pages/page")
RAIDS = ("raid0", "raid5", "raid6", "raid10")


def cells_of(**values: tuple[str, ...]) -> list[CellRow]:
    rows = [dict(zip(values, one, strict=True)) for one in product(*values.values())]
    return [CellRow(f"c{at}", "/".join(axes.values()), axes) for at, axes in enumerate(rows)]


@pytest.mark.parametrize(
    ("values", "axis", "numbers"),
    [
        ({"layout": RAIDS, "bs": ("4KiB", "1KiB")}, "layout", {one: at for at, one in enumerate(RAIDS, start=1)}),
        ({"layout": ("raid5",), "bs": ("4KiB", "1KiB")}, "bs", {"1KiB": 1, "4KiB": 2}),
        ({"layout": ("raid5",)}, "", {}),
    ],
)
def test_both_pages_colour_the_same_axis_in_the_same_order(
    values: dict[str, tuple[str, ...]], axis: str, numbers: dict[str, int]
) -> None:
    run = RunData("m", "qemu", False, cells_of(**values), [])
    colours = choose_colours(run.cells)
    assert (colours.axis, colours.numbers) == (axis, numbers)
    content = _content([explored(run, "run")])[1]
    assert content["colour"] == axis
    assert [one["values"] for one in content["axes"] if one["name"] == axis] == ([[*numbers]] if numbers else [])


def test_the_last_of_many_layouts_share_a_colour() -> None:
    names = tuple(f"l{at:02}" for at in range(COLOURS + 3))
    assert [*choose_colours(cells_of(layout=names)).numbers.values()] == [*range(1, COLOURS + 1), *[COLOURS] * 3]


def test_a_line_along_the_axis_keeps_its_first_colour() -> None:
    cells, colours = cells_of(layout=RAIDS), Colours("layout", {"raid0": 1})
    assert [colours.number(name, cells) for name in ("bs=4KiB", "bs=8KiB", "bs=4KiB")] == [1, 2, 1]


def test_a_layout_keeps_its_colour_while_the_order_of_lines_changes() -> None:
    def reversed_(axes: Axes, number: int) -> float:
        return 1e12 / by_chunk(axes, number)

    for rate, names in ((by_chunk, ["raid0", "raid5"]), (reversed_, ["raid5", "raid0"])):
        run = run_of(rate, LAYOUTS)
        group = replace(group_of(run), colours=choose_colours(run.cells))
        (lines,) = plots(group)
        assert [one.name for one in lines.series] == names
        assert {one.name: one.colour for one in lines.series} == {"raid5": 1, "raid0": 2}
        shares = distribution(group, "read", run.by_cell)
        assert shares
        assert {one.name.partition("/")[0]: one.colour for one in shares.series} == {"raid5": 1, "raid0": 2}


def test_lines_of_one_layout_have_patterns_of_their_own() -> None:
    run = run_of(by_chunk, {**LAYOUTS, "workload.rw": ("read", "write")})
    (lines,) = plots(replace(group_of(run), colours=choose_colours(run.cells)))
    assert sorted(one.colour for one in lines.series) == [1, 1, 2, 2]
    assert len({one.dash for one in lines.series}) == 4


def test_the_pages_have_the_same_colours() -> None:
    style, script = ((PAGE / name).read_text() for name in ("report.css", "explore_views.js"))
    palettes = re.findall(r"(?:light|dark): \[(.*)\]", script)
    assert len(palettes) == 2
    assert re.findall(r"--line\d: (#\w+)", style) == re.findall(r"#\w+", "".join(palettes))
    assert len(re.findall(r"\.dash\d", style)) == COLOURS
