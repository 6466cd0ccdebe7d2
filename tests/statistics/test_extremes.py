from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import studentized_range

from matrix_runner.statistics.extremes import find_extreme, range_factor
from matrix_runner.statistics.ratios import paired_ratio, t_factor
from matrix_runner.statistics.rounds import cell_levels
from tests.support.rounds import noisy, rates, sample


def test_the_highest_stands_alone_where_it_is_clear() -> None:
    found = find_extreme([sample(100, 101, 102), sample(200, 202, 204), sample(150, 151, 153)])
    assert found is not None
    assert (found.at, found.candidates) == (1, (1,))


def test_the_lowest_is_the_highest_of_the_reciprocals() -> None:
    samples = noisy(np.random.default_rng(1), [3.0, 1.0, 1.02, 2.0], 4, 0.02)
    turned = [{round_number: 1 / value for round_number, value in one.items()} for one in samples]
    low, high = find_extreme(samples, lowest=True), find_extreme(turned)
    assert low == high
    assert low is not None
    assert low.candidates == (1, 2)


@given(st.lists(st.lists(rates, min_size=3, max_size=3), min_size=1, max_size=6))
def test_the_highest_is_among_the_candidates(values: list[list[float]]) -> None:
    found = find_extreme([sample(*row) for row in values])
    assert found is not None
    assert found.at in found.candidates
    assert list(found.candidates) == sorted(set(found.candidates))


@given(st.lists(rates, min_size=2, max_size=6))
def test_single_values_exclude_no_candidate(values: list[float]) -> None:
    found = find_extreme([sample(value) for value in values])
    assert found is not None
    assert values[found.at] == pytest.approx(max(values))
    assert found.candidates == tuple(range(len(values)))


def test_levels_are_compared_where_all_were_measured() -> None:
    """The second was measured in good times only; side by side it is the lower one."""
    found = find_extreme([{1: 10.0, 2: 10.1, 3: 5.0}, {1: 9.0, 2: 9.1}])
    assert found is not None
    assert found.at == 0


WORSE = sample(105.0, *(100.0 + at / 10 for at in range(9)))
BETTER = sample(100.0, *(121.0 - at / 10 for at in range(9)))


def test_a_place_that_was_measured_once_does_not_decide_between_the_others() -> None:
    """All three share a single round, an odd one."""
    found, alone = find_extreme([WORSE, BETTER, {1: 90.0}]), find_extreme([WORSE, BETTER])
    assert alone is not None
    assert found is not None
    assert (alone.at, alone.candidates) == (1, (1,))
    assert (found.at, found.candidates) == (1, (1, 2))


@given(
    st.lists(st.dictionaries(st.integers(1, 8), st.floats(50, 200), min_size=2, max_size=8), min_size=2, max_size=4),
    st.booleans(),
)
def test_the_best_is_beaten_only_in_a_cycle(samples: list[dict[int, float]], lowest: bool) -> None:
    """Among three places, each may beat the next: then one of these is told."""
    found = find_extreme(samples, lowest=lowest)
    assert found is not None
    ratios = [paired_ratio(samples[found.at], one) for one in samples]
    beating = [at for at, ratio in enumerate(ratios) if ratio and ratio.p <= 1e-9 and (ratio.ratio > 1) != lowest]
    assert len(samples) > 2 or not beating
    assert set(beating) <= set(found.candidates)


@given(
    st.lists(rates, min_size=2, max_size=5), st.lists(st.sets(st.integers(1, 6), min_size=1), min_size=5, max_size=5)
)
def test_effects_of_rounds_do_not_change_the_order(means: list[float], measured: list[set[int]]) -> None:
    """Whatever was measured when, as long as all have round 1."""
    moods = {round_number: 1 + round_number / 3 for round_number in range(1, 7)}
    samples = [
        {round_number: mean * moods[round_number] for round_number in {1, *rounds}}
        for mean, rounds in zip(means, measured, strict=False)
    ]
    found = cell_levels(samples)
    assert [one - found[0] for one in found] == pytest.approx([log(mean / means[0]) for mean in means], abs=1e-6)


def test_places_without_figures_are_no_candidates() -> None:
    assert find_extreme([]) is None
    assert find_extreme([{}, sample(0.0, 0.0)]) is None
    found = find_extreme([{}, sample(1.0, 1.0)])
    assert found is not None
    assert found.candidates == (1,)


@pytest.mark.parametrize("ahead", [1.0, 1.03, 1.1])
def test_the_truly_highest_is_hardly_ever_ruled_out(ahead: float) -> None:
    chance = np.random.default_rng(4)
    found = [find_extreme(noisy(chance, [ahead, 1.0, 1.0, 0.9], 5, 0.04)) for _ in range(500)]
    assert np.mean([one is not None and 0 in one.candidates for one in found]) >= 0.94


def test_a_single_round_gives_plain_levels_and_rules_out_no_place() -> None:
    samples = [{7: 3.0}, {7: 100.0}, {7: 1.0}]
    assert cell_levels(samples) == [float(np.log(value)) for (value,) in (one.values() for one in samples)]
    found = find_extreme(samples)
    assert found
    assert (found.at, found.candidates) == (1, (0, 1, 2))
    assert cell_levels([{7: 3.0}, {8: 3.0}]) == pytest.approx([log(3.0)] * 2), "the general way, with two rounds"


@pytest.mark.parametrize(("places", "freedom"), [(2, 2), (3, 4), (5, 8), (20, 38), (20, 171)])
def test_the_factor_is_that_of_the_studentised_range(places: int, freedom: int) -> None:
    known = studentized_range.ppf(0.95, places, freedom) / sqrt(2)
    assert range_factor(places, freedom, 0.95) == pytest.approx(known, rel=0.005)


def test_the_factor_of_two_places_is_students() -> None:
    assert range_factor(2, 2, 0.95) == pytest.approx(t_factor(2, 0.95), rel=1e-3)


def ruled_out(means: list[float], rounds: int, noise: list[float] | float) -> list[set[int]]:
    chance = np.random.default_rng(11)
    found = []
    for _ in range(300):
        mood = 0.05 * chance.standard_normal(rounds)
        errors = np.asarray(noise)[..., None] * chance.standard_normal((len(means), rounds))
        one = find_extreme([sample(*row) for row in np.exp(np.log(means)[:, None] + mood + errors)])
        assert one is not None
        found.append(set(range(len(means))) - set(one.candidates))
    return found


@pytest.mark.parametrize(("places", "rounds"), [(5, 3), (20, 3), (20, 5)])
def test_equal_places_are_excluded_at_the_stated_rate(places: int, rounds: int) -> None:
    """By single tests, it is 13 to 25 %. Three standard errors above 5 % are 8.8 %."""
    assert np.mean([bool(one) for one in ruled_out([1.0] * places, rounds, 0.02)]) < 0.07


def test_one_noisy_place_does_not_use_the_small_scatter_of_the_others() -> None:
    assert np.mean([bool(one) for one in ruled_out([1.0] * 20, 5, [0.1] + [0.01] * 19)]) < 0.08


def test_three_rounds_of_five_places_show_six_per_cent() -> None:
    assert np.mean([4 in one for one in ruled_out([1.0] * 4 + [0.94], 3, 0.02)]) > 0.5
