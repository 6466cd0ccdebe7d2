from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner.statistics.changes import cell_levels, find_extreme, scaling_exponent
from runner.statistics.ratios import paired_ratio, student_interval

rates = st.floats(1e-3, 1e9)
moods = st.lists(st.floats(0.5, 2), min_size=3, max_size=8)


def sample(*values: float) -> dict[int, float]:
    return dict(enumerate(values, start=1))


def noisy(chance: np.random.Generator, means: list[float], rounds: int, noise: float) -> list[dict[int, float]]:
    mood = 0.05 * chance.standard_normal(rounds)
    values = np.exp(np.log(means)[:, None] + mood + noise * chance.standard_normal((len(means), rounds)))
    return [sample(*row) for row in values]


@given(st.lists(st.floats(0.1, 1000), min_size=2, max_size=6, unique=True), st.floats(-3, 3), moods)
def test_a_power_is_found_whatever_rounds_do(places: list[float], power: float, mood: list[float]) -> None:
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
def test_what_has_no_power(places: list[float], samples: list[dict[int, float]]) -> None:
    assert scaling_exponent(places, samples) is None


def test_powers_are_covered() -> None:
    chance = np.random.default_rng(3)
    places = [1.0, 2.0, 4.0]
    found = [scaling_exponent(places, noisy(chance, [1.0, 1.5, 2.25], 5, 0.05)) for _ in range(1000)]
    true = log(1.5) / log(2)
    assert 0.93 <= np.mean([one is not None and one.low <= true <= one.high for one in found]) <= 0.97


def test_the_highest_stands_alone_where_it_is_clear() -> None:
    found = find_extreme([sample(100, 101, 102), sample(200, 202, 204), sample(150, 151, 153)])
    assert found is not None
    assert (found.at, found.candidates, found.confidence) == (1, (1,), 0.95)


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
def test_of_single_values_nothing_is_ruled_out(values: list[float]) -> None:
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


def test_what_surely_beats_the_best_looking_one_side_by_side_is_taken_for_it() -> None:
    """The first looks best by what the third is to both; the second is more wherever both were measured."""
    first = {**sample(100, 100, 100), 4: 200.0, 5: 200.0, 6: 200.0, 7: 200.0}
    second = {**sample(101, 101.01, 100.99), 8: 50.0, 9: 200.0, 10: 100.0, 11: 100.0}
    third = {**dict.fromkeys(range(4, 8), 100.0), 8: 100.0, 9: 100.0, 10: 150.0, 11: 90.0}
    assert int(np.argmax(cell_levels([first, second, third]))) == 0
    found = find_extreme([first, second, third])
    assert found is not None
    assert found.at == 1
    assert 0 not in found.candidates


@given(
    st.lists(st.dictionaries(st.integers(1, 8), st.floats(50, 200), min_size=2, max_size=8), min_size=2, max_size=4),
    st.booleans(),
)
def test_what_is_best_is_not_beaten_unless_by_what_it_leads_to(samples: list[dict[int, float]], lowest: bool) -> None:
    """Among three places, each may beat the next: then one of these is told."""
    found = find_extreme(samples, lowest=lowest)
    assert found is not None
    limit = 0.05 / (len(samples) - 1)
    ratios = [paired_ratio(samples[found.at], one) for one in samples]
    beating = [at for at, ratio in enumerate(ratios) if ratio and ratio.p / 2 <= limit and (ratio.ratio > 1) != lowest]
    assert len(samples) > 2 or not beating
    assert set(beating) <= set(found.candidates)


@given(
    st.lists(rates, min_size=2, max_size=5), st.lists(st.sets(st.integers(1, 6), min_size=1), min_size=5, max_size=5)
)
def test_what_rounds_do_makes_no_level(means: list[float], measured: list[set[int]]) -> None:
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
