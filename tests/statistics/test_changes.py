from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy  # its parts are imported when they are used
from hypothesis import given
from hypothesis import strategies as st

from bench.guidelines import correlated
from matrix_runner.statistics.changes import (
    FEW_ORDERS,
    ORDERS,
    PERHAPS,
    Change,
    History,
    _chance,
    _clearest,
    _clip,
    _orders,
    _steps,
    read_history,
)
from matrix_runner.statistics.correlated_changes import LEAST_NIGHTS, has_clear_change
from matrix_runner.statistics.ratios import unpaired_ratio
from matrix_runner.statistics.rounds import drift

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

levels = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=6)


def find_changes(nights: Sequence[float], alarms: float = 0.01) -> list[Change]:
    return list(read_history(nights, alarms=alarms).changes)


def table(chance: np.random.Generator, cells: int, rounds: int, trend: float = 0.0) -> list[dict[int, float]]:
    """Cells of 3 % noise in rounds that differ by 1 %, and by a trend."""
    mood = trend * np.arange(rounds) + 0.01 * chance.standard_normal(rounds)
    logs = chance.uniform(0, 10, (cells, 1)) + mood + 0.03 * chance.standard_normal((cells, rounds))
    return [dict(enumerate(map(float, row), start=1)) for row in np.exp(logs)]


@given(levels, st.floats(0.9, 1.1), st.lists(st.integers(3, 10), min_size=6, max_size=6))
def test_a_steady_drift_is_found_also_where_cells_stop_at_different_times(
    means: list[float], step: float, counts: list[int]
) -> None:
    samples = [
        {round_number: mean * step**round_number for round_number in range(1, count + 1)}
        for mean, count in zip(means, counts, strict=False)
    ]
    found = drift(samples)
    assert found is not None
    last = max(len(one) for one in samples)
    assert found.change == pytest.approx(step ** (last - 1), rel=1e-6)
    assert found.low <= found.change * (1 + 1e-9)
    assert found.high >= found.change * (1 - 1e-9)


def test_the_drift_of_one_cell_is_its_regression_line() -> None:
    values = [100.0, 104.0, 103.0, 109.0]
    found, line = drift([dict(enumerate(values))], 0.9), scipy.stats.linregress(range(4), np.log(values))
    assert found is not None
    half = scipy.stats.t.ppf(0.95, 2) * line.stderr
    assert np.log([found.change, found.low, found.high]) == pytest.approx(
        [3 * line.slope, 3 * (line.slope - half), 3 * (line.slope + half)]
    )
    assert found.p == pytest.approx(line.pvalue)


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [{1: 5.0, 2: 6.0}],
        [{1: 5.0}, {2: 5.0}, {3: 5.0}],
        [{1: 0.0, 2: 1.0, 3: 1.0}],
    ],
)
def test_samples_without_a_visible_drift(samples: list[dict[int, float]]) -> None:
    assert drift(samples) is None


def test_an_effect_of_one_round_counts_once_for_all_cells() -> None:
    chance = np.random.default_rng(1)
    alarms = [(found := drift(table(chance, 50, 6))) is not None and found.p <= 0.05 for _ in range(400)]
    assert 0.02 <= np.mean(alarms) <= 0.08


def test_the_size_of_a_drift_is_covered() -> None:
    chance = np.random.default_rng(2)
    found = [drift(table(chance, 10, 8, trend=-0.02)) for _ in range(400)]
    true = np.exp(-0.14)
    assert 0.92 <= np.mean([one is not None and one.low <= true <= one.high for one in found]) <= 0.98
    assert np.mean([one is not None and one.p <= 0.05 for one in found]) > 0.9


def history(chance: np.random.Generator, nights: int, *steps: tuple[int, float], noise: float = 0.03) -> list[float]:
    logs = noise * chance.standard_normal(nights)
    for at, step in steps:
        logs[at:] += np.log(step)
    return [float(value) for value in 100 * np.exp(logs)]


def test_a_step_is_found_where_it_is() -> None:
    nights = history(np.random.default_rng(1), 40, (25, 0.75))
    (found,) = find_changes(nights)
    assert found.at == 25
    assert found.ratio == unpaired_ratio(nights[:25], nights[25:])
    assert found.p <= 0.01


def test_each_step_is_compared_with_the_level_before() -> None:
    found = find_changes(history(np.random.default_rng(2), 60, (20, 0.8), (45, 1.25)))
    assert [one.at for one in found] == [20, 45]
    assert [one.ratio.ratio for one in found] == pytest.approx([0.8, 1.25], rel=0.03)
    assert [(one.ratio.n_a, one.ratio.n_b) for one in found] == [(20, 25), (25, 15)]


