"""Charts over axes, from runs whose figures are known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.axis_charts import distribution, free_axes, plots, waiting
from matrix_runner.pages.effects import effects, heat_maps
from matrix_runner.pages.html import page
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import HOST_LIMITED, CellRow
from tests.pages.samples import direction, measured
from tests.support.begun_runs import manifest
from tests.support.charted import FACTORS, LAYOUTS, TWO, Axes, by_chunk, group_of, run_of
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_axes_that_another_one_determines_do_not_count() -> None:
    run = run_of(by_chunk, LAYOUTS)
    cells = [CellRow(c.id, c.name, {"md.level": c.axes["layout"][4:], **c.axes, "md.metadata": "1"}) for c in run.cells]
    assert free_axes(cells) == ["layout", "md.chunk"]


def test_lines_go_along_an_ordered_axis_with_intervals() -> None:
    (made,) = plots(group_of(run_of(lambda axes, r: by_chunk(axes, r) * (1 + r / 100), LAYOUTS)))
    assert made.title == "work: bandwidth by chunk"
    assert [one.name for one in made.series] == ["raid0", "raid5"], "the highest first"
    fast, slow = made.series
    assert [one.x for one in slow.points] == pytest.approx([0, 50, 100]), "sizes by powers of two are on a log axis"
    assert 100 - fast.points[0].y == pytest.approx(2 * (100 - slow.points[0].y), abs=0.1)
    for point in slow.points:
        assert point.low is not None
        assert point.high is not None
        assert point.high < point.y < point.low <= 100
    assert slow.points[0].text.startswith("4KiB: 102 MB/s (")
    assert not [*plots(group_of(run_of(by_chunk, TWO)))], "two are no line"


def test_points_of_host_limited_trials_are_marked() -> None:
    run = run_of(by_chunk, LAYOUTS)
    (made,) = plots(group_of(run))
    assert made.note == ""
    (slow,) = (c.id for c in run.cells if c.axes == {"layout": "raid5", "md.chunk": "64KiB"})
    trials = [replace(one, **noted({HOST_LIMITED: "9.0%"})) if one.cell == slow else one for one in run.trials]
    run = replace(run, trials=trials)
    (made,) = plots(group_of(run))
    assert [[point.host_limited for point in one.points] for one in made.series] == [[False] * 3, [False, True, False]]
    assert made.series[1].points[1].text.endswith("(!) 3 host-limited")
    assert made.note == "(!): some of the trials are host-limited"


def test_the_page_shows_the_marks_of_points() -> None:
    run = run_of(by_chunk, LAYOUTS)
    cells = [
        CellRow(c.id, f"{c.axes['layout']}/chunk={c.axes['md.chunk']}/work", {**c.axes, "workload": "work"})
        for c in run.cells
    ]
    trials = [replace(one, **noted({HOST_LIMITED: "9.0%"})) if one.cell == cells[0].id else one for one in run.trials]
    assert ">(!)</text>" not in page(replace(run, cells=cells), manifest(), "sweep-1").decode()
    text = page(replace(run, cells=cells, trials=trials), manifest(), "sweep-1").decode()
    assert text.count(">(!)</text>") == 1
    assert '<p class="key">(!): some of the trials are host-limited</p>' in text


def test_curves_of_host_limited_trials_are_marked() -> None:
    run = run_of(by_chunk, LAYOUTS)
    trials = [
        replace(one, **noted({HOST_LIMITED: "9.0%"})) if one.cell == run.cells[-1].id else one for one in run.trials
    ]
    run = replace(run, trials=trials)
    found = distribution(group_of(run), "read", run.by_cell)
    assert found
    assert {one.name: one.host_limited for one in found.series} == {"raid0/1MiB": True, "raid5/1MiB": False}


def test_axes_that_only_change_together_make_no_line() -> None:
    run = run_of(by_chunk, {**LAYOUTS, "layout": ("raid5",)})
    together = [
        CellRow(c.id, c.name, {**c.axes, "workload.iodepth": str(FACTORS[c.axes["md.chunk"]])}) for c in run.cells
    ]
    whole = RunData("m", "qemu", False, together, run.trials)
    assert not [*plots(group_of(whole))]
    assert next(heat_maps(group_of(whole)), None) is None


def test_latency_against_rate_needs_a_queue_depth() -> None:
    run = run_of(
        lambda axes, _: 4e6 * int(axes["workload.iodepth"]), {"workload.iodepth": ("1", "16", "4")}, request=4096
    )
    lines, knee = plots(group_of(run))
    assert lines.title == "work: IOPS by iodepth"
    assert knee.title == "work: read p99 against IOPS, by queue depth"
    (one,) = knee.series
    assert [point.text.partition(",")[0] for point in one.points] == ["depth 1", "depth 4", "depth 16"]
    assert [point.x for point in one.points] == pytest.approx([6.25, 25, 100], abs=0.1)
    assert "9.00 ms" in one.points[0].text


def test_a_distribution_has_the_fastest_cell_of_each_layout() -> None:
    run = run_of(by_chunk, LAYOUTS)
    made = distribution(group_of(run), "read", run.by_cell)
    assert made
    assert [one.name for one in made.series] == ["raid0/1MiB", "raid5/1MiB"]
    texts = [point.text for point in made.series[0].points]
    assert {"50 %: 4.00 ms", "90 %: 8.00 ms", "99 %: 9.00 ms", "100 %: 10.0 ms"} <= {*texts}
    places = [(point.x, -point.y) for point in made.series[0].points]
    assert places == sorted(places)
    assert made.title.endswith("latencies, the fastest cell of each layout")
    assert distribution(group_of(run), "write", run.by_cell) is None
    alone = run_of(by_chunk, {**LAYOUTS, "layout": ("raid5",)})
    made = distribution(group_of(alone), "read", alone.by_cell)
    assert made
    assert made.title.endswith("latencies, the fastest cell (raid5/1MiB)")


def shifted(axes: Axes, round_number: int) -> float:
    """Each round has another level, which ratios within rounds do not see."""
    both = axes["layout"] == "raid0" and axes["md.chunk"] == "1MiB"
    return by_chunk(axes, round_number) * (1 + round_number) * (1.5 if both else 1) * (1 + 1e-6 * round_number)


def test_effects_are_ratios_within_rounds() -> None:
    run = run_of(shifted, TWO)
    found = effects(group_of(run), run.by_cell, 0.95)
    assert found
    assert [row[:2] for row in found.table.rows] == [
        ("layout: raid0 instead of raid5", "2.45\u00d7"),
        ("chunk: 1MiB instead of 4KiB", "4.90\u00d7"),
        ("layout: raid0 instead of raid5 \u00d7 chunk: 1MiB instead of 4KiB", "1.50\u00d7"),
    ]
    assert found.table.rows[0][2] == "2.45\u00d7 to 2.45\u00d7", "the level of a round cancels"
    places = [row.dots[0].x for row in found.chart.rows]
    assert 48 < places[2] < places[0] < places[1]
    assert "1\u00d7" in [tick.text for tick in found.chart.ticks]


@pytest.mark.parametrize(
    ("values", "effect"),
    [
        (("default", "4096"), "stripe_cache_size: 4096 instead of default"),
        (("512", "256"), "stripe_cache_size: 256 instead of 512"),
    ],
)
def test_effects_compare_with_the_first_value_of_the_file(values: Sequence[str], effect: str) -> None:
    run = run_of(
        lambda axes, r: 1e8 * (len(axes["tunables.stripe_cache_size"]) + r / 100),
        {"tunables.stripe_cache_size": values},
    )
    found = effects(group_of(run), run.by_cell, 0.95)
    assert found
    assert [row[0] for row in found.table.rows] == [effect]


def test_effects_with_host_limited_trials_are_marked_and_their_intervals_explained() -> None:
    run = run_of(shifted, LAYOUTS)
    found = effects(group_of(run), run.by_cell, 0.95)
    assert found
    assert "pairs the trials of each round" in found.chart.note
    assert "(!)" not in found.chart.note
    assert "guideline" not in found.chart.note
    slow = {cell.id for cell in run.cells if cell.axes == {**cell.axes, "layout": "raid5", "md.chunk": "64KiB"}}
    trials = [replace(one, **noted({HOST_LIMITED: "9.0%"})) if one.cell in slow else one for one in run.trials]
    run = replace(run, trials=trials)
    found = effects(group_of(run), run.by_cell, 0.95, steered=True)
    assert found
    labels = [str(row[0]) for row in found.table.rows]
    marked = [one.removesuffix(" (!)") for one in labels if one.endswith(" (!)")]
    assert marked == ["layout: raid0 instead of raid5", "chunk: 64KiB instead of 4KiB"]
    assert [row.label for row in found.chart.rows] == labels
    assert len(labels) > len(marked)
    assert "(!): some of the trials are host-limited" in found.chart.note
    assert "`--until-decided`" in found.chart.note


def test_effects_need_equal_other_axes_and_two_rounds() -> None:
    run = run_of(shifted, TWO, rounds=1)
    assert effects(group_of(run), run.by_cell, 0.95) is None
    run = run_of(shifted, TWO)
    together = [CellRow(c.id, c.name, {"workload.bs": c.axes["md.chunk"], **c.axes}) for c in run.cells]
    found = effects(group_of(RunData("m", "qemu", False, together, run.trials)), run.by_cell, 0.95)
    assert found
    assert [row[0] for row in found.table.rows] == ["layout: raid0 instead of raid5"], "bs and chunk change together"


def striped(waiting: Sequence[str]) -> RunData:
    cells = [
        CellRow(f"c{n}", f"stripe-{n}", {"layout": f"stripe-{n}", "lvm.stripes": str(n), "md.level": str(n)})
        for n in range(1, len(waiting) + 1)
    ]
    trials = [
        replace(measured(cell.id, r, direction(1e8, 1 << 20)), **noted({"iowait": waiting[at]} if waiting[at] else {}))
        for at, cell in enumerate(cells)
        for r in (1, 2, 3)
    ]
    return RunData("m", "qemu", False, cells, trials)


def test_a_number_that_differs_between_all_layouts_replaces_the_layout() -> None:
    run = striped(("0.1",) * 4)
    assert free_axes(run.cells) == ["lvm.stripes"]
    assert free_axes(
        [replace(one, axes={"layout": one.name, "md.level": one.axes["md.level"]}) for one in run.cells]
    ) == ["layout"], "a level is a name"
    extra = CellRow("c9", "other", {"layout": "other", "lvm.stripes": "4"})
    assert free_axes([*run.cells, extra]) == ["layout"]
    (made,) = plots(group_of(run))
    assert made.title == "work: bandwidth by stripes"
    assert [tick.text for tick in made.across] == ["1", "2", "3", "4"]


def test_waiting_is_drawn_along_an_ordered_axis() -> None:
    run = striped(("0.4", "0.2", "", "0.1"))
    made = waiting(group_of(run), run.by_cell, run.rule)
    assert made
    assert made.title == "work: waiting of the processors (iowait) by stripes"
    assert [(one.x, one.y, one.text.partition(" (")[0]) for one in made.series[0].points] == [
        (0, 0, "1: 40.0 %"),
        (33.33, 50, "2: 20.0 %"),
        (100, 75, "4: 10.0 %"),
    ]


@pytest.mark.parametrize("notes", [("0.4", "0.2"), ("0.04", "0.03", "0.01"), ("", "", "")])
def test_little_waiting_and_few_points_have_no_chart(notes: Sequence[str]) -> None:
    run = striped(notes)
    assert waiting(group_of(run), run.by_cell, run.rule) is None


def test_too_many_effects_keep_one_for_each_axis() -> None:
    def by_size(axes: Axes, round_number: int) -> float:
        return 1e6 * int(axes["workload.bs"]) * (1 + round_number / 1000)

    sizes = tuple(str(2**power) for power in range(12))
    few = run_of(by_size, {"workload.bs": sizes, "workload.rw": ("read", "write")})
    found = effects(group_of(few), few.by_cell, few.confidence)
    assert found
    assert len([row for row in found.table.rows if "×" not in str(row[0])]) == 12
    many = run_of(by_size, {"workload.bs": sizes, "workload.iodepth": sizes[:8], "workload.rw": ("read", "write")})
    found = effects(group_of(many), many.by_cell, many.confidence)
    assert found
    assert [row[0] for row in found.table.rows if "×" not in str(row[0])] == [
        "bs: 2048 instead of 1",
        "iodepth: 128 instead of 1",
        "rw: write instead of read",
    ]
