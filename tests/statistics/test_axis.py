from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from matrix_runner.statistics.ratios import student_interval
from matrix_runner.statistics.rounds import scaling_exponent
from tests.support.rounds import noisy, sample

moods = st.lists(st.floats(0.5, 2), min_size=3, max_size=8)


@given(st.lists(st.floats(0.1, 1000), min_size=2, max_size=6, unique=True), st.floats(-3, 3), moods)
def test_an_exponent_is_found_beside_effects_of_rounds(places: list[float], power: float, mood: list[float]) -> None:
    assume(min(abs(log(one / other)) for one in places for other in places if one != other) > 1e-3)
    found = scaling_exponent(places, [sample(*(by * place**power for by in mood)) for place in places])
    assert found is not None
    assert found.mean == pytest.approx(power, abs=1e-6)
    assert found.half_width == pytest.approx(0, abs=1e-5)
    assert found.n == len(mood)


def test_the_interval_of_a_power_is_students_over_rounds() -> None:
    found = scaling_exponent([1, 2], [sample(1, 1, 1), sample(2, 4, 8)])
    plain = student_interval([1.0, 2.0, 3.0])
    assert found is not None
    assert plain is not None
    assert [found.mean, found.low, found.high] == pytest.approx([plain.mean, plain.low, plain.high])


@pytest.mark.parametrize(
    ("places", "samples"),
    [
        ([0, 2], [sample(1, 1), sample(2, 2)]),
        ([2, 2], [sample(1, 1), sample(2, 2)]),
        ([1, 2], [sample(1, 0), sample(2, 2)]),
        ([1, 2], [sample(1), sample(2)]),
        ([1, 2], [{1: 1.0, 2: 1.0}, {3: 2.0, 4: 2.0}]),
    ],
)
def test_samples_without_an_exponent(places: list[float], samples: list[dict[int, float]]) -> None:
    assert scaling_exponent(places, samples) is None


def test_powers_are_covered() -> None:
    chance = np.random.default_rng(3)
    places = [1.0, 2.0, 4.0]
    found = [scaling_exponent(places, noisy(chance, [1.0, 1.5, 2.25], 5, 0.05)) for _ in range(1000)]
    true = log(1.5) / log(2)
    assert 0.93 <= np.mean([one is not None and one.low <= true <= one.high for one in found]) <= 0.97
