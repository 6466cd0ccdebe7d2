"""RAID 5, RAID 10 far or an LVM stripe: which, for what, by how much?"""

from __future__ import annotations

import csv
import io
import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.record import CellRow, Trial
from matrix_runner.work.fio.output import Figures
from tests.records import past

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from tests.support.command import Said

Call = Callable[..., "Said"]
Choices = Mapping[str, Sequence[str]]
CACHE = "tune.md.stripe_cache_size"
CHUNKS = ("64KiB", "512KiB")
RAID5 = {"layout": ["raid5"], "md.level": ["5"], "md.chunk": CHUNKS, CACHE: ["256", "4096"]}
FAR = {"layout": ["far"], "md.level": ["10"], "md.layout": ["f2"], "md.chunk": CHUNKS}
LVM = {"layout": ["lvm"], "lvm.stripes": ["2", "4"], "lvm.stripe_size": CHUNKS}
WORK = (
    {"workload": "sequential", "workload.rw": "read", "workload.bs": "1MiB", "workload.iodepth": "8"},
    {"workload": "random", "workload.rw": "randwrite", "workload.bs": "4KiB", "workload.iodepth": "16"},
)
NOISE = (1.0, 1.01, 0.99)


def cells_of(*layouts: Choices) -> list[CellRow]:
    found: list[CellRow] = []
    for axes in layouts:
        for values in itertools.product(*axes.values()):
            for work in WORK:
                there = {**dict(zip(axes, values, strict=True)), **work}
                found.append(CellRow(f"{len(found):08}", "/".join(there.values()), there))
    return found


def trials_of(cells: Sequence[CellRow]) -> list[Trial]:
    """Far reads fast, RAID 5 writes slowly unless its cache is large, a stripe is as fast as it is wide."""
    factors = {"raid5": 1.0, "far": 1.5, "lvm": 1.0, "256": 0.5, "4096": 0.9, "2": 0.8, "4": 1.6}
    found = []
    for cell in cells:
        factor = 1.0
        for value in cell.axes.values():
            factor *= factors.get(value, 1.0)
        size, rate = (1 << 20, 150) if cell.axes["workload.bs"] == "1MiB" else (4096, 500)
        for round_number, noise in enumerate(NOISE, start=1):
            iops = rate * factor * noise
            one = past.direction(iops * size, iops)
            reads = cell.axes["workload.rw"] == "read"
            figures = Figures(one if reads else None, None if reads else one, 1, 3, 4, 0)
            found.append(replace(past.measured(cell.id, round_number, 1e8), figures=figures))
    return found


def record(results: Path, *layouts: Choices, number: int = 1, **changes: object) -> list[CellRow]:
    cells = cells_of(*layouts)
    past.recorded(results, trials_of(cells), number, cells, **changes)
    return cells


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def which(tmp_path: Path) -> None:
    record(tmp_path / "results", RAID5, FAR, LVM)


@pytest.mark.usefixtures("which")
@pytest.mark.parametrize(
    "command",
    [
        "results latest --pivot layout",
        "results latest --pivot layout --only workload=random",
        "results latest --pivot width",
        "results latest --pivot layout --rows 3",
        "compare --by layout raid5 far latest",
        "compare --by layout far lvm latest --only stripe_unit=64KiB",
        "compare --by stripe_unit 64KiB 512KiB latest --only layout=lvm",
        "history --only layout=far,chunk=64KiB",
    ],
)
def test_layouts_are_compared_side_by_side(call: Call, snapshot: SnapshotAssertion, command: str) -> None:
    assert call(*command.split()).out == snapshot


@pytest.mark.usefixtures("which")
@pytest.mark.parametrize(
    "command", ["results", "results --trials", "runs", "history --only layout=far", "compare latest latest"]
)
def test_a_number_of_rows_beyond_that_of_a_database_means_all(call: Call, command: str) -> None:
    said = call(*command.split(), "--rows", "9" * 20)
    assert said == call(*command.split(), "--rows", "1000")
    assert said.status == 0


@pytest.mark.usefixtures("which")
def test_csv_pairs_every_cell(call: Call) -> None:
    found = rows(call("results", "latest", "--pivot", "layout", "--format", "csv").out)
    assert len(found) == len(WORK) * len(CHUNKS) * 2 * 2
    assert all(one[f"layout={name}"] for one in found for name in ("raid5", "far", "lvm"))
    assert {one["stripe_unit"] for one in found} == {*CHUNKS}
    assert {one["metric"] for one in found} == {"read_bw", "write_iops"}
    pairs = rows(call("compare", "--by", "layout", "raid5", "lvm", "--format", "csv").out)
    assert len({(one["cell_a"], one["cell_b"]) for one in pairs}) == len(pairs) == len(found)


@pytest.mark.usefixtures("which")
def test_shared_names_are_columns_and_rules(call: Call) -> None:
    found = rows(call("results", "latest", "--format", "csv").out)
    assert all(one["stripe_unit"] == (one["md.chunk"] or one["lvm.stripe_size"]) for one in found)
    assert "width" not in found[0], "LVM alone has it here"
    few = rows(call("results", "latest", "--only", "stripe_unit=64KiB", "--format", "csv").out)
    assert len(few) == len(found) / 2
    assert {one["layout"] for one in few} == {"raid5", "far", "lvm"}
    assert "stripe_unit" not in rows(call("results", "latest", "--only", "layout=lvm", "--format", "csv").out)[0]


