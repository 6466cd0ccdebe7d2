"""Runs with a search, on a dry machine whose latency is a function of the depth."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.answers.knee import Found, find_knee, searches_of
from matrix_runner.answers.verdicts import Steering
from matrix_runner.carry.events import BatchStarted
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.estimate import Pace, estimate
from matrix_runner.machines.dry import plausible
from matrix_runner.records.record import CellRow, Outcome
from matrix_runner.space.select import Shard, select, sharded
from matrix_runner.statistics.stopping import Rule
from tests.support.dry import Dry
from tests.support.engine import Bench, Clock, Dying, Killed, by_cell, killed_at
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matrix_runner.answers.knee import Knee
    from matrix_runner.machines.base import Step, StepResult

MATRIX = """\
name: searched
disks: {count: 2, size: 64MiB, model: st3320620as}
layouts: {raid0: [md: {level: 0}], disk: [disk]}
workloads:
  oltp: {rw: randread, bs: 4KiB, runtime: 1s, find: {max: iops, while: "read.p99 < 4ms"}}
  plain: {rw: write, bs: 4KiB, runtime: 1s}
repeat: 3
"""
KNEE = 31 / 0.004  # requests per second where the latency of `waiting` is 4 ms
_DEPTH = re.compile(r"^iodepth=(\d+)$", re.MULTILINE)


def waiting(step: Step) -> StepResult:
    """Serve 9 requests without waiting: the latency is that of 9 and all requests under way. With 1 % of noise."""
    result = plausible(step)
    if step.name != "measure" or "rw=randread" not in step.files["job.fio"]:
        return result
    depth = int(_DEPTH.findall(step.files["job.fio"])[0])
    draw = random.Random(step.files["job.fio"])  # noqa: S311 - noise, not secrecy
    latency = round((9 + depth) * 1e5 * draw.gauss(1, 0.01))
    readings, _, text = result.output.rpartition("\n")
    content = orjson.loads(text)
    read = content["jobs"][0]["read"]
    read["iops"] = depth / latency * 1e9
    read["lat_ns"] |= {"mean": float(latency), "max": latency, "bins": {str(latency): read["total_ios"]}}
    return replace(result, output=f"{readings}\n{orjson.dumps(content).decode()}")


@pytest.fixture(params=[MATRIX])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(tmp_path, request.param)
    yield made
    made.journal.close()


def knees(bench: Bench) -> list[Knee]:
    trials: dict[str, list[object]] = {}
    for trial in bench.trials:
        trials.setdefault(trial.cell, []).append(trial)
    repeat = bench.plan.repeat
    rule = Rule(repeat.min, repeat.max, repeat.until, repeat.confidence)
    found = searches_of(bench.journal.cells(), bench.plan.finds)
    return [find_knee(one, trials, rule, {}) for one in found]  # type: ignore[arg-type]


def run(bench: Bench, answer: Callable[[Step], StepResult] = waiting, **options: object) -> None:
    execution = executor(
        bench.plan,
        Dry(answer),
        bench.journal,
        bench.shelf,
        bench.folder,
        bench.events.append,
        **options,  # type: ignore[arg-type]
    )
    asyncio.run(execution.run())


def test_it_finds_the_knee_of_each_stack_in_at_most_12_trials(bench: Bench) -> None:
    run(bench)
    assert [one.search.name for one in knees(bench)] == ["raid0/oltp", "disk/oltp"]
    for one in knees(bench):
        assert (one.found, one.within, one.beyond) == (Found.BETWEEN, "24", "32")
        assert one.work
        assert one.work.mean == pytest.approx(KNEE, rel=0.05)
        assert one.trials <= 12
    plain = [cell.id for cell in bench.journal.cells() if cell.axes["workload"] == "plain"]
    assert [by_cell(bench)[cell] for cell in plain] == [3, 3], "other workloads are measured as ever"


def test_a_round_builds_each_stack_once(bench: Bench) -> None:
    run(bench)
    assert sum(isinstance(event, BatchStarted) for event in bench.events) == 2 * 3


@pytest.mark.parametrize("step", [3, 20, 44, 70])
def test_a_killed_search_continues_and_ends_with_the_same_trials(bench: Bench, step: int, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Bench(tmp_path / "whole", MATRIX)
    run(whole)
    with pytest.raises(Killed):
        run(bench, killed_at(waiting, step))
    run(bench)
    assert {(one.cell, one.round) for one in bench.trials} == {(one.cell, one.round) for one in whole.trials}
    whole.journal.close()


def test_a_value_that_breaks_is_passed_over(bench: Bench) -> None:
    dying = Dying(2, lambda job: "iodepth=16\n" in job)

    def mortal(step: Step) -> StepResult:
        dying(step)
        return waiting(step)

    run(bench, mortal)
    broken = {one.cell for one in bench.trials if one.outcome is Outcome.BROKEN}
    assert {cell.axes["workload.iodepth"] for cell in bench.journal.cells() if cell.id in broken} == {"16"}
    assert all(one.work and one.work.mean == pytest.approx(KNEE, rel=0.05) for one in knees(bench))


@pytest.mark.parametrize("bench", [f"{MATRIX}faults: [{{disk: 1, at: 500ms, kind: dies}}]\n"], indirect=True)
def test_it_continues_if_each_trial_needs_a_new_rig(bench: Bench) -> None:
    run(bench)
    assert [one.found for one in knees(bench)] == [Found.BETWEEN] * 2


@pytest.mark.parametrize(
    ("bench", "found"),
    [(MATRIX.replace("4ms", "500ms"), Found.ABOVE), (MATRIX.replace("4ms", "500us"), Found.BELOW)],
    indirect=["bench"],
)
def test_beyond_its_axis_it_ends_early(bench: Bench, found: Found) -> None:
    run(bench)
    assert [(one.found, one.trials) for one in knees(bench)] == [(found, 4)] * 2


def test_a_budget_ends_it_and_a_larger_one_continues_it(bench: Bench) -> None:
    clock = Clock()

    def ticking(step: Step) -> StepResult:
        clock.answer(step)
        return waiting(step)

    run(bench, ticking, spending=Spending(Cost(8.0, float("inf")), clock=clock))
    assert len(bench.trials) <= 8
    assert Found.UNKNOWN in {one.found for one in knees(bench)}
    run(bench, ticking, spending=Spending(Cost(1000.0, float("inf")), clock=clock))
    assert {one.found for one in knees(bench)} == {Found.BETWEEN}


SIDES = "metric: write.bw, of: {layout: raid0}, to: {layout: disk}"
CLEAR = f"{MATRIX}guidelines: [{{id: open, ratio: {{{SIDES}, at_least: 0.3}}}}]\n"
OPEN = f"{MATRIX}guidelines: [{{id: open, ratio: {{{SIDES}, within: 10%}}}}]\n"


@pytest.mark.parametrize(("bench", "trials"), [(CLEAR, 3), (OPEN, 19)], indirect=["bench"])
def test_open_guidelines_and_searches_choose_trials_beside_each_other(bench: Bench, trials: int) -> None:
    cells = [CellRow(cell.id, cell.name, cell.axes) for cell in bench.plan.selection.cells()]
    run(bench, steering=Steering(bench.plan.selection.space.matrix.guidelines, cells, 3))
    assert [(one.found, one.trials) for one in knees(bench)] == [(Found.BETWEEN, 10)] * 2
    assert max(by_cell(bench).values()) == trials


def test_a_search_belongs_to_one_shard(bench: Bench) -> None:
    found = select(space(MATRIX))
    for number in (1, 2):
        part = sharded(found, Shard(number, 2))
        rows = [CellRow(cell.id, cell.name, cell.axes) for cell in part.cells()]
        (search,) = searches_of(rows, bench.plan.finds)
        assert len(search.cells) == 16


def test_the_plan_counts_the_trials_of_a_search(bench: Bench) -> None:
    run(bench)
    found = estimate(bench.plan, Pace())
    assert found.trials_least == found.trials_most == len(bench.trials) == 2 * (10 + 3)
    assert found.cells == 2 * 17
