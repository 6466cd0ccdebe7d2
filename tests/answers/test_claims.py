"""Which cells a claim compares, and which it leaves out or refuses."""

from typing import Any

import pytest

from matrix_runner.answers.cell_figures import Verdict
from tests.answers.world import cells, guideline, of_layout, row, run, verdict

MIRRORS = [
    row({"layout": "raid1", "md.level": "1", "workload": "seq"}),
    *(
        row({"layout": name, "md.level": "10", "md.layout": name, "md.chunk": "64KiB", "workload": "seq"})
        for name in ("n2", "o2", "f2")
    ),
]


def test_axes_that_change_with_the_layout_are_compared_and_noted() -> None:
    field = [
        row({"layout": "raid0", "md.level": "0", "md.chunk": "64KiB", "workload": "seq"}),
        row({"layout": "far", "md.level": "10", "md.layout": "f2", "md.chunk": "512KiB", "workload": "seq"}),
        row({"layout": "far", "md.level": "10", "md.layout": "n2", "md.chunk": "512KiB", "workload": "seq"}),
    ]
    said = verdict(of_layout(within="10%"), run(field, lambda _: 100.0))
    assert [one.case.label for one in said.results] == ["md.layout=f2", "md.layout=n2"]
    assert said.notes == ("md.chunk differs as well: 512KiB against 64KiB", "md.level differs as well: 10 against 0")


@pytest.mark.parametrize(
    ("shape", "asked"),
    [
        (
            {"ratio": {"of": {"layout": "f2"}, "to": {"layout": ["raid1", "n2", "o2"]}, "at_least": 1.5}},
            {f"layout=f2 against {other}" for other in ("raid1", "n2", "o2")},
        ),
        ({"best": {"along": "layout", "is": "f2"}}, {f"layout=f2 against {other}" for other in ("raid1", "n2", "o2")}),
        (
            {"ratio": {"of": {"layout": "f2"}, "to": {"layout": ["raid1", "n2", "o2"]}, "mean": True, "at_least": 1.5}},
            None,
        ),
    ],
)
def test_no_layout_that_was_named_is_left_out_as_it_is_of_another_level(
    shape: dict[str, dict[str, Any]], asked: set[str] | None
) -> None:
    """A RAID 1 that reads faster than all of them would be seen."""
    claim = guideline(**{kind: {"metric": "read.bw", **words} for kind, words in shape.items()})

    levels = {"raid1": 100.0, "n2": 100.0, "o2": 100.0, "f2": 200.0}
    said = verdict(claim, run(MIRRORS, lambda axes: levels[axes["layout"]]))
    assert said.verdict is Verdict.HOLDS
    assert asked is None or {one.case.label for one in said.results} == asked
    assert {cell for one in said.results for cell in one.case.cells} == {cell.id for cell in MIRRORS}
    levels["raid1"] = 1600.0
    assert verdict(claim, run(MIRRORS, lambda axes: levels[axes["layout"]])).verdict is not Verdict.HOLDS


def test_selected_cells_without_a_partner_are_named() -> None:
    field = [
        *MIRRORS,
        row({"layout": "f2", "md.level": "10", "md.layout": "f2", "md.chunk": "64KiB", "workload": "rnd"}),
    ]
    said = verdict(of_layout(of={"layout": "f2"}, to={"layout": "n2"}, within="10%"), run(field, lambda _: 100.0))
    assert said.verdict is Verdict.HOLDS
    assert said.notes[-1] == f"left out, because the other side has no matching cell: {field[-1].name}"


def test_cells_without_the_figure_differ_from_missing_cells() -> None:
    reads, writes = cells(layout=["one"], workload_rw=["read", "write"])
    found = [*run([reads], lambda _: 100.0), *run([writes], lambda _: 100.0, column="write_bw")]
    claim = guideline(bound={"metric": "write.bw", "where": {"workload.rw": "read"}, "at_least": "1MB/s"})
    assert verdict(claim, found).why == "its cells have no write.bw"
    nowhere = guideline(bound={"metric": "write.bw", "where": {"layout": "two"}, "at_least": "1MB/s"})
    assert "two" in verdict(nowhere, found).why


@pytest.mark.parametrize("bound", [{"within": "10%"}, {"at_least": 1.1}, {"at_least": 1.1, "mean": True}])
def test_a_claim_with_equal_sides_is_refused(bound: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="both sides select the same cells"):
        guideline(ratio={"metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "far"}, **bound})


def test_a_margin_and_a_bound_are_two_claims() -> None:
    with pytest.raises(ValueError, match="`within` is a claim of its own"):
        of_layout(within="10%", at_least=1.1)


def test_cells_that_differ_in_their_work_as_well_are_no_pair() -> None:
    field = [row({"layout": "raid0", "workload": "seq"}), row({"layout": "far", "workload": "rnd"})]
    said = verdict(of_layout(within="10%"), run(field, lambda _: 100.0))
    assert (said.verdict, said.why) == (
        Verdict.NOT_TESTED,
        "the cells of both sides differ in other axes, too",
    )
