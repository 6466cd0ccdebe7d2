from __future__ import annotations

import subprocess
import sys
from math import exp, inf, log

import numpy as np
import pytest
import scipy  # its parts are imported when they are used
from hypothesis import assume, given
from hypothesis import strategies as st

from matrix_runner.statistics.ratios import (
    EARLY_ALPHA_SHARE,
    Ratio,
    Verdict,
    _correct,
    paired_ratio,
    predicted_ratio,
    ratio_by_history,
    unpaired_ratio,
    verdicts,
)
from matrix_runner.statistics.stopping import Rule, is_precise

RULE = Rule(least=3, most=20, until=0.05)
rates = st.floats(1e-3, 1e12)
samples = st.lists(rates, min_size=2, max_size=20)
rounds = st.dictionaries(st.integers(1, 30), rates, min_size=1, max_size=20)


def of(low: float, high: float, p: float = 0.01, confidence: float = 0.95) -> Ratio:
    return Ratio((low * high) ** 0.5, low, high, 3, 3, confidence, p)


def spread(values: list[float]) -> float:
    return float(np.ptp(np.log(values)))


@given(samples, samples)
def test_unpaired_ratios_use_welchs_test_of_logarithms(a: list[float], b: list[float]) -> None:
    assume(spread(a) > 1e-3 and spread(b) > 1e-3)
    ours, theirs = unpaired_ratio(a, b, 0.9), scipy.stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    bounds = theirs.confidence_interval(0.9)
    assert ours is not None
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-9)
    assert log(ours.low) == pytest.approx(bounds.low, rel=1e-6, abs=1e-9)
    assert log(ours.high) == pytest.approx(bounds.high, rel=1e-6, abs=1e-9)
    assert (ours.n_a, ours.n_b, ours.confidence, ours.paired) == (len(a), len(b), 0.9, False)


@given(st.lists(st.tuples(rates, rates), min_size=2, max_size=20))
def test_paired_ratios_use_the_paired_test_of_logarithms(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    assume(spread([two / one for one, two in pairs]) > 1e-3)
    ours = paired_ratio(dict(enumerate(a)), dict(enumerate(b)))
    theirs = scipy.stats.ttest_rel(np.log(b), np.log(a))
    assert ours is not None
    assert ours.paired
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-9)
    assert log(ours.low) == pytest.approx(theirs.confidence_interval().low, rel=1e-6, abs=1e-9)


