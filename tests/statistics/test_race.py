"""The standings of a race: the interval, who is out, and when it is decided."""

from __future__ import annotations

from math import exp, inf, isnan, nan, sqrt

import numpy as np
import pytest

from matrix_runner.statistics.race import SPREAD, reach, stand
from matrix_runner.statistics.simulated_race import _stand


def values(*rows: tuple[float, ...]) -> list[dict[int, float]]:
    return [{number: exp(value) for number, value in enumerate(row, 1)} for row in rows]


@pytest.mark.parametrize(("rounds", "error"), [(5, 0.01), (20, 0.05), (200, 0.005)])
def test_the_interval_excludes_what_the_likelihood_ratio_excludes(rounds: int, error: float) -> None:
    t = reach(rounds, rounds - 1, error) * sqrt(rounds)
    wider, free = 1 + rounds * SPREAD, rounds - 1
    ratio = ((1 + t**2 / free) / (1 + t**2 / (free * wider))) ** (rounds / 2) / sqrt(wider)
    assert ratio == pytest.approx(1 / error)


def test_few_rounds_exclude_no_stack() -> None:
    assert reach(1, 0, 0.05) == reach(2, 1, 0.01) == inf
    assert reach(4, 3, 0.01) < inf


def test_a_clear_loser_is_out_and_equal_ones_are_equally_good() -> None:
    noise = (0.0, 0.01, -0.01, 0.005, -0.005, 0.0)
    same = tuple(value / 2 for value in noise)
    found = stand(values(noise, same, tuple(value - 0.5 for value in noise[::-1])), 0.95)
    assert found
    assert set(found.candidates) == {0, 1}
    assert found.is_decided(0.05)
    assert not found.is_decided(1e-6)
    latencies = stand(values(noise, same, tuple(value - 0.5 for value in noise[::-1])), 0.95, lowest=True)
    assert latencies
    assert latencies.candidates == (2,)
    assert latencies.is_decided(0.05)


def test_two_rounds_of_many_places_show_who_is_far_behind() -> None:
    chance = np.random.default_rng(4)
    logs = np.repeat([[0.0], [-0.02], [-0.03], [-0.05], [-0.6]], 2, axis=1) + 0.01 * chance.standard_normal((5, 2))
    found = stand(values(*map(tuple, logs)), 0.95)
    assert found
    assert found.candidates == (0, 1, 2, 3)
    few = stand(values(*map(tuple, logs[[0, 4]])), 0.95)
    assert few
    assert few.candidates == (0, 1), "two places have no scatter but their own"


def test_the_scatter_of_the_others_counts_as_few_rounds() -> None:
    """Many quiet places do not hide for long that one scatters."""
    chance = np.random.default_rng(5)
    logs = 0.01 * chance.standard_normal((20, 12))
    logs[0] = 0.3 * np.tile([1.0, -1.0], 6) - 0.05
    found = stand(values(*map(tuple, logs)), 0.95)
    assert found
    assert 0 in found.candidates


def test_a_noisy_place_does_not_keep_the_quiet_ones_in_the_race() -> None:
    rest = np.tile([0.001, -0.001], 3)
    noisy = 0.5 * np.tile([1.0, -1.0], 3)
    found = stand(values(tuple(rest), tuple(-0.1 - rest[::-1] / 2), tuple(noisy)), 0.95)
    assert found
    assert found.candidates == (0, 2)


def test_drift_common_to_a_round_cancels() -> None:
    drift = (0.0, 0.3, -0.2, 0.6, 0.1)
    found = stand(values(drift, tuple(value - 0.1 + at % 2 / 1000 for at, value in enumerate(drift))), 0.95)
    assert found
    assert found.candidates == (0,)


def test_places_without_values_or_common_rounds_are_not_out() -> None:
    found = stand([{1: 2.0, 2: 2.0}, {}, {3: 1.0}], 0.95)
    assert found
    assert found.candidates == (0, 2)
    assert [found.ahead(place) for place in range(3)] == [None, None, None]
    assert not found.is_decided(0.05)
    assert stand([{}, {}], 0.95) is None


def test_a_race_that_more_rounds_cannot_decide_is_hopeless() -> None:
    chance = np.random.default_rng(1)
    loud = values(*(tuple(row) for row in 3 * chance.standard_normal((2, 90))))
    found = stand(loud, 0.95)
    assert found
    assert found.is_hopeless(0.05, 200)
    quiet = stand(values(*(tuple(row) for row in 0.02 * chance.standard_normal((2, 12)))), 0.95)
    assert quiet
    assert not quiet.is_hopeless(0.05, 200)


def test_equal_places_lose_one_as_rarely_as_stated() -> None:
    chance = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        logs = 0.1 * chance.standard_normal((5, 40))
        lost = False
        for rounds in range(3, 41):
            found = stand(values(*(tuple(row[:rounds]) for row in logs)), 0.95)
            assert found
            lost |= 0 not in found.candidates
        wrong += lost
    assert wrong <= 10


@pytest.mark.parametrize(("rounds", "hopeless"), [(9, False), (10, True)])
def test_a_race_is_given_up_after_ten_rounds_at_the_earliest(rounds: int, hopeless: bool) -> None:
    """Trials that scatter by half cannot show 5 % in 20 rounds."""
    rest = np.random.default_rng(1).normal(0, 0.5, (2, rounds))
    found = stand(values(*map(tuple, rest - rest.mean(axis=1, keepdims=True))), 0.95)
    assert found
    assert found.is_hopeless(0.05, 20) == hopeless


@pytest.mark.parametrize("seed", range(200))
def test_a_simulated_race_stands_as_a_measured_one(seed: int) -> None:
    chance = np.random.default_rng(seed)
    places, rounds = chance.integers(1, 8), chance.integers(1, 12)
    table = 0.1 * chance.standard_normal((places, 1)) + 0.03 * chance.standard_normal((places, rounds))
    table[chance.random(table.shape) < chance.choice([0.0, 0.2, 0.6])] = nan
    table[0, 0] = 0.1
    samples = [{number: exp(value) for number, value in enumerate(row) if not isnan(value)} for row in table.tolist()]
    simulated, measured = _stand(table, 0.95), stand(samples, 0.95)
    assert measured is not None
    assert (simulated.at, simulated.candidates) == (measured.at, measured.candidates)
    for place in range(len(samples)):
        one, other = simulated.ahead(place), measured.ahead(place)
        assert (one is None) == (other is None)
        if one and other:
            assert one[:4] == pytest.approx(other[:4], rel=1e-9)
