"""A search through cells: what a version without all its figures counts for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from matrix_runner.decide.bisect import Rule, State
from matrix_runner.decide.steering import Bisection, BisectSteering
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Figures
from tests.answers.rankings import _direction


def search() -> BisectSteering:
    """Three versions, each in two conditions."""
    names = ("a", "b", "c")
    cells = tuple(tuple(CellRow(f"{one}{way}", f"{one}{way}", {}) for way in "xy") for one in names)
    return BisectSteering(Bisection("kernel", names, cells, None, Rule(worse=-1)))


def trial(cell: str, round_number: int, rate: float | None) -> Trial:
    if rate is None:
        return Trial(cell, round_number, Outcome.BROKEN)
    figures = Figures(_direction(rate, 1 << 20), None, 1.0, 1.0, 1.0, 0)
    return Trial(cell, round_number, Outcome.MEASURED, figures=figures)


def test_a_version_counts_in_rounds_with_all_its_cells() -> None:
    found = search()
    for cell in ("ax", "ay", "cx"):
        found.add(trial(cell, 1, 100.0))
    assert [sorted(one) for one in found.standing.rounds] == [[0]]


def test_an_end_gets_a_second_try_and_a_version_between_does_not() -> None:
    found = search()
    found.add(trial("ax", 1, None))
    found.add(trial("bx", 1, None))
    assert found.standing.skipped == {1}
    found.add(trial("ax", 2, None))
    assert found.standing.state is State.NO_FIGURES


def test_the_time_left_has_the_builds_of_the_next_candidates() -> None:
    free, built = search(), search()
    built.bisection = replace(built.bisection, cost=lambda _: 600.0)
    for number in range(1, 6):
        for at, cell in enumerate(("ax", "ay", "cx", "cy")):
            one = replace(trial(cell, number, 100.0 - 25 * (at > 1) + number % 2), seconds=10.0)
            free.add(one)
            built.add(one)
    assert free.standing.candidates() == (1,)
    assert built.seconds_left / free.seconds_left == pytest.approx((600 + 3 * 2 * 10) / (3 * 2 * 10))
