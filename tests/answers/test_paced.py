"""Work with a limit or a think time: its stacks are ranked by latency, and say whether they reach the rate."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.ranking import Ranking, Standing
from matrix_runner.pages.answer import full_answer, summarize_rankings
from matrix_runner.pages.nightly import heat_map_of_squares
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Direction, Figures

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call


def side(iops: float, milliseconds: float) -> Direction:
    latency = milliseconds * 1e6
    return Direction(iops * 4096, iops, int(iops) * 4096, int(iops), latency, *(None,) * 6, latency)


def run(stacks: dict[str, tuple[float, float]], **options: str) -> RunData:
    """Return a run of stacks by rate and milliseconds, which vary by 1 % in its five rounds."""
    axes = {"workload": "paced", "workload.rw": "randwrite"}
    axes |= {f"workload.fio.{name}": value for name, value in options.items()}
    cells = [CellRow(name, f"{name}/paced", {"layout": name, **axes}) for name in stacks]
    trials = [
        Trial(
            cell.id,
            number,
            Outcome.MEASURED,
            figures=Figures(None, side(iops, milliseconds * (1 + number / 500)), 1.0, 1.0, 1.0, 0),
        )
        for cell, (iops, milliseconds) in zip(cells, stacks.values(), strict=True)
        for number in range(1, 6)
    ]
    return RunData("m", "qemu", False, cells, trials)


def only(recorded: RunData) -> Ranking:
    (one,) = recorded.rankings
    return one


@pytest.mark.parametrize("options", [{"rate_iops": "500"}, {"rate": "2000k"}, {"thinktime": "2000"}])
def test_paced_work_is_ranked_by_latency(options: dict[str, str]) -> None:
    one = only(run({"slow": (499.9, 8.0), "quick": (499.5, 2.0)}, **options))
    assert one.metric.name == "write.lat_mean"
    assert [stack.cell.axes["layout"] for stack in one.stacks] == ["quick", "slow"]
    assert one.stacks[1].standing is Standing.SLOWER
    assert one.stacks[1].behind is not None
    assert one.stacks[1].behind.ratio == pytest.approx(4.0, rel=0.01), "how many times as fast the fastest one is"


def test_other_work_is_ranked_by_its_rate() -> None:
    for options in ({}, {"rate_iops": "0"}):
        one = only(run({"slow": (400, 2.0), "quick": (500, 8.0)}, **options))
        assert (one.metric.name, one.fastest.cell.axes["layout"]) == ("total.iops", "quick")


def test_the_answer_states_whether_the_rate_was_reached() -> None:
    rankings = run({"slow": (232, 40.0), "quick": (499.5, 2.0)}, rate_iops="500").rankings
    text = full_answer(rankings, synthetic=False, over=True)
    assert "rate reached" in text
    assert "232 of 500 IOPS" in text
    short = summarize_rankings(rankings, synthetic=False, over=True)
    assert short is not None
    assert "rate reached" in str(short.groups)


def test_a_limit_holds_for_each_copy_of_a_job() -> None:
    recorded = run({"a": (990, 2.0), "b": (600, 3.0)}, rate_iops="500")
    for cell in recorded.cells:
        cell.axes["workload.numjobs"] = "2"  # type: ignore[index]
    assert [stack.pace and stack.pace.is_reached for stack in only(recorded).stacks] == [True, False]


def test_the_best_latency_has_the_best_square() -> None:
    grid = heat_map_of_squares(run({"slow": (499.9, 8.0), "quick": (499.5, 2.0)}, rate_iops="500").rankings, 9)
    assert grid is not None
    assert [row[0] for row in grid.rows] == ["quick", "slow"]


def test_compare_compares_the_latency_of_paced_work(call: Call, tmp_path: Path) -> None:
    (tmp_path / "paced.yaml").write_text(_PACED.replace("repeat: 1", "repeat: 4"))
    call("run", "--on", "dry", "paced.yaml")
    said = call("compare", "latest", "latest", "--format", "csv")
    metrics = {(row["name"], row["metric"]) for row in csv.DictReader(said.out.splitlines())}
    assert {metric for _, metric in metrics} == {"read_lat_mean"}, said.err


_PACED = """
name: paced
disks: {count: 1, size: 64MiB}
layouts: {raw: [disk]}
workloads:
  limit: {rw: randread, bs: 4KiB, iodepth: 16, runtime: 1s, fio: {rate_iops: 50}}
  think: {rw: randread, bs: 4KiB, runtime: 1s, fio: {thinktime: 90ms}}
repeat: 1
"""


def test_the_dry_machine_obeys_limits_and_think_times(call: Call, tmp_path: Path) -> None:
    (tmp_path / "paced.yaml").write_text(_PACED)
    said = call("run", "--on", "dry", "paced.yaml", "--json")
    think, limit = sorted(one["read_iops"] for one in map(json.loads, said.out.splitlines()) if "read_iops" in one)
    assert limit == 50
    assert think == pytest.approx(1 / (0.09 + 1 / 120), rel=0.02)