@pytest.mark.parametrize("alarms", [0.01, 0.05])
def test_noise_raises_no_more_alarms_than_were_allowed(alarms: float) -> None:
    chance = np.random.default_rng(3)
    heavy = [100 * np.exp(0.05 * chance.standard_t(3, 25)) for _ in range(200)]
    found = [find_changes(list(nights), alarms) for nights in heavy]
    assert np.mean([any(one.certain for one in changes) for changes in found]) <= alarms + 0.03
    assert np.mean([bool(changes) for changes in found]) <= PERHAPS * alarms + 0.03


def test_one_bad_night_is_no_change() -> None:
    nights = history(np.random.default_rng(4), 30)
    nights[17] /= 3
    assert find_changes(nights) == []


@given(st.lists(st.floats(1, 1e6), max_size=2 * LEAST_NIGHTS - 1))
def test_a_short_history_has_no_changes(nights: list[float]) -> None:
    assert find_changes(nights) == []


@given(st.floats(1e-3, 1e9), st.integers(0, 40))
def test_equal_nights_have_no_change(value: float, nights: int) -> None:
    assert find_changes([value] * nights) == []


def test_changes_do_not_depend_on_the_unit() -> None:
    nights = history(np.random.default_rng(5), 30, (15, 0.95))
    (found,), (scaled,) = find_changes(nights), find_changes([night * 7 for night in nights])
    assert [found] == find_changes(tuple(nights))
    assert (scaled.at, scaled.p) == (found.at, found.p)
    assert scaled.ratio.ratio == pytest.approx(found.ratio.ratio)


def test_equal_rounds_have_no_drift() -> None:
    found = drift([{1: 5.0, 2: 5.0, 3: 5.0}, {1: 7.1, 2: 7.1}])
    assert found is not None
    assert (found.change, found.low, found.high, found.p) == (1, 1, 1, 1)


def test_unrelated_rounds_have_infinite_bounds() -> None:
    found = drift([{1: 1e-300, 2: 1e300, 3: 1e-300, 4: 1e250}])
    assert found is not None
    assert found.high == math.inf