@given(st.lists(st.tuples(rates, rates), min_size=2, max_size=20))
def test_samples_that_stopped_early_are_paired_in_order_with_some_reserve(pairs: list[tuple[float, float]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    assume(spread([two / one for one, two in pairs]) > 1e-3)
    ours, theirs = unpaired_ratio(a, b, 0.9, early=True), scipy.stats.ttest_rel(np.log(b), np.log(a))
    assert ours is not None
    assert ours.p == pytest.approx(min(1, theirs.pvalue / EARLY_ALPHA_SHARE), rel=1e-6, abs=1e-9)
    bounds = theirs.confidence_interval(1 - EARLY_ALPHA_SHARE * 0.1)
    assert np.log([ours.low, ours.high]) == pytest.approx(list(bounds), rel=1e-6, abs=1e-9)


@given(samples, samples)
def test_early_stopped_samples_count_all_values(a: list[float], b: list[float]) -> None:
    ours, plain = unpaired_ratio(a, b, early=True), unpaired_ratio(a, b)
    back = unpaired_ratio(b, a, early=True)
    assert ours is not None
    assert plain is not None
    assert back is not None
    assert (ours.ratio, ours.n_a, ours.n_b) == (plain.ratio, plain.n_a, plain.n_b)
    assert ours.ratio * back.ratio == pytest.approx(1)
    assert ours.p == pytest.approx(back.p, rel=1e-6, abs=1e-12)


def test_scheffes_example_by_hand() -> None:
    # logarithms 0, 2 against 0, 1, 2, 5; scaled by 1/√2 the differences are 0 and 2 - 1/√2
    found = unpaired_ratio([1.0, exp(2)], [1.0, exp(1), exp(2), exp(5)], early=True)
    assert found is not None
    assert log(found.ratio) == pytest.approx(1)
    error = (2 - 2**-0.5) / 2
    assert found.p == pytest.approx(min(1, 2 * scipy.stats.t.sf(1 / error, 1) / EARLY_ALPHA_SHARE))


def measured_until_known(chance: np.random.Generator, noise: float) -> list[float]:
    values: list[float] = []
    while len(values) < RULE.most and not is_precise(values, RULE):
        values.append(float(np.exp(noise * chance.standard_normal())))
    return values


def test_stopping_early_biases_no_ratio_and_raises_no_more_alarms_than_stated() -> None:
    chance = np.random.default_rng(13)
    pairs = [[measured_until_known(chance, 0.05) for _ in range(2)] for _ in range(2000)]
    across = [unpaired_ratio(a, b, early=True) for a, b in pairs]
    within = [paired_ratio(dict(enumerate(a)), dict(enumerate(b))) for a, b in pairs]
    for found in (across, within):
        assert np.mean([log(one.ratio) for one in found if one]) == pytest.approx(0, abs=0.0025)
        assert 0.03 <= np.mean([one.p <= 0.05 for one in found if one]) <= 0.065
    welch = [unpaired_ratio(a, b) for a, b in pairs]
    assert np.mean([one.p <= 0.05 for one in welch if one]) > 0.09  # why there is another test for these


@given(rounds, rounds)
def test_only_shared_rounds_are_paired(a: dict[int, float], b: dict[int, float]) -> None:
    shared = a.keys() & b.keys()
    found = paired_ratio(a, b)
    assert (found.n_a if found else 0) == len(shared)
    assert found == paired_ratio({round_number: a[round_number] for round_number in shared}, b)


@given(samples, samples)
def test_the_other_way_round_is_the_reciprocal(a: list[float], b: list[float]) -> None:
    one, other = unpaired_ratio(a, b), unpaired_ratio(b, a)
    assert one is not None
    assert other is not None
    assert one.ratio * other.ratio == pytest.approx(1)
    assert one.p == pytest.approx(other.p, rel=1e-6, abs=1e-12)
    if one.low > 0 and one.high < inf:
        assert one.low * other.high == pytest.approx(1)
    assert one.low <= one.ratio <= one.high


@given(rounds, st.floats(1e-3, 1e3), st.dictionaries(st.integers(1, 30), st.floats(0.5, 2), min_size=30))
def test_effects_of_rounds_cancel_in_pairs(a: dict[int, float], factor: float, mood: dict[int, float]) -> None:
    b = {round_number: value * factor for round_number, value in a.items()}
    moody = paired_ratio(
        {round_number: value * mood[round_number] for round_number, value in a.items()},
        {round_number: value * mood[round_number] for round_number, value in b.items()},
    )
    assert moody is not None
    assert moody.ratio == pytest.approx(factor, rel=1e-9)
    if len(a) > 1:
        assert [moody.low, moody.high] == pytest.approx([factor, factor])


def test_a_single_value_has_no_interval() -> None:
    assert unpaired_ratio([100.0], [200.0, 200.0]) == Ratio(pytest.approx(2.0), 0.0, inf, 1, 2, 0.95, 1.0)  # type: ignore[arg-type]
    assert paired_ratio({1: 100.0}, {1: 200.0, 2: 210.0}) == Ratio(2.0, 0.0, inf, 1, 1, 0.95, 1.0, paired=True)


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [-1.0, 1.0], [inf, 1.0], [float("nan"), 1.0]])
def test_samples_without_a_ratio(bad: list[float]) -> None:
    assert unpaired_ratio(bad, [1.0, 2.0]) is None
    assert unpaired_ratio([1.0, 2.0], bad) is None
    assert paired_ratio(dict(enumerate(bad)), {0: 1.0, 1: 2.0}) is None
    assert paired_ratio({0: 1.0, 1: 2.0}, dict(enumerate(bad))) is None


def test_without_any_noise_there_is_no_doubt() -> None:
    same, more = unpaired_ratio([5.0, 5.0], [5.0, 5.0]), unpaired_ratio([5.0, 5.0], [6.0, 6.0])
    assert same is not None
    assert more is not None
    assert (same.low, same.high, same.p) == (1.0, 1.0, 1.0)
    assert (more.low, more.high, more.p) == (more.ratio, more.ratio, 0.0)
    assert verdicts([same, more], 0.05) == [Verdict.SAME, Verdict.MORE]


