"""Which rounds follow the planned ones, of which cells, and within what time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.events import RoundAdded
from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.confirm import LEAST, Confirmation, OnOldKernel
from matrix_runner.language.matrix import Repeat
from matrix_runner.machines.dry import plausible
from tests.support.dry import Dry
from tests.support.engine import Bench, Clock, by_cell
from tests.support.execution import executor
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from matrix_runner.carry.executor import LocalRun


@pytest.fixture(params=[SMALL])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(tmp_path, request.param)
    yield made
    made.journal.close()


def run(
    bench: Bench, slower: Mapping[str, float], budget: Cost | None = None, seconds: float | None = None
) -> LocalRun:
    """Measure with a clock of a second for each trial, if there is a limit."""
    clock = Clock()
    spending = Spending(budget or Cost(inf, inf), clock=clock)

    def find_slower() -> Mapping[str, float]:
        assert not {cell.id for cell in bench.plan.selection.cells()} - by_cell(bench).keys(), "the planned rounds end"
        if seconds is not None:
            spending.grant(seconds)
        return slower

    execution = executor(
        bench.plan,
        Dry(clock.answer if seconds is not None else plausible),
        bench.journal,
        bench.shelf,
        bench.folder,
        bench.events.append,
        boot_id="one",
        spending=spending,
        steering=Confirmation(bench.plan.repeat, find_slower),
    )
    asyncio.run(execution.run())
    return execution


def first_cells(bench: Bench, count: int) -> dict[str, float]:
    return {cell.id: 0.1 + at for at, cell in enumerate(bench.plan.selection.cells()) if at < count}


def test_only_slower_cells_get_more_rounds(bench: Bench) -> None:
    slower = first_cells(bench, 2)
    execution = run(bench, slower)
    assert by_cell(bench) == {cell: 2 + LEAST * (cell in slower) for cell in by_cell(bench)}
    added = [event for event in bench.events if isinstance(event, RoundAdded)]
    assert [one.round for one in added] == list(range(3, 3 + LEAST))
    assert {one.text.partition(":")[0] for one in added} == {"2 cells are slower than the accepted level"}
    assert execution.scheduler.count_missing() == 0


@pytest.mark.parametrize("bench", [SMALL.replace("repeat: 2", "repeat: 7")], indirect=True)
def test_the_further_rounds_are_as_many_as_the_planned_ones(bench: Bench) -> None:
    run(bench, first_cells(bench, 1))
    assert max(by_cell(bench).values()) == 14


def test_without_a_slower_cell_the_run_ends_as_planned(bench: Bench) -> None:
    run(bench, {})
    assert set(by_cell(bench).values()) == {2}
    assert not [event for event in bench.events if isinstance(event, RoundAdded)]


@pytest.mark.parametrize("bench", [SMALL.replace("repeat: 2", "repeat: {min: 3, max: 9, until: 90%}")], indirect=True)
def test_planned_rounds_follow_the_rule_of_the_matrix(bench: Bench) -> None:
    run(bench, {})
    assert max(by_cell(bench).values()) < 9, "cells that are precise get no more trials"
    assert not [event for event in bench.events if isinstance(event, RoundAdded)]


def test_it_ends_with_its_time_and_measures_the_farthest_cell_first(bench: Bench) -> None:
    slower = first_cells(bench, 3)
    execution = run(bench, slower, seconds=5.0)
    counts = by_cell(bench)
    assert 0 < sum(counts.values()) - 8 <= 5
    assert execution.scheduler.left_out
    assert execution.scheduler.short == 0
    farthest = max(slower, key=lambda cell: slower[cell])
    assert counts[farthest] == max(counts.values())


def test_its_time_is_not_that_of_the_budget(bench: Bench) -> None:
    run(bench, first_cells(bench, 1), Cost(8.0, inf), seconds=100.0)
    assert sum(by_cell(bench).values()) == 8 + LEAST


def test_it_resumes_at_its_place(bench: Bench) -> None:
    slower = first_cells(bench, 2)
    run(bench, slower, seconds=3.0)
    before = by_cell(bench)
    run(bench, slower)
    assert sum(by_cell(bench).values()) == 8 + 2 * LEAST > sum(before.values())
    run(bench, slower)
    assert sum(by_cell(bench).values()) == 8 + 2 * LEAST


def test_the_old_kernel_gets_its_cells_of_the_further_rounds() -> None:
    first = Confirmation(Repeat(min=3, max=3), lambda: {"one": 0.1, "two": 0.2})
    second = OnOldKernel(first, {"two"})
    assert [*second.rounds] == [*first.rounds]
    assert [second.wanted(number) for number in (1, 3, 4, 8)] == [{}, {}, {"two": 0.2}, {"two": 0.2}]
    first.beside = ", as is the old kernel"
    assert second.reason() == "2 cells are slower than the accepted level, as is the old kernel"
