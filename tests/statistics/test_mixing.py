from __future__ import annotations

import numpy as np
import pytest

from bench.stated import compares
from matrix_runner.statistics.mixing import Sides, mixture_shares


def share_of(times: int, seed: int, *asked: float, **how: int) -> float:
    chance, happens = np.random.default_rng(seed), compares(*asked, **how)  # type: ignore[arg-type]
    return sum(happens(chance) for _ in range(times)) / times


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_equal_cells_of_two_states_hardly_ever_differ(share: float) -> None:
    """Without the mixtures, some cell differs in 24, 74 and 100 % of runs."""
    assert share_of(30, 1, 200, share) <= 0.1


def test_a_real_difference_of_one_cell_is_still_found() -> None:
    assert share_of(60, 2, 20, 0.0, changed=1) > 0.6


@pytest.mark.parametrize("paired", [False, True])
def test_mixtures_of_other_cells_count_if_they_differ_as_much(paired: bool) -> None:
    clear = Sides([1.0, 1.01, 0.99], [2.0, 2.01, 1.99], paired)
    mixed = Sides([1.0, 2.0, 1.01], [2.01, 1.0, 1.99], paired)
    calm = Sides([1.0, 1.01, 0.99], [1.01, 1.0, 0.99], paired)
    assert mixture_shares([clear, calm], [0.001, 0.9])[0] == 0
    assert mixture_shares([clear, mixed], [0.001, 0.9])[0] > 0.04
    assert mixture_shares([clear, mixed], [0.2, 0.9]) == [0.0, 0.0], "it is not clear anyway"


def test_sides_of_other_lengths_and_empty_ones() -> None:
    one, longer = Sides([1.0, 1.1], [2.0, 2.1, 2.2], paired=False), Sides([1.0] * 9, [2.0] * 9, paired=False)
    assert mixture_shares([one, None, longer, Sides([1.0], [2.0], paired=False)], [0.01, 1.0, 0.01, 1.0]) == [0.0] * 4
