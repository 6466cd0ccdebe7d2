"""Runs with a search for the best value, on a dry machine whose rate grows up to a depth of 24."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.answers.best import LAST
from matrix_runner.answers.knee import Found, find_knee, searches_of
from matrix_runner.carry.executor import ONE
from matrix_runner.decide.concurrency import Level
from matrix_runner.machines.dry import plausible
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.statistics.stopping import Rule
from tests.support.dry import Dry
from tests.support.engine import Bench, Dying, Killed, by_cell, killed_at
from tests.support.execution import executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from matrix_runner.answers.knee import Knee
    from matrix_runner.machines.base import Step, StepResult

MATRIX = """\
name: best
disks: {count: 4, size: 64MiB, model: st3320620as}
layouts: {raid0: [md: {level: 0}], raid5: [md: {level: 5, chunk: [16KiB, 32KiB, 64KiB, 128KiB]}]}
workloads:
  deep: {rw: randread, bs: 4KiB, runtime: 1s, find: {max: iops}}
  plain: {rw: write, bs: 1MiB, runtime: 1s}
  large: {rw: read, bs: 1MiB, runtime: 1s, find: {max: bw, over: md.chunk}}
only: [{layout: raid0}, {workload: large}]
repeat: 3
"""
FASTEST = 24  # the smallest depth with the full rate
_DEPTH = re.compile(r"^iodepth=(\d+)$", re.MULTILINE)


def growing(step: Step) -> StepResult:
    result = plausible(step)
    if step.name != "measure" or "rw=randread" not in step.files["job.fio"]:
        return result
    depth = int(_DEPTH.findall(step.files["job.fio"])[0])
    draw = random.Random(step.files["job.fio"])  # noqa: S311 - noise, not secrecy
    readings, _, text = result.output.rpartition("\n")
    content = orjson.loads(text)
    content["jobs"][0]["read"]["iops"] = 1000 * min(depth / FASTEST, 1) * draw.gauss(1, 0.005)
    return replace(result, output=f"{readings}\n{orjson.dumps(content).decode()}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, MATRIX)
    yield made
    made.journal.close()


def run(bench: Bench, answer: Callable[[Step], StepResult] = growing, level: Level = ONE) -> None:
    execution = executor(
        bench.plan, Dry(answer), bench.journal, bench.shelf, bench.folder, bench.events.append, level=level
    )
    asyncio.run(execution.run())


def found(bench: Bench) -> dict[str, Knee]:
    trials: dict[str, list[Trial]] = {}
    for trial in bench.trials:
        trials.setdefault(trial.cell, []).append(trial)
    searches = searches_of(bench.journal.cells(), bench.plan.finds)
    return {one.name: find_knee(one, trials, Rule(3, 3), {}) for one in searches}


def test_it_finds_the_smallest_value_that_is_as_good(bench: Bench) -> None:
    run(bench)
    deep = found(bench)["raid0/deep"]
    assert (deep.found, deep.within) == (Found.BEST, str(FASTEST))
    assert deep.work
    assert deep.work.mean == pytest.approx(1000, rel=0.01)
    assert deep.trials < 16 * 3
    assert deep.work.n == sum(one.round > deep.explored for one in bench.trials if one.cell == deep.recommended.id)  # type: ignore[union-attr]


def test_other_cells_are_measured_as_ever(bench: Bench) -> None:
    run(bench)
    plain = [cell.id for cell in bench.journal.cells() if cell.axes["workload"] == "plain"]
    assert [by_cell(bench)[cell] for cell in plain] == [3]


def test_it_searches_over_stacks(bench: Bench) -> None:
    run(bench)
    large = found(bench)["raid5/large"]
    assert large.found is Found.BEST
    assert large.within in {"16KiB", "32KiB", "64KiB", "128KiB"}


@pytest.mark.parametrize("step", [3, 40, 90, 120])
def test_a_killed_search_continues_and_ends_with_the_same_trials(bench: Bench, step: int, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Bench(tmp_path / "whole", MATRIX)
    run(whole)
    with pytest.raises(Killed):
        run(bench, killed_at(growing, step))
    run(bench)
    assert {(one.cell, one.round) for one in bench.trials} == {(one.cell, one.round) for one in whole.trials}
    whole.journal.close()


def test_jobs_wait_for_the_round_before(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = Bench(tmp_path / "whole", MATRIX)
    run(whole)
    run(bench, level=Level.of(3))
    assert {(one.cell, one.round) for one in bench.trials} == {(one.cell, one.round) for one in whole.trials}
    whole.journal.close()


def test_a_value_that_breaks_is_passed_over(bench: Bench) -> None:
    dying = Dying(2, lambda job: f"iodepth={FASTEST}\n" in job)

    def mortal(step: Step) -> StepResult:
        dying(step)
        return growing(step)

    run(bench, mortal)
    assert Outcome.BROKEN in bench.outcomes()
    assert found(bench)["raid0/deep"].within == "32"
    assert max(one.round for one in bench.trials) < LAST


def test_the_plan_states_the_usual_number_of_trials(bench: Bench) -> None:
    run(bench)
    assert bench.plan.trials(3) == pytest.approx(len(bench.trials), rel=0.4)
