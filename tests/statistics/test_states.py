from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.statistics.rounds import LEAST_VALUES, States, find_two_states

values = st.lists(st.floats(1, 1e9), max_size=20)


def test_two_separate_groups_are_two_states() -> None:
    assert find_two_states([100, 200, 101, 201, 99, 100, 199, 100]) == States(5, 100, 3, 200)


def test_states_that_hardly_differ_are_of_no_matter() -> None:
    assert find_two_states([100, 104] * 4) is None
    assert find_two_states([100, 106] * 4) == States(4, 100, 4, 106)


def test_one_value_that_is_off_is_no_state() -> None:
    assert find_two_states([100, 101, 99, 100, 102, 98, 100, 500]) is None


@given(values)
def test_few_values_have_no_states(few: list[float]) -> None:
    assert find_two_states(few[: LEAST_VALUES - 1]) is None


@given(values)
def test_two_states_do_not_depend_on_the_order(found: list[float]) -> None:
    states, turned = find_two_states(found), find_two_states(found[::-1])
    assert states == turned
    if states:
        assert states.n_low + states.n_high == len(found)
        # A mean of equal values may be a bit beyond them.
        assert min(found) * (1 - 1e-9) <= states.low < states.high <= max(found) * (1 + 1e-9)
        assert min(states.n_low, states.n_high) >= 2


@given(st.floats(1, 1e9), st.integers(0, 20))
def test_equal_values_are_one_state(value: float, n: int) -> None:
    assert find_two_states([value] * n) is None


@pytest.mark.parametrize("n", [8, 12, 20])
@pytest.mark.parametrize("skewed", [False, True])
def test_noise_is_hardly_ever_taken_for_states(n: int, skewed: bool) -> None:
    noise = 0.3 * np.random.default_rng(1).standard_normal((2000, n))
    drawn = np.exp(noise) if skewed else 10 + noise
    assert np.mean([find_two_states(list(row)) is not None for row in drawn]) <= 0.02


@pytest.mark.parametrize(("share", "found"), [(0.5, 0.8), (0.2, 0.4)])
@pytest.mark.parametrize("n", [8, 20])
def test_far_off_states_are_found(share: float, found: float, n: int) -> None:
    chance = np.random.default_rng(2)
    drawn = 100 + 10 * (chance.random((500, n)) < share) + chance.standard_normal((500, n))
    assert np.mean([find_two_states(list(row)) is not None for row in drawn]) >= found
