"""`matrix plan`: cells, stacks, time and bytes; and how many trials an answer takes (`--race`, `--detect`)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from matrix_runner.carry.past_timings import pace_of
from matrix_runner.cli import plan
from matrix_runner.decide.costs import SYNTHETIC
from matrix_runner.decide.steering import forecast
from matrix_runner.statistics.ratios import rounds_to_detect, t_factor
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call, Matrix

LARGE = """\
name: large
disks: {count: 4, size: SIZE, model: st3320620as}
layouts: {six: [md: {level: 10}, fs: {type: ext4}]}
workloads: {any: {rw: read, bs: 4KiB, runtime: 10s}}
"""
FIVE = SMALL.replace("chunk: [16KiB, 64KiB]", "chunk: [4KiB, 16KiB, 64KiB, 256KiB, 1MiB]")


def test_a_race_needs_fewer_trials_than_all_cells_and_noise_costs_more() -> None:
    quiet, loud = (forecast([5, 4], [], 3, noise, 0.95) for noise in (0.01, 0.05))
    assert 9 * 3 <= quiet.trials < loud.trials < loud.unraced
    assert loud.trials < loud.most


def test_a_race_of_all_workloads_together_takes_more_trials() -> None:
    alone, together, one_more = (
        forecast([4, 4, 4], powers, 2, 0.03, 0.95) for powers in ([], [0.5, 0.5, 0], [1, 0, 0])
    )
    assert alone.trials == one_more.trials < together.trials
    assert alone.unraced == one_more.unraced < together.unraced


def test_the_rounds_to_detect_show_the_difference_in_nine_of_ten_runs() -> None:
    rounds = rounds_to_detect(0.05, 0.03, 0.95)
    assert rounds
    chance = np.random.default_rng(1)
    apart = np.log(1.05) + 0.03 * np.sqrt(2) * chance.standard_normal((4000, rounds))
    low = apart.mean(axis=1) - t_factor(rounds - 1, 0.95) * apart.std(axis=1, ddof=1) / np.sqrt(rounds)
    assert 0.89 < float((low > 0).mean()) < 0.95
    assert rounds_to_detect(1e-6, 0.5, 0.95) is None


def test_plan_prints_both(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("plan", "--on", "dry", "--race", "--detect", "5%", "small.yaml")
    assert "race  about " in said.out
    assert "every cell for as many rounds: " in said.out
    assert "if trials scatter by 3 %, an assumption before the first run" in said.out
    assert "show 5 % between two cells in 9 of 10 runs (95 % confidence)" in said.out
    found = json.loads(call("plan", "--on", "dry", "--race", "--detect", "5%", "--format", "json", "small.yaml").out)
    assert found["race"]["trials"] < found["race"]["unraced"]
    assert found["rounds_to_detect"] == rounds_to_detect(0.05, 0.03, 0.95)


def test_the_scatter_of_past_runs_counts(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    monkeypatch.setattr(plan, "pace_of", lambda *words: replace(pace_of(*words), scatter=0.1, runs=2))
    said = call("plan", "--on", "dry", "--race", "--for", "rw=read", "small.yaml")
    assert "if trials scatter by 10 % as in 2 recorded runs on dry" in said.out


@pytest.mark.parametrize("size", ["5", "0%", "-1%", "much"])
def test_a_difference_is_a_percentage_above_zero(size: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("plan", "--detect", size, "small.yaml")
    assert said.status == 2
    assert "--detect" in said.err


def test_a_plan_without_a_choice_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("plan", "--race", "--only", "chunk=4KiB", "small.yaml")
    assert (said.status, "no workload with several stacks" in said.err) == (2, True)


def test_a_plan_explains_a_time_that_the_size_of_the_disks_makes(call: Call, tmp_path: Path) -> None:
    for size, explained in (("4TB", True), ("1GiB", False)):
        (tmp_path / "large.yaml").write_text(LARGE.replace("SIZE", size))
        said = " ".join(call("plan", "large.yaml").out.split())
        why = "to fill stacks on disks of 4 TB; simulated disks have the same rates with `size: 1GiB`"
        assert (why in said) == explained == ("to fill" in said), said


def test_a_plan_says_how_long_a_virtual_machine_takes_to_build(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    for seconds, said in ((5000.0, True), (5.0, False)):
        monkeypatch.setattr(plan, "pace_of", lambda *words, once=seconds: replace(pace_of(*words), once=once))
        found = call("plan", "--on", "dry", "small.yaml").out
        assert ("1 h 23 min to build the virtual machine, only in the first run" in found) == said, found


def test_a_plan_with_parallel_rigs_is_shorter_or_explains_why_not(matrix: Matrix) -> None:
    def seconds(*jobs: str) -> float:
        found: float = json.loads(matrix("plan", "--on", "dry", *jobs, "--format", "json", "small.yaml").stdout)[
            "seconds_most"
        ]
        return found - SYNTHETIC.program

    assert seconds("--jobs", "2") == pytest.approx(seconds() / 2)
    said = matrix("plan", "--on", "dry", "--jobs", "2", "small.yaml").stdout
    assert "2 rigs in parallel" in said
    alone = matrix("plan", "--jobs", "auto", "small.yaml").stdout
    assert "note: one rig at a time: disks without a model" in alone
    assert "side by side)" not in alone
    assert matrix("plan", "--jobs", "2", "small.yaml").returncode == 2


def test_plan(matrix: Matrix) -> None:
    result = matrix("plan", "small.yaml", "--cells", "--only", "chunk=16KiB")
    assert result.returncode == 0
    assert "raid5/chunk=16KiB/work/rw=randwrite" in result.stdout
    assert "2 (2 left out)" in result.stdout
    assert "a first estimate: no similar run is recorded yet" in result.stdout


def test_the_plan_names_layouts_that_are_left_out(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(SMALL.replace("layouts:\n", "layouts:\n  mirror: [md: {level: 1}]\n"))
    for command in (("plan", "two.yaml", "--only", "layout=raid5"), ("plan", "two.yaml", "--only", "chunk=64KiB")):
        assert "note: the rules (`only`, `exclude`, --only) exclude all cells of mirror" in matrix(*command).stdout
    assert "no cell is left" not in matrix("plan", "two.yaml").stdout


def test_the_plan_gets_better_with_recorded_runs(matrix: Matrix) -> None:
    matrix("run", "--on", "dry", "small.yaml")
    planned = matrix("plan", "--on", "dry", "small.yaml").stdout
    assert "from 1 recorded run on dry" in planned
    assert "at an assumed 200 MB/s; faster disks get more" in planned, "what a dry run says it wrote is synthetic"
    assert "a first estimate" in matrix("plan", "--on", "qemu", "small.yaml").stdout


def test_the_plan_explains_writes_beyond_the_work(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "ext4.yaml").write_text(SMALL.replace("64KiB]}", "64KiB]}, fs: {type: ext4}"))
    why = r" % to build stacks and lay out files; the rest at an assumed 200 MB/s"
    assert re.search(rf"written  .* \(\d+{why}", matrix("plan", "--on", "dry", "ext4.yaml").stdout)
    assert why not in matrix("plan", "--on", "dry", "small.yaml").stdout


def test_the_plan_names_refusals_of_the_machine(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "modelled.yaml").write_text(SMALL.replace("count: 4,", "count: 4, model: nas-7200,"))
    told = "note: `matrix run --on local` would be refused here: physical disks have no model"
    for jobs in ("1", "auto"):
        planned = matrix("plan", "--on", "local", "--jobs", jobs, "modelled.yaml")
        assert (planned.returncode, planned.stdout.count(told)) == (0, 1)
    assert "refused" not in matrix("plan", "--on", "dry", "modelled.yaml").stdout


def test_the_plan_as_json(matrix: Matrix) -> None:
    plan = json.loads(matrix("plan", "small.yaml", "--format", "json").stdout)
    assert plan["cells"] == 4 == sum(len(batch["cells"]) for batch in plan["batches"])
    assert plan["batches"][0]["cells"][0]["axes"]["md.level"] == "5"


def test_the_plan_judges_the_bus_only_of_disks_that_the_machine_makes(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "bus.yaml").write_text(f"{SMALL}tune: {{scheduler: [default, none]}}\n")
    assert "default and none are the same" in matrix("plan", "bus.yaml").stdout
    assert "default and none are the same" not in matrix("plan", "--on", "local", "bus.yaml").stdout
    assert "default and none are the same" in matrix("run", "--on", "dry", "bus.yaml").stdout


def test_a_matrix_with_many_notes_shows_fifty_and_a_count(matrix: Matrix, tmp_path: Path) -> None:
    same = ", ".join(f"l{number}: [md: {{level: 5}}]" for number in range(60))
    text = f"name: s\ndisks: {{count: 4, size: 64MiB}}\nlayouts: {{{same}}}\nworkloads: {{r: {{rw: read}}}}\n"
    (tmp_path / "many.yaml").write_text(text)
    for command in ("validate", "plan"):
        lines = [line for line in matrix(command, "many.yaml").stdout.splitlines() if "note: " in line]
        assert len(lines) == 51
        assert lines[-1].endswith(" more notes")