def test_bounds_beyond_what_a_float_holds() -> None:
    found = unpaired_ratio([1e-300, 1e300], [1e-300, 1e300])
    assert found is not None
    assert (found.low, found.high) == (0.0, inf)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (of(0.97, 1.04), Verdict.SAME),  # it differs for sure, and by nothing that matters
        (of(1 / 1.05, 1.05), Verdict.SAME),
        (of(1.01, 1.06), Verdict.MORE),
        (of(0.80, 0.99), Verdict.LESS),
        (of(0.90, 1.04, p=0.4), Verdict.UNKNOWN),
        (of(0.5, 2, p=0.9), Verdict.UNKNOWN),
        (of(0.0, inf, p=1.0), Verdict.UNKNOWN),
        (None, Verdict.UNKNOWN),
    ],
)
def test_verdicts_follow_the_interval(ratio: Ratio | None, said: Verdict) -> None:
    assert verdicts([ratio], 0.05) == [said]


def test_one_low_p_among_many_is_not_significant() -> None:
    surprise, dull = of(1.01, 1.2, p=0.04), of(0.8, 1.2, p=0.5)
    assert verdicts([surprise], 0.05) == [Verdict.MORE]
    assert verdicts([surprise, *[dull] * 20], 0.05)[0] is Verdict.UNKNOWN
    assert verdicts([surprise] * 20, 0.05) == [Verdict.MORE] * 20


