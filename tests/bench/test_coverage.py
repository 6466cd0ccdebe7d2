"""The rule of stopping is written twice: for one cell in the runner, for many at once in the bench. They are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.coverage import SCENARIOS, Scenario, correlated, coverage, measured, naive, run_alarms
from matrix_runner.statistics.ratios import t_factor
from matrix_runner.statistics.stopping import Rule, StopReason, interval_of, is_precise

rules = st.builds(
    Rule, st.integers(1, 6), st.integers(7, 20), st.sampled_from([0.01, 0.05, 0.2]), st.sampled_from([0.8, 0.95, 0.99])
)


@given(rules, st.sampled_from(SCENARIOS), st.sampled_from([0.001, 0.02, 0.05, 0.1, 0.3]), st.integers(0, 10**6))
def test_the_bench_stops_where_the_runner_does_and_reports_the_same(
    rule: Rule, scenario: Scenario, noise: float, seed: int
) -> None:
    values = scenario.draw(np.random.default_rng(seed), (8, rule.most), noise)
    stops = measured(values, rule)
    for row, count, precise, mean, half in zip(
        values, stops.counts, stops.precise, stops.means, stops.halves, strict=True
    ):
        rates = [float(value) for value in row]
        at = next((n for n in range(1, rule.most + 1) if is_precise(rates[:n], rule)), None)
        assert (count, precise) == (at or rule.most, at is not None)
        taken = rates[:count]
        reported = interval_of(taken, rule, StopReason.PRECISE if precise else StopReason.MAX)
        assert reported is not None
        assert (mean, half) == (pytest.approx(reported.mean), pytest.approx(reported.half_width, rel=1e-6))


@given(rules, st.sampled_from([0.001, 0.05, 0.3]), st.integers(0, 10**6))
def test_naive_is_the_first_interval_that_is_narrow(rule: Rule, noise: float, seed: int) -> None:
    values = SCENARIOS[0].draw(np.random.default_rng(seed), (1, rule.most), noise)
    stops = naive(values, rule)
    assert rule.until is not None
    narrow = [False]
    for n in range(2, rule.most + 1):
        seen = values[0, :n]
        half = t_factor(n - 1, rule.confidence) * seen.std(ddof=1) / n**0.5
        narrow.append(bool(half <= rule.until * seen.mean()))
    looks = range(rule.first_look, rule.most + 1)
    assert stops.counts[0] == next((n for n in looks if narrow[n - 1]), rule.most)


@pytest.mark.parametrize("scenario", SCENARIOS[:5], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("noise", [0.001, 0.05, 0.075, 0.1, 0.3])
def test_intervals_cover_at_the_stated_rate(scenario: Scenario, noise: float) -> None:
    ours, plain = coverage(scenario, noise, Rule(3, 20, 0.05), 10_000, seed=3)
    assert 93 <= round(ours.all) <= (98 if scenario.drift else 97), "drift looks like correlation"
    assert ours.all > plain.all
    assert ours.trials >= plain.trials


def test_trials_that_are_clearly_correlated_are_allowed_for() -> None:
    values = correlated(0.5)(np.random.default_rng(1), (4000, 20), 0.2)
    before, now = (measured(values, Rule(20, 20), independent=one) for one in (True, False))
    misses = [float(np.mean(abs(one.means - 1) > one.halves)) for one in (before, now)]
    assert misses[0] > 0.2
    assert misses[1] < 0.08


def test_earlier_runs_distinguish_scatter_from_slower_runs() -> None:
    alarms = {
        earlier: np.mean([any(run_alarms(np.random.default_rng(seed), earlier, 0.03, None)) for seed in range(120)])
        for earlier in (0, 8)
    }
    assert alarms[0] > 0.8, "nobody knows how far runs lie apart"
    assert alarms[8] <= 0.1, "5 % are stated; of 120 comparisons"


def test_a_simulation_is_the_same_again() -> None:
    first, again, other = (coverage(SCENARIOS[0], 0.05, Rule(3, 20, 0.05), 500, seed) for seed in (1, 1, 2))
    assert first == again != other
