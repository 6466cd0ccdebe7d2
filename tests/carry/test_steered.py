"""Runs that go on where guidelines are not decided."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.verdicts import Steering
from matrix_runner.carry.events import RoundAdded
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.machines.dry import plausible
from matrix_runner.records.record import CellRow
from tests.support.dry import Dry
from tests.support.engine import Bench, Clock, by_cell
from tests.support.execution import executor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matrix_runner.carry.executor import LocalRun

MATRIX = """\
name: steered
disks: {count: 2, size: 64MiB}
layouts: {raid0: [md: {level: 0}], disk: [disk], mirror: [md: {level: 1}]}
workloads: {work: {rw: [read, write], bs: 4KiB, runtime: 1s}}
repeat: 3
guidelines:
  - {id: open, ratio: {metric: read.bw, of: {layout: raid0}, to: {layout: disk}, within: 2%}}
  - {id: clear, ratio: {metric: write.bw, of: {layout: mirror}, to: {layout: disk}, at_least: 3x}}
"""
CLEAR = MATRIX.replace("within: 2%", "within: 60%")


def run(bench: Bench, budget: Cost | None = None) -> LocalRun:
    plan, clock = bench.plan, Clock()
    cells = [CellRow(cell.id, cell.name, cell.axes) for cell in plan.selection.cells()]
    steering = Steering(plan.selection.space.matrix.guidelines, cells, plan.repeat.min)
    execution = executor(
        plan,
        Dry(clock.answer if budget else plausible),
        bench.journal,
        bench.shelf,
        bench.folder,
        bench.events.append,
        boot_id="one",
        spending=Spending(budget, clock=clock) if budget else None,
        steering=steering,
    )
    asyncio.run(execution.run())
    return execution


@pytest.fixture(params=[MATRIX])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(tmp_path, request.param)
    yield made
    made.journal.close()


def test_beyond_the_minimum_only_open_guidelines_are_measured(bench: Bench) -> None:
    run(bench)
    names = {cell.id: cell.name for cell in bench.journal.cells()}
    counts = {names[cell]: count for cell, count in by_cell(bench).items()}
    more = {name for name, count in counts.items() if count > 3}
    assert more == {"raid0/work/rw=read", "disk/work/rw=read"}
    assert len({counts[name] for name in more}) == 1, "both sides are measured in the same rounds"
    assert all(count == 3 for name, count in counts.items() if name not in more)
    added = [event for event in bench.events if isinstance(event, RoundAdded)]
    assert [one.round for one in added] == list(range(4, counts[more.pop()] + 1))
    assert {one.trials for one in added} == {2}


@pytest.mark.parametrize("bench", [CLEAR], indirect=True)
def test_clear_results_need_only_the_minimum(bench: Bench) -> None:
    run(bench)
    assert set(by_cell(bench).values()) == {3}
    assert not [event for event in bench.events if isinstance(event, RoundAdded)]


def test_a_budget_ends_it(bench: Bench) -> None:
    execution = run(bench, Cost(24.0, float("inf")))
    counts = by_cell(bench)
    assert min(counts.values()) == 3
    assert sum(counts.values()) <= 24
    assert execution.scheduler.short == 0


def test_a_steered_run_resumes_at_its_place(bench: Bench) -> None:
    run(bench)
    before = by_cell(bench)
    run(bench)
    assert by_cell(bench) == before


def test_a_new_budget_continues_after_the_recorded_trials(bench: Bench) -> None:
    first = run(bench, Cost(22.0, float("inf")))
    before = by_cell(bench)
    assert first.scheduler.left_out
    second = run(bench, Cost(1000.0, float("inf")))
    after = by_cell(bench)
    assert after != before
    assert all(after[cell] >= count for cell, count in before.items())
    assert second.scheduler.left_out == 0