def test_without_low_p_no_correction_is_imported() -> None:
    script = (
        "import sys; from matrix_runner.statistics.ratios import unpaired_ratio, verdicts;"
        "verdicts([unpaired_ratio([1., 2.], [1., 2.1])] * 3, .05); sys.exit('scipy.stats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@given(st.lists(st.tuples(st.floats(0.3, 3), st.floats(0, 1)), min_size=1, max_size=30))
def test_a_corrected_verdict_is_never_stronger(found: list[tuple[float, float]]) -> None:
    ratios = [of(ratio / 1.2, ratio * 1.2, p) for ratio, p in found]
    for together, alone in zip(verdicts(ratios, 0.05), (verdicts([one], 0.05)[0] for one in ratios), strict=True):
        assert together in {alone, Verdict.UNKNOWN}


def test_identical_systems_raise_no_more_alarms_than_declared() -> None:
    chance = np.random.default_rng(11)
    alarmed = 0
    for _ in range(200):
        runs = np.exp(0.05 * chance.standard_normal((2, 20, 5)))
        said = verdicts([unpaired_ratio(list(a), list(b)) for a, b in zip(*runs, strict=True)], 0.02)
        alarmed += any(verdict in {Verdict.MORE, Verdict.LESS} for verdict in said)
    assert 1 <= alarmed <= 16  # 5 % of 200, with what chance makes of that


def test_differences_are_found() -> None:
    chance = np.random.default_rng(12)
    a, b = (np.exp(0.03 * chance.standard_normal((20, 6))) for _ in range(2))
    ratios = [unpaired_ratio(list(one), list(two * exp(0.2))) for one, two in zip(a, b, strict=True)]
    assert verdicts(ratios, 0.02).count(Verdict.MORE) >= 19


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_the_correction_is_that_of_scipy(chances: list[float]) -> None:
    assert _correct(chances) == pytest.approx(list(scipy.stats.false_discovery_control(chances)), rel=1e-12, abs=1e-300)


@given(st.lists(rates, min_size=2, max_size=20), rates)
def test_a_single_run_is_held_against_a_prediction_interval(means: list[float], single: float) -> None:
    assume(spread(means) > 1e-3)
    logs = np.log(means)
    found = predicted_ratio([[mean] for mean in means], [[single]], 0.9)
    other = predicted_ratio([[single]], [[mean] for mean in means], 0.9)
    assert found is not None
    assert other is not None
    error = np.std(logs, ddof=1) * np.sqrt(1 + 1 / len(means))
    half = scipy.stats.t.ppf(0.95, len(means) - 1) * error
    assert log(found.high / found.low) == pytest.approx(2 * half, rel=1e-6)
    assert found.ratio == pytest.approx(single / np.exp(logs.mean()))
    assert found.ratio * other.ratio == pytest.approx(1)
    assert found.p == pytest.approx(other.p)


def test_effects_of_runs_raise_alarms_at_the_stated_rate() -> None:
    """One run against six, of which each has a mood of its own; the single one is of fewer trials."""
    chance = np.random.default_rng(14)
    alarmed = 0
    for _ in range(1000):
        several = [list(np.exp(0.05 * chance.standard_normal() + 0.03 * chance.standard_normal(10))) for _ in range(6)]
        single = list(np.exp(0.05 * chance.standard_normal() + 0.03 * chance.standard_normal(3)))
        found = predicted_ratio(several, [single])
        assert found is not None
        alarmed += found.p <= 0.05
    assert alarmed <= 65


def test_predictions_need_two_runs() -> None:
    assert predicted_ratio([[1.0, 1.1]], [[2.0, 2.2]]) == Ratio(pytest.approx(2.0), 0.0, inf, 1, 1, 0.95, 1.0)  # type: ignore[arg-type]
    assert predicted_ratio([[1.0]], []) is None
    assert predicted_ratio([[1.0], [0.0]], [[1.0]]) is None


groups_of_runs = st.lists(st.lists(rates, min_size=2, max_size=8), min_size=1, max_size=2)


@given(rates, rates, groups_of_runs)
def test_two_runs_are_held_against_the_pooled_spread_of_earlier_ones(
    a: float, b: float, means: list[list[float]]
) -> None:
    count, freedom = sum(map(len, means)), sum(len(group) - 1 for group in means)
    assume(freedom > 1)
    assume(max(spread(group) for group in means) > 1e-3)
    found = ratio_by_history([a], [b], [[[mean] for mean in group] for group in means], 0.9)
    other = ratio_by_history([b], [a], [[[mean] for mean in group] for group in means], 0.9)
    assert found is not None
    assert other is not None
    pooled = np.sqrt(sum(np.var(np.log(group), ddof=1) * (len(group) - 1) for group in means) / freedom)
    half = min(scipy.stats.t.ppf(0.95, freedom) * pooled * np.sqrt(2), 700)
    assert log(found.high / found.ratio) == pytest.approx(half, rel=1e-6)
    assert found.ratio * other.ratio == pytest.approx(1)
    assert found.p == pytest.approx(other.p)
    assert (found.foreseen, found.paired) == (count, False)


@given(st.lists(rates, min_size=3, max_size=8), st.floats(1e-3, 1e3), samples, samples)
def test_at_what_level_earlier_runs_were_is_of_no_matter(
    means: list[float], times: float, a: list[float], b: list[float]
) -> None:
    assume(spread(means) > 1e-3)
    one, other = (ratio_by_history(a, b, [[[mean * scale] for mean in means]]) for scale in (1.0, times))
    assert one is not None
    assert other is not None
    assert one.p == pytest.approx(other.p, rel=1e-4, abs=1e-9)


def test_a_run_of_fewer_trials_than_the_earlier_ones_is_known_less_well() -> None:
    history = [[[100.0, 110.0, 90.0], [105.0, 95.0, 101.0], [99.0, 88.0, 104.0]]]
    full, short = (
        ratio_by_history([100.0, 108.0, 92.0], values, history) for values in ([100.0, 108.0, 92.0], [100.0])
    )
    assert full is not None
    assert short is not None
    assert short.high / short.ratio > full.high / full.ratio


@pytest.mark.parametrize(
    ("history", "enough"),
    [
        ([], False),
        ([[[1.0]]], False),
        ([[[1.0], [1.1]]], False),
        ([[[1.0]], [[1.1]], [[1.2]]], False),
        ([[[1.0], [0.0], [1.1]]], False),
        ([[[1.0], [1.1], [1.2]]], True),
        ([[[1.0], [1.1]], [[2.0], [2.2]]], True),
    ],
)
def test_a_comparison_by_history_needs_enough_runs(history: list[list[list[float]]], enough: bool) -> None:
    assert (ratio_by_history([1.0], [1.1], history) is not None) is enough
    assert ratio_by_history([], [1.1], history) is None


def test_null_comparisons_of_single_runs_raise_no_more_alarms_than_declared() -> None:
    """Runs that lie 5 % apart as a whole, held against six earlier ones; without those, nearly all of them alarm."""
    chance = np.random.default_rng(15)

    def run(count: int) -> list[float]:
        return list(np.exp(0.05 * chance.standard_normal() + 0.02 * chance.standard_normal(count)))

    alarmed, naive = 0, 0
    for _ in range(1000):
        a, b = run(5), run(3)
        found, welch = ratio_by_history(a, b, [[run(5) for _ in range(6)]]), unpaired_ratio(a, b)
        assert found is not None
        assert welch is not None
        alarmed += found.p <= 0.05
        naive += welch.p <= 0.05
    assert alarmed <= 65
    assert naive > 400
