"""The search for the version at which a figure changed: odds, candidates, and when it is over."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from bench.bisect import CASES, VERSIONS, Case, Host, by_odds, searched
from matrix_runner.decide.bisect import Ahead, Rule, Standing, State, expected_rounds

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


def test_odds_are_the_integral_of_the_model() -> None:
    found = rounds([0, 0, -0.015, -0.015], 5)
    standing = Standing(3, found, NONE, Rule())
    values = np.array([[one[version] for version in range(4)] for one in found])
    change, noise = np.meshgrid(np.linspace(-0.06, 0.03, 1500), np.geomspace(0.002, 0.2, 600))
    weights = []
    for position in (1, 2, 3):
        rest = values[..., None, None] - change * (np.arange(4) >= position)[None, :, None, None]
        squares = ((rest - rest.mean(axis=1, keepdims=True)) ** 2).sum(axis=(0, 1))
        weights.append(float((noise**-15 * np.exp(-squares / (2 * noise**2))).sum()))  # 20 figures, 5 rounds
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(standing.__dict__, "differ", True)
        assert standing.odds == pytest.approx(np.array(weights) / sum(weights), rel=1e-3)
    assert 0.3 < standing.best.odds < 0.99, "a doubled exponent must show"


def test_looks_after_every_round_seldom_call_a_change_equal() -> None:
    """The change is the smallest that matters; of 150 searches, at most 5 % may call it none."""
    rule = Rule(smallest=log(1.01))
    chance = np.random.default_rng(5)
    wrong = 0
    for _ in range(150):
        pairs = [{0: 0.0, 1: log(1.01) + 0.016 * chance.standard_normal()} for _ in range(60)]
        wrong += any(Standing(1, pairs[:n], NONE, rule).state is State.EQUAL for n in range(3, 61))
    assert 1 <= wrong <= 10


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


def test_a_version_that_must_be_built_is_worth_less_than_its_neighbour() -> None:
    measured = anchors(-0.1, 6)
    plain = Standing(20, measured, NONE, Rule()).candidates()
    built = {4, 9, 14}
    ahead = Ahead(cost=lambda version: 0.0 if version in built else 30.0)
    assert not built.issuperset(plain)
    assert set(Standing(20, measured, NONE, Rule(), ahead).candidates()) <= built


def test_a_dear_version_is_built_where_the_others_tell_no_more() -> None:
    measured = rounds([0, 0, 0, -0.1], 6)
    known = [{one: value for one, value in each.items() if one != 2} for each in measured]
    ahead = Ahead(cost=lambda version: 1e6 if version == 2 else 0.0)
    assert Standing(3, known, NONE, Rule(), ahead).candidates() == (2,)


def test_a_cheap_version_with_little_news_is_no_candidate() -> None:
    """Version 1 is free and tells a little, version 2 tells nearly all and costs a million trials."""
    known = [{one: value for one, value in each.items() if one != 2} for each in rounds([0, 0, 0, -0.1], 4, 0.02)]
    ahead = Ahead(cost=lambda version: 1e6 if version == 2 else 0.0)
    assert Standing(3, known, NONE, Rule(), ahead).candidates() == (2,)


def test_likely_versions_come_first_and_change_no_odds() -> None:
    measured = anchors(-0.1, 6)
    plain = Standing(200, [{0: one[0], 200: one[20]} for one in measured], NONE, Rule())
    likely = Standing(200, plain.rounds, NONE, Rule(), Ahead(likely=frozenset({150, 160, 170})))
    assert likely.odds == pytest.approx(plain.odds)
    assert all(149 <= one <= 170 for one in likely.candidates())
    assert min(plain.candidates()) < 149


def test_a_change_beside_the_likely_versions_is_found_too() -> None:
    levels = np.where(np.arange(41) >= 27, -0.1, 0.0)
    rounds_: list[dict[int, float]] = []
    chance = np.random.default_rng(6)
    while True:
        found = Standing(40, rounds_, NONE, Rule(worse=-1), Ahead(likely=frozenset({10, 20, 30})))
        if found.state.is_over:
            break
        rounds_.append({one: levels[one] + 0.01 * chance.standard_normal() for one in (0, 40, *found.candidates())})
    assert (found.state, found.best.first) == (State.FOUND, 27)


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
