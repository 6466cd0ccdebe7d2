from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner.statistics.interval import student
from runner.statistics.stopping import AT_ONCE, Rule, Stopped, doubt, interval_of, known, stopped

RULE = Rule(least=3, most=20, until=0.05)
FIXED = Rule(least=5, most=5)
STEERED = replace(FIXED, over=True, steered=True)
rates = st.lists(st.floats(1, 1e9), max_size=20)
rules = st.builds(
    Rule, st.integers(1, 6), st.integers(7, 20), st.sampled_from([0.01, 0.05, 0.5]), st.sampled_from([0.8, 0.95, 0.99])
)


@given(rates, rules)
def test_nothing_is_known_before_the_first_look(found: list[float], rule: Rule) -> None:
    assert not known(found[: rule.first_look - 1], rule)


@given(st.floats(1, 1e12), rules, st.integers(0, 5))
def test_what_never_differs_is_known_at_every_look(value: float, rule: Rule, more: int) -> None:
    assert known([value] * (rule.first_look + more), rule)


@given(rates)
def test_a_fixed_count_is_never_cut_short(found: list[float]) -> None:
    assert not known(found, FIXED)


@given(rates, rules)
def test_after_the_first_look_two_in_a_row_are_needed(found: list[float], rule: Rule) -> None:
    assume(len(found) > rule.first_look)

    def narrow(values: list[float]) -> bool:
        interval = student(values, rule.watched)
        assert interval is not None
        return interval.relative is not None and rule.until is not None and interval.relative <= rule.until

    assert known(found, rule) == (narrow(found) and narrow(found[:-1]))


def test_the_first_look_is_enough_where_noise_is_low() -> None:
    assert known([100, 100.5, 101], RULE)
    assert not known([100, 100.5], RULE)
    assert not known([100, 110, 120], RULE)


def test_the_first_look_must_show_a_quarter_less_than_was_asked_for() -> None:
    nearly, quiet = [100, 101.5, 103], [100, 101, 102]
    assert AT_ONCE * 0.05 < doubt(nearly, RULE) < 0.05
    assert doubt(quiet, RULE) < AT_ONCE * 0.05
    assert (known(nearly, RULE), known(quiet, RULE)) == (False, True)
    assert known([*nearly, 101.5], RULE)  # twice in a row what was asked for


def test_one_lucky_look_is_not_enough() -> None:
    doubtful = [100, 106.5, 100, 102, 102.5]
    assert not known(doubtful[:4], RULE)
    assert not known(doubtful, RULE)
    assert known([*doubtful, 102.5], RULE)


@pytest.mark.parametrize("least", [1, 2])
def test_one_value_is_never_enough(least: int) -> None:
    rule = Rule(least, 9, 0.05)
    assert not known([100], rule)
    assert known([100, 100], rule)


def test_where_nothing_was_measured_nothing_is_known() -> None:
    assert not known([], RULE)
    assert not known([0.0] * 5, RULE)


@given(rates, rules, st.floats(0.01, 100))
def test_the_unit_does_not_matter(found: list[float], rule: Rule, factor: float) -> None:
    tighter, looser = (
        Rule(rule.least, rule.most, rule.until and rule.until * by, rule.confidence) for by in (0.9999, 1.0001)
    )
    assume(known(found, tighter) == known(found, looser))  # no width on the very edge
    scaled = [rate * factor for rate in found]
    assert known(scaled, rule) == known(found, rule)


@pytest.mark.parametrize(
    ("found", "trials", "rule", "how"),
    [
        ([1, 2, 3], 3, FIXED, Stopped.UNFINISHED),
        ([1, 2, 3, 4, 5], 5, FIXED, Stopped.FIXED),
        ([1, 2, 3], 5, FIXED, Stopped.FIXED),  # two of them broke
        ([100, 100, 100], 3, RULE, Stopped.PRECISE),
        ([100, 100, 100], 20, RULE, Stopped.PRECISE),
        ([1, 2, 3], 3, RULE, Stopped.UNFINISHED),
        ([1, 2, 3], 20, RULE, Stopped.MAX),
        ([], 0, RULE, Stopped.UNFINISHED),
        ([1, 2, 3], 4, replace(RULE, over=True), Stopped.BUDGET),
        ([1, 2, 3], 42, STEERED, Stopped.DECIDED),
        ([1, 2, 3, 4, 5], 5, STEERED, Stopped.FIXED),  # its own rule was all that it took
        ([1, 2, 3, 4, 5], 5, replace(STEERED, over=False), Stopped.UNFINISHED),
        ([1, 2, 3], 42, replace(STEERED, over=False), Stopped.UNFINISHED),
        ([100, 100, 100], 3, replace(RULE, over=True, steered=True), Stopped.PRECISE),
        ([1, 2, 3], 3, replace(RULE, over=True, steered=True), Stopped.DECIDED),
        ([100, 100, 100, 100], 4, replace(RULE, over=True, steered=True), Stopped.DECIDED),  # nobody asked
    ],
)
def test_how_a_cell_stopped(found: list[float], trials: int, rule: Rule, how: Stopped) -> None:
    assert stopped(found, trials, rule) is how


values = st.lists(st.floats(1, 1e6), min_size=2, max_size=20)


@given(values)
def test_of_a_fixed_count_it_is_students_interval(sample: list[float]) -> None:
    assert interval_of(sample, FIXED, Stopped.FIXED) == student(sample)


@given(values, rules, st.sampled_from(Stopped))
def test_where_looking_was_allowed_it_is_wider(sample: list[float], rule: Rule, how: Stopped) -> None:
    plain, ours = student(sample, rule.confidence), interval_of(sample, rule, how)
    assert plain is not None
    assert ours is not None
    assert ours.half_width >= plain.half_width
    assert (ours.mean, ours.n, ours.confidence) == (plain.mean, plain.n, rule.confidence)


@given(values, rules)
def test_a_cell_that_was_precise_is_known_as_well_as_was_asked_for(sample: list[float], rule: Rule) -> None:
    ours, watched = interval_of(sample, rule, Stopped.PRECISE), student(sample, rule.watched)
    assert ours is not None
    assert watched is not None
    assert rule.until is not None
    least = rule.until * fmean(sample) if len(sample) > rule.first_look else 0.0
    assert ours.half_width == pytest.approx(max(watched.half_width, least))


def test_a_single_value_has_no_interval() -> None:
    assert interval_of([5.0], RULE, Stopped.UNFINISHED) is None


def measured(chance: np.random.Generator, noise: float, rule: Rule) -> bool:
    """Whether the interval of one cell, measured for as long as the rule wants, holds its true mean, 1."""
    values: list[float] = []
    while len(values) < rule.most and not known(values, rule):
        values.append(float(1 + noise * chance.standard_normal()))
    found = interval_of(values, rule, stopped(values, len(values), rule))
    assert found is not None
    return found.low <= 1 <= found.high


@pytest.mark.parametrize("noise", [0.005, 0.05, 0.08, 0.1])
def test_it_covers_what_it_says(noise: float) -> None:
    chance = np.random.default_rng(5)
    covered = fmean(measured(chance, noise, RULE) for _ in range(4000))
    assert 0.93 <= covered <= 0.97  # stopping at the first narrow interval of 95 % covers 0.90 at 0.08
