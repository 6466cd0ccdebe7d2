"""The scheduler by its properties: no machine, no journal, no clock."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.budget import Cost, Spending
from matrix_runner.decide.plan import Plan
from matrix_runner.decide.scheduler import TRIES, Scheduler, join_reasons
from matrix_runner.records.record import Attempt, Outcome, Trial
from matrix_runner.space.select import select
from matrix_runner.work.fio.output import Direction, Figures
from tests.support.matrices import space

if TYPE_CHECKING:
    from matrix_runner.space.space import Cell

MATRIX = """\
name: scheduled
disks: {count: 4, size: 64MiB}
layouts: {disk: [disk], raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]}
workloads: {work: {rw: [read, write], bs: 4KiB, runtime: 1s}}
repeat: 3
"""
SPACE = space(MATRIX)
CELLS = [cell.id for array in SPACE.stacks for cell in select(SPACE).cells_of(array)]
ALL = {(cell, round_number) for cell in CELLS for round_number in (1, 2, 3)}


def scheduler(spending: Spending | None = None) -> Scheduler:
    return Scheduler(Plan(select(SPACE), SPACE.matrix.repeat, 1), spending=spending)


def broken(cell: Cell, round_number: int) -> Trial:
    """A trial without figures: its cell is never known well enough."""
    return Trial(cell.id, round_number, Outcome.BROKEN, "set-up failed")


def rated(cell: str, round_number: int, rate: float) -> Trial:
    figures = Figures(Direction(rate, rate, 1, 1, *[None] * 8), None, 1.0, 1.0, 2.0, 0)
    return Trial(cell, round_number, Outcome.MEASURED, "", figures=figures)


def lost(cell: str, round_number: int, number: int) -> Attempt:
    return Attempt(cell, round_number, number, "2026-01-01T00:00:00.000+00:00", "the guest panicked", "")


def carry_out(chosen: Scheduler, most: int | None = None) -> list[Trial]:
    """Record each trial that is asked for, at most so many."""
    done: list[Trial] = []
    for round_number in chosen.rounds():
        for _, cells in chosen.batches(round_number):
            while cells and (most is None or len(done) < most):
                cell = cells.popleft()
                trial = chosen.conclusion(cell, round_number) or broken(cell, round_number)
                chosen.add(trial, cell)
                done.append(trial)
    return done


def test_each_trial_is_planned_once() -> None:
    assert Counter((trial.cell, trial.round) for trial in carry_out(scheduler())) == Counter(ALL)


@given(st.integers(0, len(ALL)))
def test_after_a_stop_exactly_the_rest_is_planned(most: int) -> None:
    before = carry_out(scheduler(), most)
    again = scheduler()
    again.start(before, [], {})
    rest = carry_out(again)
    assert Counter((trial.cell, trial.round) for trial in [*before, *rest]) == Counter(ALL)


@given(st.lists(st.sampled_from(sorted(ALL)), max_size=12))
def test_queries_do_not_change_the_scheduler(asked: list[tuple[str, int]]) -> None:
    one, other = scheduler(), scheduler()
    by_id = {cell.id: cell for cell in one.plan.selection.cells()}
    for cell, round_number in asked:
        for _ in range(2):
            assert one.is_wanted(by_id[cell], round_number)
            assert one.conclusion(by_id[cell], round_number) is None
    assert [trial.cell for trial in carry_out(one)] == [trial.cell for trial in carry_out(other)]


@given(st.sampled_from(CELLS))
def test_a_cell_whose_rigs_die_is_broken_once_and_then_left_alone(cell: str) -> None:
    chosen = scheduler()
    for number in range(1, TRIES + 1):
        assert chosen.records.next_attempt(cell, 1) == number
        chosen.lose(lost(cell, 1, number), seconds=2.0)
    by_id = {one.id: one for one in chosen.plan.selection.cells()}
    concluded = chosen.conclusion(by_id[cell], 1)
    assert concluded is not None
    assert (concluded.outcome, concluded.attempts, concluded.seconds) == (Outcome.BROKEN, TRIES, 2.0 * TRIES)
    chosen.add(concluded, by_id[cell])
    later = chosen.conclusion(by_id[cell], 2)
    assert later is not None
    assert (later.outcome, later.reason) == (Outcome.SKIPPED, "quarantined: the guest panicked")
    assert all(trial.cell != cell for trial in carry_out(chosen))


def test_one_lost_rig_is_no_reason_to_give_up() -> None:
    chosen = scheduler()
    chosen.lose(lost(CELLS[0], 1, 1))
    assert {(trial.cell, trial.round) for trial in carry_out(chosen)} == ALL


@given(st.integers(0, 60))
def test_trials_without_budget_are_left_out_and_counted(seconds: int) -> None:
    clock = [0.0]
    chosen = scheduler(Spending(Cost(float(seconds), float("inf")), clock=lambda: clock[0]))
    done = 0
    for round_number in chosen.rounds():
        for batch, cells in chosen.batches(round_number):
            while chosen.charge(cells, round_number, batch.stack):
                clock[0] += 3.0
                chosen.add(broken(cells[0], round_number), cells.popleft())
                done += 1
    assert clock[0] <= seconds
    assert done + chosen.left_out == len(ALL)
    assert chosen.short == chosen.left_out  # `repeat: 3` is the minimum of each cell


def test_only_a_charge_spends_the_budget_and_leaves_cells_out() -> None:
    chosen = scheduler(Spending(Cost(float("inf"), 1e9), clock=lambda: 0.0))
    cells = deque(sorted(chosen.plan.selection.cells(), key=lambda cell: "rw=read" in cell.name))
    before = chosen.spending.left
    assert chosen.affords(cells[0], cells[0].stack)
    assert (chosen.spending.left, chosen.left_out) == (before, 0)
    assert chosen.charge(cells, 1, cells[0].stack)
    while chosen.affords(cells[0]):
        assert chosen.charge(cells, 1)
    assert chosen.spending.left != before
    assert chosen.left_out == 0
    assert chosen.charge(cells, 1)  # of a cell that only reads
    assert "rw=read" in cells[0].name
    assert chosen.left_out == chosen.short == 3


def test_different_reasons_are_numbered() -> None:
    assert join_reasons(["a", "a"]) == "a"
    assert join_reasons(["a", "b"]) == "1. a; 2. b"


SLOWLY = (1.0, 1.0, 1.02, 1.08, 1.09, 1.1, 1.09, 1.02)  # neighbours are alike, and the mean is known to 5 % by itself
QUICKLY = tuple(SLOWLY[number] for number in (0, 5, 1, 4, 7, 3, 2, 6))


@pytest.mark.parametrize(("course", "wanted"), [(SLOWLY, True), (QUICKLY, False)])
def test_until_goes_on_if_all_cells_show_that_rounds_are_correlated(course: tuple[float, ...], wanted: bool) -> None:
    """Fewer than eight trials of a cell cannot show it; a run that was resumed decides the same."""
    matrix = space(MATRIX.replace("repeat: 3", "repeat: {min: 3, max: 20, until: 7%}"))
    chosen = Scheduler(Plan(select(matrix), matrix.matrix.repeat, 1))
    cells = list(chosen.plan.selection.cells())
    rounds = range(1, 8)
    trials = [rated(cell.id, number, course[number - 1]) for number in rounds for cell in cells]
    for trial in trials:
        chosen.is_wanted(cells[0], 8)  # a question does not settle it
        chosen.add(trial, cells[0])
    again = Scheduler(chosen.plan)
    again.start(trials, [], {})
    assert [one.is_wanted(cell, 8) for one in (chosen, again) for cell in cells] == [wanted] * len(cells) * 2
    assert again.is_wanted(cells[0], 4) is False
