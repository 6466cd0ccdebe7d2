"""The searches of the bench: they find the best values of planted curves, with few of the trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.find import CURVES, full, measure, none, peak

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    Table = NDArray[np.float64]


@pytest.mark.parametrize("curve", CURVES)
def test_searches_of_a_bench_find_a_value_that_is_as_good(curve: Callable[[Table, Generator], Table]) -> None:
    ended = measure(curve, 32, 0.02, 12)
    assert sum(one.within for one in ended) >= 11
    assert sum(one.decided for one in ended) >= 11
    assert sum(one.trials for one in ended) < 12 * full(32, 0.02) / 3


def test_figures_of_curves_that_drift_have_no_true_value() -> None:
    known = [one.covered for one in measure(none, 16, 0.02, 12)]
    assert known[1::2] == [None] * 6
    assert sum(one is True for one in known[::2]) >= 5


def test_a_search_of_a_noisy_peak_takes_more_trials() -> None:
    quiet, noisy = (sum(one.trials for one in measure(peak, 16, noise, 6)) for noise in (0.01, 0.05))
    assert noisy > 1.5 * quiet
    assert full(16, 0.05) > full(16, 0.01)
