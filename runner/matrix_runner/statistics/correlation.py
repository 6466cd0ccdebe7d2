"""Correlation between successive trials or nights, and what it costs: an interval from n of them is worth fewer.

The model is a first-order autoregression: each value keeps a share of the deviation of the one before.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from statistics import fmean

from matrix_runner.statistics.ratios import t_factor

#: Stronger correlation is not considered: trials would hardly differ.
MOST = 0.9
#: Without evidence, trials may be as correlated as this. By simulation (`bench.stated`).
MOST_UNSEEN = 0.8
#: How many standard deviations of its estimate a correlation may lie above it. By simulation (`bench.stated`).
_CAUTION = 2.2
#: Fewer values do not show that they are correlated.
LEAST_VALUES = 8
#: By simulation, 1 % of independent series of 8 to 100 values seem correlated.
_CLEAR = 2.33


def lag_correlation(values: Sequence[float]) -> float:
    """Return the correlation of each value with the next one; 0 for equal values."""
    mean = fmean(values)
    apart = [value - mean for value in values]
    squares = sum(one * one for one in apart)
    return sum(one * other for one, other in pairwise(apart)) / squares if squares else 0.0


def clear_correlation(values: Sequence[float]) -> float | None:
    """Return the correlation of successive values, corrected for its bias; None if it is not clearly above 0."""
    n = len(values)
    if n < LEAST_VALUES:
        return None
    lag = lag_correlation(values)
    if lag <= _CLEAR * (n - 2) / (n * sqrt(n - 1)) - 1 / n:
        return None
    return min(MOST, (lag * n + 1) / (n - 3))


def highest_correlation(lag: float, n: int) -> float:
    """Return the highest correlation up to `MOST_UNSEEN` (100 × integer) that may have this estimate from n values."""
    for hundredths in range(round(100 * MOST_UNSEEN), 0, -1):
        true = hundredths / 100
        if lag >= true - (1 + 3 * true) / n - _CAUTION * sqrt((1 - true**2) / n):
            return true
    return 0.0


@lru_cache(maxsize=4096)
def correlated_t_factor(n: int, correlation: float, confidence: float) -> float:
    """Return how many naive standard errors of n correlated values have this confidence; see `t_factor`.

    The scatter within them is too small, and has fewer degrees of freedom (Satterthwaite's approximation).
    """
    if not correlation:
        return t_factor(n - 1, confidence)
    total = n + 2 * _triangle(n, correlation)  # the sum of the matrix of correlations
    squares = n + 2 * _triangle(n, correlation**2)  # of their squares
    by_row = _squared_row_sums(n, correlation)
    scatter = n - total / n
    freedom = scatter**2 / (squares - 2 * by_row / n + (total / n) ** 2)
    return sqrt(total / n * (n - 1) / scatter) * t_factor(max(1.0, freedom), confidence)


def _triangle(n: int, x: float) -> float:
    """Return the sum of (n - k) x^k for k from 1 to n - 1."""
    return x * (n - 1 - n * x + x**n) / (1 - x) ** 2


def _squared_row_sums(n: int, x: float) -> float:
    """Return the sum of the squared row sums; that of row i is (1 + x - x^i - x^(n + 1 - i)) / (1 - x)."""
    powers, squares = x * (1 - x**n) / (1 - x), x**2 * (1 - x ** (2 * n)) / (1 - x**2)
    return (n * (1 + x) ** 2 - 4 * (1 + x) * powers + 2 * squares + 2 * n * x ** (n + 1)) / (1 - x) ** 2