@pytest.mark.parametrize("step", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("nights", [8, 30, 120])
def test_the_chance_of_a_step_is_that_of_scipys_permutation_test(nights: int, step: float) -> None:
    logs = np.random.default_rng(nights).standard_normal(nights) + step * (np.arange(nights) >= nights // 2)
    places = np.arange(LEAST_NIGHTS, nights - LEAST_NIGHTS + 1)

    def clearest(one: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        sums = np.cumsum(one - one.mean(axis=axis, keepdims=True), axis=axis)
        found: NDArray[np.float64] = (np.take(sums, places - 1, axis) ** 2 / (places * (nights - places))).max(
            axis=axis
        )
        return found

    theirs = scipy.stats.permutation_test(
        (logs,),
        clearest,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=ORDERS,
        alternative="greater",
        rng=7,
    ).pvalue
    ours, _ = _chance([_steps(_orders(logs, ORDERS, 1))[0]], [1.0])
    assert ours == pytest.approx(theirs, abs=4 * math.sqrt(2 * theirs * (1 - theirs) / ORDERS) + 1 / ORDERS)


@pytest.mark.parametrize(("nights", "begin", "end"), [(45, 20, 25), (50, 20, 30), (33, 30, 33), (32, 30, 32)], ids=str)
def test_a_lower_level_of_some_nights_is_found_at_both_ends(nights: int, begin: int, end: int) -> None:
    """6 % lower in noise of 1 %: also where only two nights are that new."""
    values = history(np.random.default_rng(6), nights, (begin, 0.94), (end, 1 / 0.94), noise=0.01)
    assert [one.at for one in find_changes(values)] == [at for at in (begin, end) if at < nights]


def test_two_old_nights_are_outliers() -> None:
    values = history(np.random.default_rng(6), 32, (14, 0.9), (16, 1 / 0.9), noise=0.01)
    assert find_changes(values) == []


def test_three_searches_together_raise_no_more_alarms_than_one() -> None:
    chance = np.random.default_rng(8)
    found = [_clearest(chance.standard_normal(40), FEW_ORDERS, seed, newest=True)[0] for seed in range(400)]
    assert scipy.stats.kstest(found, "uniform").pvalue > 0.01


def repeated(times: int, draw: Callable[[np.random.Generator], NDArray[np.float64]], **how: Any) -> list[History]:
    chance = np.random.default_rng(12)
    return [read_history(np.exp(draw(chance)).tolist(), **how) for _ in range(times)]


def share(found: list[History], what: Callable[[History], object]) -> float:
    return sum(bool(what(one)) for one in found) / len(found)


def certain(one: History) -> bool:
    return any(change.certain for change in one.changes)


def noise(chance: np.random.Generator, nights: int = 40) -> NDArray[np.float64]:
    return 0.02 * chance.standard_normal(nights)


@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_correlated_nights_hardly_ever_make_a_certain_step(correlation: float) -> None:
    """Against random orders alone, 11 and 66 % of such histories have a step."""
    found = repeated(60, lambda chance: 0.02 * correlated(chance, 40, correlation))
    assert share(found, certain) <= 0.05
    assert share(found, lambda one: one.changes) > share(found, certain)


@pytest.mark.parametrize("nights", [12, 40, 80])
def test_one_percent_of_nights_of_each_correlation_have_a_clear_change(nights: int) -> None:
    chance = np.random.default_rng(13)
    for correlation in (0.0, 0.3, 0.6, 0.8):
        rows = np.array([correlated(chance, nights, correlation) for _ in range(400)])
        assert np.mean([has_clear_change(row) for row in rows]) <= 0.025
        rows[:, nights // 2 :] -= 4
        if nights >= 40 and correlation < 0.5:
            assert np.mean([has_clear_change(row) for row in rows]) > 0.8


def test_a_change_in_a_part_is_certain_only_if_that_which_made_the_part_is() -> None:
    """Otherwise, each part of correlated nights has another 1 %."""
    found = repeated(80, lambda chance: 0.02 * correlated(chance, 40, 0.8))
    assert share(found, certain) <= 0.04


def test_correlated_nights_are_named() -> None:
    found = repeated(30, lambda chance: 0.02 * correlated(chance, 60, 0.6))
    assert share(found, lambda one: one.correlation) > 0.5


def test_slow_weekends_are_no_steps_and_do_not_hide_one() -> None:
    weekdays = [night % 7 for night in range(56)]
    weekend = np.array([math.log(0.96) if day >= 5 else 0.0 for day in weekdays])
    step = np.log(0.94) * (np.arange(56) >= 30)
    calm = repeated(30, lambda chance: noise(chance, 56) + weekend, weekdays=weekdays)
    stepped = repeated(30, lambda chance: noise(chance, 56) + weekend + step, weekdays=weekdays)
    assert share(calm, lambda one: one.changes) <= 0.1
    assert share(calm, lambda one: one.weekly) > 0.9
    assert share(stepped, certain) > 0.9


def test_weekdays_count_from_four_weeks_on() -> None:
    weekdays = [night % 7 for night in range(27)]
    weekend = np.array([math.log(0.8) if day >= 5 else 0.0 for day in weekdays])
    assert not any(one.weekly for one in repeated(5, lambda chance: noise(chance, 27) + weekend, weekdays=weekdays))


def test_one_bad_night_does_not_hide_a_step() -> None:
    bad = np.log(0.7) * (np.arange(40) == 8) + np.log(0.94) * (np.arange(40) >= 20)
    found = repeated(30, lambda chance: noise(chance) + bad)
    assert share(found, lambda one: one.changes) > 0.9
    assert share(found, certain) > 0.7


def test_a_drift_is_no_step_and_a_step_is_no_drift() -> None:
    drifts = repeated(30, lambda chance: noise(chance, 60) + np.linspace(0, math.log(0.9), 60))
    steps = repeated(30, lambda chance: noise(chance, 60) + np.log(0.94) * (np.arange(60) >= 30))
    assert share(drifts, lambda one: one.trend) > 0.85
    assert share(steps, lambda one: one.trend) < 0.1
    assert all(one.trend == pytest.approx(0.9, abs=0.05) for one in drifts if one.trend)


@pytest.mark.parametrize("factor", [0.7, 0.9])
def test_one_newest_night_is_no_step(factor: float) -> None:
    found = repeated(100, lambda chance: noise(chance) + np.log(factor) * (np.arange(40) == 39))
    assert share(found, certain) <= 0.01


@pytest.mark.parametrize(
    ("before", "newest", "counts_as"), [((-0.02, -0.03), -0.06, -0.03), ((-0.02, -0.03), -0.01, -0.01)]
)
def test_the_newest_night_counts_at_most_as_one_of_the_two_before(
    before: tuple[float, float], newest: float, counts_as: float
) -> None:
    """Without that, 2 % of histories whose newest night is 10 % slower have a certain step."""
    logs = np.array([*np.tile([-0.01, 0.01, 0.0], 13), *before, newest])
    clipped, _ = _clip(logs)
    assert clipped[-1] == pytest.approx(counts_as)


def test_a_newest_night_that_is_far_off_is_named() -> None:
    far = np.log(0.8) * (np.arange(40) == 39)
    found = repeated(30, lambda chance: noise(chance) + far)
    assert all(one.newest == pytest.approx(0.8, abs=0.08) for one in found)
    assert share(repeated(60, noise), lambda one: one.newest) <= 0.04
