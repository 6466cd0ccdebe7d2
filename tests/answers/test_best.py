"""The rule of a search for the best value, on planted curves."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.best import EXPLORING, LAST, Answer, answer, levels, next_values, usual_trials
from matrix_runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

RULE = Rule(3, 3)
PEAK = [100 - (at - 20) ** 2 / 8 for at in range(32)]
SATURATION = [100 * (1 - exp(-(at + 1) / 4)) for at in range(32)]


def search(
    curve: Sequence[float], default: int | None = None, noise: float = 0.005, seed: int = 1, rule: Rule = RULE
) -> tuple[list[dict[int, float]], Answer]:
    """Search a curve, in which each round has an effect of its own."""
    chance = random.Random(seed)  # noqa: S311 - noise, not secrecy
    effects = [chance.gauss(0, 0.1) for _ in range(LAST + 2)]
    figures: list[dict[int, float]] = [{} for _ in curve]
    for number in range(1, LAST + 2):
        for at in sorted(next_values(figures, default, rule, number)):
            figures[at][number] = curve[at] * exp(effects[number] + chance.gauss(0, noise))
    found = answer(figures, default, rule)
    assert found
    return figures, found


def trials(figures: Sequence[dict[int, float]]) -> int:
    return sum(map(len, figures))


def test_it_finds_a_peak_with_a_third_of_the_trials() -> None:
    figures, found = search(PEAK)
    assert 18 <= found.best <= 22
    assert 16 <= found.chosen <= found.best
    assert found.is_decided
    assert trials(figures) <= 32 * 4 / 3


def test_on_a_short_axis_little_scatter_ends_the_looking_early() -> None:
    for noise, last in ((0.002, 3), (0.05, EXPLORING)):
        figures, found = search(PEAK[4:20], noise=noise)
        assert found.explored == last
        assert not [at for at, one in enumerate(figures) if at not in found.named and max(one, default=0) > last]


def test_larger_differences_that_count_as_equal_allow_a_smaller_value_and_end_earlier() -> None:
    strict, loose = (search(SATURATION, noise=0.02, rule=replace(RULE, practical=one)) for one in (0.02, 0.2))
    assert trials(loose[0]) < trials(strict[0])
    assert loose[1].chosen < strict[1].chosen
    assert loose[1].is_decided
    assert SATURATION[loose[1].chosen] >= max(SATURATION) / 1.2


def test_a_default_that_is_decided_needs_no_more() -> None:
    figures, found = search([*PEAK, 50], default=32, noise=0.03)
    assert max(figures[32]) < max(figures[found.chosen])
    assert min(figures[32]) > found.explored


def test_of_a_saturation_it_chooses_a_small_value_that_is_about_as_good() -> None:
    _, found = search(SATURATION)
    assert SATURATION[found.chosen] >= max(SATURATION) / 1.05
    assert 10 <= found.chosen <= 20


def test_it_measures_the_named_values_again_in_the_same_rounds() -> None:
    figures, found = search(SATURATION)
    again = {at: {number for number in one if number > found.explored} for at, one in enumerate(figures)}
    measured = {at for at, numbers in again.items() if numbers}
    assert measured == {*found.named}
    assert len({frozenset(again[at]) for at in measured}) == 1
    assert all(found.again[at].keys() == again[at] for at in measured)


def test_the_figure_has_no_winners_curse() -> None:
    flat, first, second = [100.0] * 32, list[float](), list[float]()
    for seed in range(60):
        figures, found = search(flat, noise=0.03, seed=seed)
        flat_again = [again for numbers in (found.again[found.best],) for again in numbers.values()]
        alike = levels([{at: value for at, value in one.items() if at <= found.explored} for one in figures])
        first.append(alike[found.best] - fmean(alike.values()))
        others = [value for at in found.named for value in found.again[at].values()]
        second.append(fmean(flat_again) / fmean(others) - 1)
    assert fmean(first) > 0.02, "it was chosen because it was high"
    assert abs(fmean(second)) < 0.004


def test_the_default_is_compared() -> None:
    _, slower = search([*PEAK, 80], default=32)
    assert not slower.is_within(32)
    assert slower.is_decided
    assert (ratio := slower.behind[32])
    assert ratio.low < 100 / 80 < ratio.high
    _, equal = search([*PEAK, 99.5], default=32)
    assert equal.is_within(32)


def test_without_a_decision_it_ends() -> None:
    figures, found = search([100.0] * 16, noise=0.4)
    assert not found.is_decided
    assert max(number for one in figures for number in one) == LAST


def test_until_asks_for_a_precise_figure() -> None:
    few, _ = search(PEAK, noise=0.01)
    more, _ = search(PEAK, noise=0.01, rule=Rule(3, 40, until=0.05))
    assert trials(more) > trials(few), "rounds differ by 10 %, which the interval of a figure includes"


@pytest.mark.parametrize("values", [3, 4, 7])
def test_a_short_axis_is_tried_as_a_whole(values: int) -> None:
    figures, found = search([100, *[60.0] * (values - 1)])
    assert found.chosen == found.best == 0
    assert all(figures) or values > 5


def test_effects_of_rounds_cancel() -> None:
    found = levels([{1: 100, 2: 200}, {1: 50}, {2: 100}])
    assert found[1] == pytest.approx(found[2], abs=1e-4)


def test_the_usual_number_is_below_that_of_all_values() -> None:
    assert usual_trials(32, 3) < 50
    assert usual_trials(3, 1) <= 3 + 12 + 18
