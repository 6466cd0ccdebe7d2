from __future__ import annotations

import subprocess
import sys
from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import fdtrc, stdtr, stdtrit

from matrix_runner.statistics.ratios import t_factor, two_sided_p, variance_ratio_p

freedoms = st.floats(1, 1e5)


@given(st.floats(-1000, 1000), freedoms)
def test_a_chance_is_the_one_that_scipy_has(distance: float, freedom: float) -> None:
    assert two_sided_p(distance, freedom) == pytest.approx(2 * stdtr(freedom, -abs(distance)), rel=1e-8)


@given(st.floats(0, 1000), st.integers(1, 60), st.integers(1, 2000))
def test_the_chance_of_a_variance_ratio_is_the_one_that_scipy_has(value: float, above: int, below: int) -> None:
    assert variance_ratio_p(value, above, below) == pytest.approx(fdtrc(above, below, value), rel=1e-7, abs=1e-300)


@given(st.floats(0.001, 0.999_999), freedoms)
def test_a_factor_is_the_one_that_scipy_has(confidence: float, freedom: float) -> None:
    assert t_factor(freedom, confidence) == pytest.approx(stdtrit(freedom, (1 + confidence) / 2), rel=1e-8)


@given(st.floats(0.001, 0.999_999), freedoms)
def test_a_factor_is_exceeded_with_the_chance_that_is_left(confidence: float, freedom: float) -> None:
    assert two_sided_p(t_factor(freedom, confidence), freedom) == pytest.approx(1 - confidence, rel=1e-8)


def test_students_t_has_known_values() -> None:
    assert t_factor(2, 0.95) == pytest.approx(4.302653, abs=1e-6)
    assert t_factor(1, 0.5) == pytest.approx(1)  # Cauchy's
    assert two_sided_p(sqrt(2), 2) == pytest.approx(1 - sqrt(0.5))
    assert two_sided_p(1e6, 2) == pytest.approx(2 * stdtr(2, -1e6), rel=1e-12)


@pytest.mark.parametrize("freedom", [1, 2.5, 1e4])
def test_the_ends(freedom: float) -> None:
    assert two_sided_p(0, freedom) == two_sided_p(1e-200, freedom) == 1
    assert two_sided_p(inf, freedom) == two_sided_p(1e200, freedom) == 0
    assert t_factor(freedom, 1 - 1e-16) == inf


def test_two_samples_are_compared_without_scipy() -> None:
    """Its import takes a quarter of the second in which a command is to answer from the store."""
    script = (
        "import sys; from matrix_runner.statistics.ratios import unpaired_ratio; unpaired_ratio([1.0, 2.0, 4.0], [3.0, 4.0]); "
        "sys.exit('scipy' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
