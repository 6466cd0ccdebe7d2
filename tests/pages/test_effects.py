"""Heat maps, from runs whose figures are known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from matrix_runner.pages.effects import heat_maps
from matrix_runner.records.record import HOST_LIMITED
from tests.support.charted import CHUNKS, LAYOUTS, TWO, by_chunk, group_of, run_of
from tests.support.facts import noted

if TYPE_CHECKING:
    from matrix_runner.pages.run_data import RunData


def test_a_heat_map_has_the_figures_of_two_axes() -> None:
    made = next(heat_maps(group_of(run_of(by_chunk, LAYOUTS))), None)
    assert made
    assert made.title == "work: bandwidth in MB/s by layout and chunk"
    assert (made.columns, made.most) == (CHUNKS, 1)
    assert made.rows == (
        ("raid5", (("100", 0), ("200", 1), ("400", 4))),
        ("raid0", (("200", 1), ("400", 4), ("800", 9))),
    )


def test_a_heat_map_of_more_axes_shows_the_best_of_each_field() -> None:
    run = run_of(by_chunk, {**LAYOUTS, "workload.rw": ("read", "randread")})
    made = next(heat_maps(group_of(run)), None)
    assert made
    assert made.most == 2
    assert next(heat_maps(group_of(run_of(by_chunk, {**LAYOUTS, "layout": ("raid5",)}))), None) is None


def test_a_heat_map_has_no_row_for_a_layout_without_the_other_axis() -> None:
    run = run_of(by_chunk, {"layout": ("raid1", "raid5", "raid0"), "md.chunk": CHUNKS})
    axes = {
        one.id: {k: v for k, v in one.axes.items() if (one.axes["layout"], k) != ("raid1", "md.chunk")}
        for one in run.cells
    }
    (made,) = heat_maps(group_of(replace(run, cells=[replace(one, axes=axes[one.id]) for one in run.cells])))
    assert [label for label, _ in made.rows] == ["raid5", "raid0"]


def of_sides(*works: str, host_limited: str = "") -> RunData:
    """Return a run of works that read, write or do both. One may be host-limited with its chunks of 4 KiB."""
    run = run_of(by_chunk, {**TWO, "workload.rw": works})
    axes = {cell.id: cell.axes for cell in run.cells}
    trials = []
    for one in run.trials:
        assert one.figures
        of, work = one.figures.read, axes[one.cell]["workload.rw"]
        figures = replace(one.figures, read=of if work != "write" else None, write=of if work != "read" else None)
        is_limited = work == host_limited and axes[one.cell]["md.chunk"] == "4KiB"
        trials.append(replace(one, figures=figures, **noted({HOST_LIMITED: "55%"} if is_limited else {})))
    return replace(run, trials=trials)


def test_a_heat_map_does_not_mix_reads_and_writes() -> None:
    read, write = heat_maps(group_of(of_sides("read", "write")))
    assert (read.title, write.title) == (
        "work, read: bandwidth in MB/s by layout and chunk",
        "work, write: bandwidth in MB/s by layout and chunk",
    )
    assert (read.most, write.most) == (1, 1)
    assert len([*heat_maps(group_of(of_sides("read", "write", "rw")))]) == 3
    (both,) = heat_maps(group_of(of_sides("rw")))
    assert both.title.startswith("work: ")
    run = of_sides("read", "write")
    few = replace(run, cells=[one for one in run.cells if one.axes["md.chunk"] == "4KiB"])
    few = replace(few, trials=[one for one in run.trials if one.cell in {cell.id for cell in few.cells}])
    (by_rw,) = heat_maps(group_of(few))
    assert by_rw.corner == "rw \\ layout", "an axis keeps them apart"


def test_a_heat_map_marks_host_limited_fields() -> None:
    read, write = heat_maps(group_of(of_sides("read", "write", host_limited="write")))
    assert not [text for _, fields in read.rows for text, _ in fields if "(!)" in text]
    assert [[text for text, _ in fields] for _, fields in write.rows] == [["100 (!)", "400"], ["200 (!)", "800"]]


def test_a_heat_map_of_small_differences_has_similar_shades() -> None:
    made = next(heat_maps(group_of(run_of(lambda axes, _: 1e8 + 1e6 * len(axes["md.chunk"]), TWO))), None)
    assert made
    assert {shade for _, fields in made.rows for _, shade in fields} <= {8, 9}


def test_a_large_heat_map_is_high_and_marked_as_cut() -> None:
    depths, chunks = ([str(2**power) for power in range(many)] for many in (14, 5))
    run = run_of(lambda axes, _: 1e6 * int(axes["workload.iodepth"]), {"workload.iodepth": depths, "md.chunk": chunks})
    made = next(heat_maps(group_of(run)), None)
    assert made
    assert (made.columns, [label for label, _ in made.rows]) == (tuple(chunks), depths)
    assert (made.corner, made.is_cut) == ("iodepth \\ chunk", False)
    run = run_of(lambda axes, _: 1e6 * int(axes["workload.iodepth"]), {"workload.iodepth": depths, "md.chunk": depths})
    made = next(heat_maps(group_of(run)), None)
    assert made
    assert (len(made.columns), len(made.rows), made.is_cut) == (12, 14, True)
