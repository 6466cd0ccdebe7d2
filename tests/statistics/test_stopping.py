from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from matrix_runner.statistics.ratios import student_interval
from matrix_runner.statistics.stopping import (
    FIRST_LOOK_SHARE,
    Rule,
    StopReason,
    interval_of,
    is_precise,
    relative_error,
    stop_reason,
)

RULE = Rule(least=3, most=20, until=0.05)
FIXED = Rule(least=5, most=5)
STEERED = replace(FIXED, over=True, steered=True)
rates = st.lists(st.floats(1, 1e9), max_size=20)
rules = st.builds(
    Rule, st.integers(1, 6), st.integers(7, 20), st.sampled_from([0.01, 0.05, 0.5]), st.sampled_from([0.8, 0.95, 0.99])
)


@given(rates, rules)
def test_precision_is_unknown_before_the_first_look(found: list[float], rule: Rule) -> None:
    assert not is_precise(found[: rule.first_look - 1], rule)


@given(st.floats(1, 1e12), rules, st.integers(0, 5))
def test_equal_values_are_precise_at_each_look(value: float, rule: Rule, more: int) -> None:
    assert is_precise([value] * (rule.first_look + more), rule)


@given(rates)
def test_a_fixed_count_is_never_cut_short(found: list[float]) -> None:
    assert not is_precise(found, FIXED)


@given(rates, rules)
def test_after_the_first_look_two_in_a_row_are_needed(found: list[float], rule: Rule) -> None:
    assume(len(found) > rule.first_look)

    def narrow(values: list[float]) -> bool:
        interval = student_interval(values, rule.checked_confidence)
        assert interval is not None
        return interval.relative is not None and rule.until is not None and interval.relative <= rule.until

    assert is_precise(found, rule) == (narrow(found) and narrow(found[:-1]))


def test_the_first_look_is_enough_where_noise_is_low() -> None:
    assert is_precise([100, 100.5, 101], RULE)
    assert not is_precise([100, 100.5], RULE)
    assert not is_precise([100, 110, 120], RULE)


def test_the_first_look_needs_three_quarters_of_the_width() -> None:
    nearly, quiet = [100, 101.5, 103], [100, 101, 102]
    assert FIRST_LOOK_SHARE * 0.05 < relative_error(nearly, RULE) < 0.05
    assert relative_error(quiet, RULE) < FIRST_LOOK_SHARE * 0.05
    assert (is_precise(nearly, RULE), is_precise(quiet, RULE)) == (False, True)
    assert is_precise([*nearly, 101.5], RULE)  # twice in a row what was asked for


def test_one_lucky_look_is_not_enough() -> None:
    doubtful = [100, 106.5, 100, 102, 102.5]
    assert not is_precise(doubtful[:4], RULE)
    assert not is_precise(doubtful, RULE)
    assert is_precise([*doubtful, 102.5], RULE)


@pytest.mark.parametrize("least", [1, 2])
def test_one_value_is_never_enough(least: int) -> None:
    rule = Rule(least, 9, 0.05)
    assert not is_precise([100], rule)
    assert is_precise([100, 100], rule)


def test_without_figures_there_is_no_precision() -> None:
    assert not is_precise([], RULE)
    assert not is_precise([0.0] * 5, RULE)


@given(rates, rules, st.floats(0.01, 100))
def test_the_unit_does_not_matter(found: list[float], rule: Rule, factor: float) -> None:
    tighter, looser = (
        Rule(rule.least, rule.most, rule.until and rule.until * by, rule.confidence) for by in (0.9999, 1.0001)
    )
    assume(is_precise(found, tighter) == is_precise(found, looser))  # no width on the very edge
    scaled = [rate * factor for rate in found]
    assert is_precise(scaled, rule) == is_precise(found, rule)


@pytest.mark.parametrize(
    ("found", "trials", "rule", "how"),
    [
        ([1, 2, 3], 3, FIXED, StopReason.UNFINISHED),
        ([1, 2, 3, 4, 5], 5, FIXED, StopReason.FIXED),
        ([1, 2, 3], 5, FIXED, StopReason.FIXED),  # two of them broke
        ([100, 100, 100], 3, RULE, StopReason.PRECISE),
        ([100, 100, 100], 20, RULE, StopReason.PRECISE),
        ([1, 2, 3], 3, RULE, StopReason.UNFINISHED),
        ([1, 2, 3], 20, RULE, StopReason.MAX),
        ([], 0, RULE, StopReason.UNFINISHED),
        ([1, 2, 3], 4, replace(RULE, over=True), StopReason.BUDGET),
        ([1, 2, 3], 42, STEERED, StopReason.DECIDED),
        ([1, 2, 3, 4, 5], 5, STEERED, StopReason.FIXED),  # its own rule was all that it took
        ([1, 2, 3, 4, 5], 5, replace(STEERED, over=False), StopReason.UNFINISHED),
        ([1, 2, 3], 42, replace(STEERED, over=False), StopReason.UNFINISHED),
        ([100, 100, 100], 3, replace(RULE, over=True, steered=True), StopReason.PRECISE),
        ([1, 2, 3], 3, replace(RULE, over=True, steered=True), StopReason.DECIDED),
        ([100, 100, 100, 100], 4, replace(RULE, over=True, steered=True), StopReason.DECIDED),  # nobody asked
    ],
)
def test_the_reason_to_stop_a_cell(found: list[float], trials: int, rule: Rule, how: StopReason) -> None:
    assert stop_reason(found, trials, rule) is how


values = st.lists(st.floats(1, 1e6), min_size=2, max_size=20)


@given(values)
def test_a_fixed_count_has_students_interval(sample: list[float]) -> None:
    assert interval_of(sample, FIXED, StopReason.FIXED) == student_interval(sample)


@given(values, rules, st.sampled_from(StopReason))
def test_intervals_after_looks_are_wider(sample: list[float], rule: Rule, how: StopReason) -> None:
    plain, ours = student_interval(sample, rule.confidence), interval_of(sample, rule, how)
    assert plain is not None
    assert ours is not None
    assert ours.half_width >= plain.half_width
    assert (ours.mean, ours.n, ours.confidence) == (plain.mean, plain.n, rule.confidence)


@given(values, rules)
def test_a_precise_cell_has_the_requested_width(sample: list[float], rule: Rule) -> None:
    ours, watched = interval_of(sample, rule, StopReason.PRECISE), student_interval(sample, rule.checked_confidence)
    assert ours is not None
    assert watched is not None
    assert rule.until is not None
    least = rule.until * fmean(sample) if len(sample) > rule.first_look else 0.0
    assert ours.half_width == pytest.approx(max(watched.half_width, least))


def test_a_single_value_has_no_interval() -> None:
    assert interval_of([5.0], RULE, StopReason.UNFINISHED) is None


def measured(chance: np.random.Generator, noise: float, rule: Rule) -> bool:
    """Whether the interval of one cell, measured for as long as the rule wants, holds its true mean, 1."""
    values: list[float] = []
    while len(values) < rule.most and not is_precise(values, rule):
        values.append(float(1 + noise * chance.standard_normal()))
    found = interval_of(values, rule, stop_reason(values, len(values), rule))
    assert found is not None
    return found.low <= 1 <= found.high


@pytest.mark.parametrize("noise", [0.005, 0.05, 0.08, 0.1])
def test_stopped_intervals_cover_at_the_stated_rate(noise: float) -> None:
    chance = np.random.default_rng(5)
    covered = fmean(measured(chance, noise, RULE) for _ in range(4000))
    assert 0.93 <= covered <= 0.97  # stopping at the first narrow interval of 95 % covers 0.90 at 0.08
