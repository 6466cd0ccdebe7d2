from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.guidelines import correlated
from matrix_runner.statistics.ratios import (
    MOST_CORRELATION,
    MOST_UNSEEN,
    clear_correlation,
    correlated_t_factor,
    highest_correlation,
    lag_correlation,
    likely_correlation,
    student_interval,
    t_factor,
)


def series(correlation: float, n: int, times: int) -> list[list[float]]:
    chance = np.random.default_rng([7, n, round(100 * correlation)])
    return [correlated(chance, n, correlation).tolist() for _ in range(times)]


def test_the_lag_of_equal_values_is_0_and_of_turns_negative() -> None:
    assert lag_correlation([3.0, 3.0, 3.0]) == 0
    assert lag_correlation([1.0, 2.0, 1.0, 2.0]) == pytest.approx(-0.75)
    assert lag_correlation([1.0, 1.0, 2.0, 2.0]) == pytest.approx(0.25)


@pytest.mark.parametrize("n", [8, 20])
def test_intervals_of_correlated_values_cover_better_and_of_independent_ones_as_stated(n: int) -> None:
    def misses(correlation: float) -> float:
        found = [student_interval(one) for one in series(correlation, n, 2000)]
        return float(np.mean([one is None or not one.low <= 0 <= one.high for one in found]))

    assert 0.025 <= misses(0.0) <= 0.06
    assert misses(0.5) <= (0.14 if n == 8 else 0.09)  # without an allowance: 24 %


def test_few_values_get_no_allowance() -> None:
    rising = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
    assert likely_correlation(rising[:7]) == 0
    assert 0.5 < likely_correlation(rising) <= MOST_CORRELATION
    assert likely_correlation([5.0] * 9) == 0


@pytest.mark.parametrize("n", [8, 15, 40])
def test_independent_series_hardly_ever_seem_correlated(n: int) -> None:
    assert np.mean([clear_correlation(one) is not None for one in series(0.0, n, 1000)]) < 0.02


def test_forty_correlated_values_show_it_without_bias() -> None:
    found = [clear_correlation(one) for one in series(0.6, 40, 300)]
    assert np.mean([one is not None for one in found]) > 0.85
    assert np.mean([one for one in found if one]) == pytest.approx(0.62, abs=0.05)
    assert all(one is None or one <= MOST_CORRELATION for one in found)


def test_few_values_show_no_correlation() -> None:
    assert clear_correlation([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]) is None


@pytest.mark.parametrize(("correlation", "n"), [(0.0, 9), (0.5, 9), (0.5, 40), (0.6, 60)])
def test_the_highest_correlation_is_hardly_ever_below_the_true_one(correlation: float, n: int) -> None:
    found = [highest_correlation(lag_correlation(one), n) for one in series(correlation, n, 500)]
    assert np.mean([one < correlation for one in found]) < 0.05


def test_three_values_exclude_no_correlation_and_many_do() -> None:
    assert highest_correlation(-0.5, 3) == MOST_UNSEEN
    assert highest_correlation(0.0, 1000) < 0.1


@pytest.mark.parametrize("n", [3, 4, 9, 40])
@pytest.mark.parametrize("correlation", [0.3, 0.6, 0.9])
def test_the_factor_follows_from_the_matrix_of_correlations(n: int, correlation: float) -> None:
    """Of values with these correlations, the variances of the mean and of the scatter are traces."""
    at = np.arange(n)
    matrix = correlation ** abs(at[:, None] - at)
    inner = (np.eye(n) - 1 / n) @ matrix
    scatter = np.trace(inner)
    freedom = max(1.0, float(scatter**2 / np.trace(inner @ inner)))
    inflation = sqrt(matrix.sum() / n**2 / (scatter / (n - 1) / n))
    assert correlated_t_factor(n, correlation, 0.95) == pytest.approx(inflation * t_factor(freedom, 0.95))


@given(st.integers(2, 500), st.sampled_from([0.5, 0.95, 0.994]))
def test_without_correlation_the_factor_is_students(n: int, confidence: float) -> None:
    assert correlated_t_factor(n, 0.0, confidence) == t_factor(n - 1, confidence)


@pytest.mark.parametrize("correlation", [0.5, 0.8])
def test_intervals_of_correlated_values_cover(correlation: float) -> None:
    covered = []
    for values in series(correlation, 20, 600):
        half = correlated_t_factor(20, correlation, 0.95) * np.std(values, ddof=1) / sqrt(20)
        covered.append(abs(np.mean(values)) <= half)
    assert 0.93 <= np.mean(covered) <= 0.985
