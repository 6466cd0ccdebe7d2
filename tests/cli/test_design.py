"""`--design`: the cells of a screen, its effects at the end of the run, and what it refuses."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.run_folder import latest, runs
from matrix_runner.space.load import load
from tests.support.choices import SCREEN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


@pytest.fixture
def tunables(tmp_path: Path) -> Path:
    (tmp_path / "t.yaml").write_text(SCREEN)
    return tmp_path


def test_a_screen_ranks_axes_and_proposes_the_next_matrix(call: Call, tunables: Path) -> None:
    said = call("run", "--on", "dry", "--design", "screen:60", "t.yaml")
    assert said.status == 0
    assert "60 of 288 cells: design screen:60" in said.out
    assert "Axes that matter (synthetic) (60 cells, which scatter by " in said.out
    assert "workload.iodepth: up to " in said.out
    run = latest(runs(tunables / "results"))
    assert run
    assert run.manifest.part == "design screen:60"
    proposed = (run.path / "next.yaml").read_text()
    (tunables / "next.yaml").write_text(proposed)
    rule = load(tunables / "next.yaml").space.matrix.only
    assert rule
    assert "tune.max_sectors_kb" in proposed
    assert call("run", "--on", "dry", "next.yaml").status == 0
    page = (run.path / "report.html").read_text()
    assert "Axes that matter" in page
    drawn = re.findall(r"<title>(\S+): (?:\S+) → \S+: (\d[^ ]*)× \((\S+)× to (\S+)×\)", page)
    assert (drawn[0][0], len(drawn)) == ("workload.rw", 9), "each change, the largest axis first"


def test_a_layer_with_too_few_set_ups_may_still_matter(call: Call, tunables: Path) -> None:
    few = SCREEN.replace("  raid0: [md: {level: 0, chunk: [16KiB, 64KiB]}]\n", "").replace(
        "bs: 4KiB", "bs: [4KiB, 8KiB]"
    )
    (tunables / "few.yaml").write_text(few)
    said = call("run", "--on", "dry", "--design", "screen:60", "few.yaml")
    assert "cannot tell, the cells or set-ups are too few: md.chunk" in said.out
    assert "next.yaml has all values of the axes that matter or may matter, and the first value" in said.out
    run = latest(runs(tunables / "results"))
    assert run
    rule = (run.path / "next.yaml").read_text().splitlines()[-1]
    assert "md.chunk" not in rule
    assert "tune.rotational" in rule


def test_a_killed_screen_goes_on_with_its_cells(call: Call, tunables: Path) -> None:
    call("run", "--on", "dry", "--design", "screen:60", "t.yaml")
    run = latest(runs(tunables / "results"))
    assert run
    manifest = run.path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"finished": False}))
    said = call("run", "--on", "dry", "--design", "screen:60", "t.yaml")
    assert "continuing the run" in said.out
    assert len(list(runs(tunables / "results"))) == 1
    call("run", "--on", "dry", "--design", "screen:61", "t.yaml")
    assert len(list(runs(tunables / "results"))) == 2


def test_a_pairwise_design_is_small_and_says_that_it_estimates_nothing(call: Call, tunables: Path) -> None:
    said = call("run", "--on", "dry", "--design", "pairwise", "t.yaml")
    assert "it finds what breaks, and estimates no effect" in said.out
    run = latest(runs(tunables / "results"))
    assert run
    assert run.manifest.planned <= 16
    assert not (run.path / "next.yaml").exists()


@pytest.mark.parametrize(("design", "planned"), [("pairwise", 12), ("screen:50", 50)])
def test_a_design_has_no_cells_that_the_matrix_leaves_out(
    design: str, planned: int, call: Call, tunables: Path
) -> None:
    without = (
        SCREEN.replace("16]", "16, 32, 64]")
        + "exclude: [{rw: randwrite, scheduler: bfq}, {layout: raid0, iodepth: 16}]\n"
    )
    (tunables / "t.yaml").write_text(without)
    said = call("plan", "--on", "dry", "--design", design, "--cells", "t.yaml")
    assert said.status == 0
    cells = [line for line in said.out.splitlines() if "/work" in line]
    assert len(cells) >= planned
    assert not [one for one in cells if "rw=randwrite" in one and "scheduler=bfq" in one]
    assert not [one for one in cells if "raid0" in one and "iodepth=16" in one]


def test_plan_shows_the_cells_and_the_stacks(call: Call, tunables: Path) -> None:
    said = call("plan", "--on", "dry", "--design", "screen:100", "t.yaml")
    assert "cells  100 (188 left out)" in said.out
    assert "stacks  4" in said.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--design", "screen:100", "--shard", "1/2"), "--shard leaves out some of them"),
        (("--design", "screen:100", "--race"), "--race leaves out some of them"),
        (("--design", "screen:60", "--only", "bs=4KiB,rw=read"), "this matrix has 144 cells"),
        (
            (
                "--design",
                "screen:200",
            ),
            "all of them are about as cheap",
        ),
        (
            (
                "--design",
                "screen:3",
            ),
            "a screen needs 8 cells or more",
        ),
        (
            (
                "--design",
                "taguchi",
            ),
            "neither screen:N",
        ),
        (
            ("--design", "pairwise", "--only", "raid5,iodepth=1,scheduler=bfq,max_sectors_kb=64,rotational=0"),
            "it needs all 4 cells of this matrix for each pair of values",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_what_a_design_cannot_do_is_refused(
    command: str, words: tuple[str, ...], why: str, call: Call, tunables: Path
) -> None:
    said = call(command, "--on", "dry", *words, "t.yaml")
    assert (said.status, why in said.err) == (2, True)
    assert not (tunables / "results").exists()
