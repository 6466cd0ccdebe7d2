"""The search for the version at which a figure changed: odds, candidates, and when it is over."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from bench.bisect import CASES, VERSIONS, Case, Host, by_odds, searched
from matrix_runner.decide.bisect import Rule, Standing, State, expected_rounds

NONE: frozenset[int] = frozenset()


def rounds(levels: list[float], number: int, noise: float = 0.01, drift: float = 0.0) -> list[dict[int, float]]:
    chance = np.random.default_rng(3)
    return [
        {version: level + drift * at + noise * chance.standard_normal() for version, level in enumerate(levels)}
        for at in range(number)
    ]


def anchors(difference: float, number: int, noise: float = 0.01) -> list[dict[int, float]]:
    return [{0: one[0], 20: one[1]} for one in rounds([0.0, difference], number, noise)]


def test_the_first_rounds_measure_only_good_and_bad() -> None:
    standing = Standing(20, anchors(-0.1, 2), NONE, Rule())
    assert (standing.state, standing.candidates()) == (State.ANCHORS, ())
    assert standing.odds.tolist() == [1 / 20] * 20


def test_candidates_divide_the_odds() -> None:
    standing = Standing(20, anchors(-0.1, 6), NONE, Rule())
    first, second, third = standing.candidates()
    assert 3 <= first < second < third <= 17
    assert standing.effect.low < -0.1 < standing.effect.high
    assert 0 < expected_rounds(standing) < 10


def test_drift_between_rounds_changes_no_odds() -> None:
    still, moving = (rounds([0, 0, -0.1, -0.1], 6, drift=drift) for drift in (0.0, 0.5))
    odds = [Standing(3, one, NONE, Rule()).odds for one in (still, moving)]
    assert odds[0] == pytest.approx(odds[1], abs=1e-6)
    assert int(odds[0].argmax()) + 1 == 2


def test_the_position_is_found_with_its_effect() -> None:
    standing = Standing(3, rounds([0, 0, -0.1, -0.1], 6), NONE, Rule(worse=-1))
    assert (standing.state, standing.best.first, standing.best.last) == (State.FOUND, 2, 2)
    assert standing.best.odds >= 0.95
    assert standing.effect.low < -0.1 < standing.effect.high < 0
    assert standing.noise == pytest.approx(0.01, rel=0.5)
    assert standing.candidates() == ()


def test_skipped_versions_are_neither_good_nor_bad() -> None:
    found = [{one: value for one, value in each.items() if one != 2} for each in rounds([0, 0, 0, -0.1, -0.1], 6)]
    standing = Standing(4, found, frozenset({2}), Rule())
    assert (standing.state, standing.best.first, standing.best.last) == (State.FOUND, 2, 3)
    assert standing.odds[1] == pytest.approx(standing.odds[2])


def test_skipped_versions_are_no_candidates() -> None:
    skipped = frozenset(range(1, 15))
    found = Standing(20, anchors(-0.1, 6), skipped, Rule()).candidates()
    assert found
    assert not skipped.intersection(found)


@pytest.mark.parametrize(
    ("difference", "number", "worse", "state"),
    [
        (0.0, 30, 0, State.EQUAL),
        (0.0, 3, 0, State.ANCHORS),
        (0.1, 8, -1, State.REVERSED),
        (0.1, 8, 1, State.SEARCHING),
        (0.1, 8, 0, State.SEARCHING),
    ],
)
def test_anchors(difference: float, number: int, worse: int, state: State) -> None:
    rule = Rule(worse=worse, smallest=log(1.02))
    assert Standing(20, anchors(difference, number), NONE, rule).state is state


def test_anchors_that_never_differ_end_the_search() -> None:
    rule = Rule(smallest=0.0001)
    assert Standing(20, anchors(0.0, rule.most_pairs), NONE, rule).state is State.UNCERTAIN


def test_a_level_between_good_and_bad_is_a_second_change() -> None:
    standing = Standing(4, rounds([0, 0, -0.1, -0.2, -0.2], 6), NONE, Rule())
    assert standing.state is State.SEVERAL
    assert standing.second_step[1] == (1, 2, 3)


def test_a_change_that_comes_back_is_noticed() -> None:
    assert Standing(4, rounds([0, -0.1, 0, -0.1, -0.1], 6), NONE, Rule()).state is State.SEVERAL


def test_figures_without_any_noise() -> None:
    found = rounds([0, 0, -0.1, -0.1], 4, noise=0.0)
    assert Standing(3, found, NONE, Rule()).best.first == 2


def test_simulated_searches() -> None:
    row = searched(CASES[0], by_odds, 12)
    assert row.right >= 11 / 12
    assert row.trials <= 90


def test_no_change_has_no_culprit() -> None:
    assert searched(next(one for one in CASES if not one.change), by_odds, 5).wrong == 0


def test_broken_versions_in_a_simulated_search() -> None:
    answer = by_odds(Host(Case("broken", -0.2, broken=0.5), np.random.default_rng(2)))
    assert 1 <= answer.first < answer.last < VERSIONS