def test_a_tunable_that_a_stack_lacks_counts_as_default(call: Call, tmp_path: Path) -> None:
    record(tmp_path / "results", {**RAID5, CACHE: ["default", "4096"]}, FAR)
    found = rows(call("results", "latest", "--pivot", "layout", "--format", "csv").out)
    assert {(one[CACHE], bool(one["layout=far"])) for one in found} == {("default", True), ("4096", False)}
    said = call("compare", "--by", "layout", "raid5", "far")
    assert f"cells of far without {CACHE} count as default" in said.out
    assert "no ratio of raid5/5/64KiB/4096/" in said.out


@pytest.mark.parametrize("words", ["results --pivot layout", "compare --by layout raid5 lvm"])
def test_without_matches_the_differing_axis_is_named(call: Call, tmp_path: Path, words: str) -> None:
    record(tmp_path / "results", RAID5, {**LVM, "lvm.stripe_size": ["16KiB", "32KiB"]})
    said = call(*words.split())
    assert "they differ in stripe_unit (64KiB, 512KiB → 16KiB, 32KiB)" in said.out + said.err
    only = ("--only", "layout=raid5,stripe_unit=64KiB", "--only", "layout=lvm,stripe_unit=16KiB")
    again = call(*words.split(), *only)
    assert "stripe_unit" in again.out
    assert "differ in" not in again.out + again.err
    assert again.status == (1 if "compare" in words else 0)


def test_unlike_work_is_never_put_side_by_side(call: Call, tmp_path: Path) -> None:
    cells = [one for one in cells_of(RAID5, FAR) if (one.axes["layout"] == "far") == (one.axes["workload"] == "random")]
    past.recorded(tmp_path / "results", trials_of(cells), 1, cells)
    said = call("compare", "--by", "layout", "raid5", "far")
    assert said.status == 2
    assert "they differ in workload (sequential → random)" in said.err
    assert "no two columns have a row in common: they differ in workload" in call("results", "--pivot", "layout").out


def test_matrices_are_not_mixed(call: Call, tmp_path: Path) -> None:
    record(tmp_path / "results", RAID5, matrix="one")
    record(tmp_path / "results", FAR, number=2, matrix="other")
    said = call("compare", "--by", "layout", "raid5", "far")
    assert said.status == 2
    assert "they are of different matrices: raid5: one; far: other" in said.err


def test_runs_without_common_cells_name_a_useful_comparison(call: Call, tmp_path: Path) -> None:
    for number, chunk in enumerate(CHUNKS, start=1):
        cells = [replace(one, id=f"{chunk}{one.id}") for one in cells_of({**FAR, "md.chunk": [chunk]})]
        past.recorded(tmp_path / "results", trials_of(cells), number, cells)
    said = call("compare", "run-1", "run-2")
    assert said.status == 2
    assert "they differ in md.chunk (64KiB → 512KiB)" in said.err
    command = said.err.partition("compare by the axis:  matrix ")[2].splitlines()[0]
    assert call(*shlex.split(command)).status == 0


def test_too_many_combinations_are_refused(call: Call, tmp_path: Path) -> None:
    layouts = [{"layout": [name], f"{name}.x": [str(value) for value in range(12)]} for name in "abcd"]
    record(tmp_path / "results", *layouts)
    said = call("results", "--pivot", "layout")
    assert said.status == 2
    assert "not all cells have the axes a.x, b.x, c.x, d.x" in said.err
    assert "choose some of them with --only" in said.err
    assert "verdicts corrected for 288 comparisons" in call("compare", "--by", "layout", "a", "b").out


HOSTILE = ("a=b,c|d", "[bold red]x[/]", "-rf /", "ünïcode ☃", "'; drop table", "%s\\n")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_may_be_anything(call: Call, tmp_path: Path, name: str) -> None:
    record(tmp_path / "results", {**RAID5, "layout": [name]}, {**LVM, "lvm.stripe_size": ["16KiB"]})
    said = call("results", "--pivot", "layout")
    assert said.status == 0
    assert f"layout={name}" in said.out
    compared = call("compare", "--by", "layout", "--", name, "lvm")
    assert compared.status == 2
    assert "they differ in stripe_unit (64KiB, 512KiB → 16KiB)" in compared.err


@pytest.mark.parametrize("words", ["results --pivot layout", "compare --by layout a b"])
def test_an_empty_store(call: Call, tmp_path: Path, words: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "store.db").touch()
    said = call(*words.split())
    assert said.status == 2
    assert "Traceback" not in said.err


def test_runs_after_the_operands_need_an_axis(call: Call, tmp_path: Path) -> None:
    record(tmp_path / "results", FAR)
    said = call("compare", "latest", "latest", "run-1")
    assert said.status == 2
    assert "A and B name the runs" in said.err


def test_a_mirror_is_paired_with_each_chunk(call: Call, tmp_path: Path) -> None:
    record(
        tmp_path / "results",
        {"layout": ["raid"], "md.level": ["5"], "md.chunk": CHUNKS},
        {"layout": ["raid"], "md.level": ["1"]},
        {"layout": ["both"], "md.level": ["1"], "crypt.cipher": ["aes"]},
    )
    found = rows(call("results", "--pivot", "level", "--format", "csv", "--only", "workload=random").out)
    of_raid = [one for one in found if one["layout"] == "raid"]
    assert [one["md.chunk"] for one in of_raid] == [*CHUNKS]
    assert all(one["md.level=1"] and one["md.level=5"] for one in of_raid)
    said = call("results", "--pivot", "level").out
    assert "cells of 1 without md.chunk are in the row of each value" in said
    assert "goes with layout: crypt.cipher aes (both)" in said
    assert said.count("are in the row") == 1
