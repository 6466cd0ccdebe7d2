"""A search through cells: what a version without all its figures counts for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from matrix_runner.decide.bisect import OF_SHARED_BOOTS, Rule, Standing, State
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


def booted(names: str, good: float, bad: float, first_bad: int, noise: float = 0.06) -> tuple[list[list[int]], State]:
    """Search on a machine that boots a version at a time. Return the versions of each round in their order."""
    cells = tuple((CellRow(one, one, {}),) for one in names)
    found = BisectSteering(Bisection("kernel", tuple(names), cells, None, Rule(worse=-1), running=0))
    rounds: list[list[int]] = []
    chance = np.random.default_rng(3)
    for number in range(1, 50):
        rounds.append([])
        while wanted := found.wanted(number).keys() - {one.cell for one in found._trials if one.round == number}:
            (cell,) = wanted
            at = names.index(cell)
            rate = (bad if at >= first_bad else good) * (1 + noise * chance.standard_normal())
            found.add(trial(cell, number, rate))
            rounds[-1].append(at)
            assert not found.wanted(number + 1) or not found._left(number), "a round waits for the one before"
            if name := found.boot_next:
                found.bisection = replace(found.bisection, running=names.index(name))
            if found.standing.state.is_over:
                assert found.boot_next == ""
                return rounds, found.standing.state
    raise AssertionError(rounds)


@pytest.mark.parametrize("first_bad", range(1, 8))
def test_a_round_begins_with_the_version_that_runs_and_ends_with_the_other_end(first_bad: int) -> None:
    rounds, state = booted("abcdefgh", 100, 80, first_bad)
    assert state is State.FOUND
    assert all({one[0], one[-1]} == {0, 7} for one in rounds[:-1]), rounds
    assert all(before[-1] == after[0] for before, after in pairwise(rounds)), rounds
    assert any(len(one) > 2 for one in rounds)


def test_pairs_that_share_a_boot_are_less_evidence() -> None:
    rounds = [{0: 0.0, 1: -0.05 + 0.015 * (-1) ** number} for number in range(5)]
    apart, sharing = (Standing(1, rounds, frozenset(), Rule(variance=one)) for one in (1.0, OF_SHARED_BOOTS))
    assert apart.differ
    assert not sharing.differ


def test_a_version_in_several_conditions_boots_once_a_round() -> None:
    found = search()
    found.bisection = replace(found.bisection, running=0)
    assert found.wanted(1).keys() == {"ax", "ay"}
    found.add(trial("ax", 1, 100.0))
    assert found.boot_next == "", "it has another trial here"
    found.add(trial("ay", 1, 100.0))
    assert found.boot_next == "c"
    assert found.wanted(2) == {}
    found.bisection = replace(found.bisection, running=2)
    assert found.wanted(1).keys() == {"cx", "cy"}


def test_a_version_that_the_round_does_not_need_waits() -> None:
    found = search()
    found.bisection = replace(found.bisection, running=1)
    assert found.wanted(1) == {}
    assert found.boot_next in {"a", "c"}
