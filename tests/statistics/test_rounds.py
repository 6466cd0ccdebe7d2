from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.statistics.rounds import cell_levels, correlation_of_rounds, residuals, round_effects

#: Values by round; cells may lack rounds, and have none in common with others.
samples = st.lists(
    st.dictionaries(st.integers(1, 12), st.floats(-3, 3).map(math.exp), min_size=1), min_size=1, max_size=12
)


def shortest(logs: list[dict[int, float]]) -> dict[int, float]:
    """The effects of rounds by a singular value decomposition of all equations."""
    rounds = sorted(set().union(*logs))
    rows = [(cell, rounds.index(number), value) for cell, one in enumerate(logs) for number, value in one.items()]
    design = np.zeros((len(rows), len(rounds)))
    values = np.zeros(len(rows))
    for row, (cell, at, value) in enumerate(rows):
        design[row, at] = 1
        values[row] = value - np.mean([*logs[cell].values()])
        for number in logs[cell]:
            design[row, rounds.index(number)] -= 1 / len(logs[cell])
    found = np.linalg.lstsq(design, values, rcond=1e-9)[0]
    return dict(zip(rounds, found.tolist(), strict=True))


@given(samples)
def test_effects_of_rounds_are_the_shortest_least_squares(some: list[dict[int, float]]) -> None:
    logs = [{number: math.log(value) for number, value in one.items()} for one in some]
    assert round_effects(logs) == pytest.approx(shortest(logs), abs=1e-9)


def test_equal_values_have_no_effect_of_a_round() -> None:
    """Their differences from the mean are rounding errors, which must not be taken for effects."""
    logs = [{number: math.log(1e9 + 1) for number in range(rounds)} for rounds in (3, 7, 7, 11)]
    assert max(map(abs, round_effects(logs).values())) < 1e-12
    assert cell_levels([{1: 5.0, 2: 5.0}, {2: 5.0}]) == pytest.approx([math.log(5)] * 2)


def test_many_rounds_of_few_cells_and_of_chains_of_cells() -> None:
    chance = np.random.default_rng(1)
    chain = [{at: float(chance.uniform(1, 9)), at + 1: float(chance.uniform(1, 9))} for at in range(60)]
    logs = [{number: math.log(value) for number, value in one.items()} for one in chain]
    assert round_effects(logs) == pytest.approx(shortest(logs), abs=1e-9)


def test_residuals_are_those_of_the_model_of_cells_and_rounds() -> None:
    squares, freedom = residuals([{1: 1.0, 2: math.e}, {1: 1.0, 2: 1.0}])
    assert squares == pytest.approx(0.25)
    assert freedom == 1
    assert residuals([{1: 2.0}, {1: 3.0}]) == (0.0, 0)


def test_correlated_rounds_are_found_and_independent_ones_are_not() -> None:
    chance = np.random.default_rng(3)
    independent = [np.exp(chance.standard_normal(12) / 100).tolist() for _ in range(30)]
    assert correlation_of_rounds(independent) is None
    correlated = [np.exp(np.cumsum(chance.standard_normal(12)) / 100).tolist() for _ in range(30)]
    assert (correlation_of_rounds(correlated) or 0.0) > 0.3
    assert correlation_of_rounds([[5.0] * 12] * 3) is None
