"""The rule of a search by its properties, on curves with noise. No machine."""

from __future__ import annotations

import random
from math import exp, log
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.knee import Point, Step, bisect, next_values, usual_trials, work_at
from matrix_runner.language.find import DEPTHS
from matrix_runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

THREE = Rule(3, 3)


class Searching:
    """A search to its end: `curve` gives latency and work at a depth, each with its own noise."""

    def __init__(
        self,
        curve: Callable[[float], tuple[float, float]],
        limit: float,
        noise: float = 0.0,
        rule: Rule = THREE,
        seed: int = 1,
    ) -> None:
        draw = random.Random(seed)  # noqa: S311 - noise, not secrecy
        self.limit, self.order = log(limit), list[int]()
        found: list[dict[int, tuple[float, float]]] = [{} for _ in DEPTHS]
        for round_number in range(1, rule.most + 1):
            while values := next_values([Point(one) for one in found], self.limit, rule, round_number):
                for at in values:
                    assert round_number not in found[at], "one trial of a value in a round"
                    latency, work = curve(DEPTHS[at])
                    found[at][round_number] = (
                        log(latency) + draw.gauss(0, noise),
                        work * exp(draw.gauss(0, noise / 2)),
                    )
                    self.order.append(at)
        self.points = [Point(one) for one in found]
        self.step = bisect(self.points, self.limit, range(len(DEPTHS)))
        self.work = work_at(self.points, self.limit, self.step)


def bottleneck(capacity: float, free: float, sharpness: float) -> Callable[[float], tuple[float, float]]:
    """Return a closed system: `free` requests are served without waiting, more than these wait."""

    def curve(depth: float) -> tuple[float, float]:
        latency: float = (free**sharpness + depth**sharpness) ** (1 / sharpness) / capacity
        return latency, depth / latency

    return curve


def drawn(draw: random.Random) -> tuple[Callable[[float], tuple[float, float]], float, float]:
    """Draw a curve, a limit on its rising part, and the work there."""
    while True:
        curve = bottleneck(10 ** draw.uniform(2, 6), 10 ** draw.uniform(-0.5, 2.3), draw.choice([1, 2, 4]))
        latency, work = curve(exp(draw.uniform(log(1.2), log(240))))
        if latency >= 1.5 * curve(1)[0]:
            return curve, latency, work


def test_it_finds_the_knee_of_noisy_curves_within_5_percent_in_at_most_12_trials() -> None:
    draw = random.Random(30)  # noqa: S311 - noise, not secrecy
    good = 0
    for seed in range(400):
        curve, limit, work = drawn(draw)
        one = Searching(curve, limit, noise=0.02, seed=seed)
        good += abs(fmean(one.work) / work - 1) < 0.05 and len(one.order) <= 12
    assert good >= 396


def test_without_noise_it_takes_the_usual_number_of_trials() -> None:
    draw = random.Random(1)  # noqa: S311 - noise, not secrecy
    for _ in range(100):
        curve, limit, work = drawn(draw)
        one = Searching(curve, limit)
        assert len(one.order) <= usual_trials(len(DEPTHS), 3) == 10
        assert fmean(one.work) == pytest.approx(work, rel=0.05)


def test_both_ends_come_first_then_the_middle_of_what_is_left() -> None:
    one = Searching(bottleneck(1000, 1, 1), limit=0.020)  # depth 19
    assert [DEPTHS[at] for at in one.order[:6]] == [1, 256, 16, 64, 32, 24]
    assert (one.step.within, one.step.beyond) == (DEPTHS.index(16), DEPTHS.index(24))
    assert sorted(one.order[6:]) == [DEPTHS.index(16)] * 2 + [DEPTHS.index(24)] * 2


def test_beyond_the_ends_only_the_end_is_repeated() -> None:
    above, below = (Searching(bottleneck(1000, 1, 1), limit) for limit in (10.0, 0.0001))
    last = len(DEPTHS) - 1
    assert (above.step, sorted(above.order)) == (Step(within=last), [0, last, last, last])
    assert (below.step, sorted(below.order)) == (Step(beyond=0), [0, 0, 0, last])


def test_a_value_that_one_trial_misjudged_is_corrected() -> None:
    points = [
        Point({1: (log(latency), work)}) for latency, work in ((1.0, 10.0), (2.0, 20.0), (3.0, 25.0), (4.0, 26.0))
    ]
    points[1] = Point({1: (log(3.5), 20.0)})  # beyond the limit of 3.2 by chance
    points[2] = Point()
    assert next_values(points, log(3.2), THREE, 2) == (0, 1)
    points[0] = Point({1: (0.0, 10.0), 2: (0.0, 10.0)})
    points[1] = Point({1: (log(3.5), 20.0), 2: (log(2.0), 20.0)})
    assert next_values(points, log(3.2), THREE, 2) == (2,)


def test_a_value_without_figures_is_passed_over_in_its_round_and_tried_again_in_the_next() -> None:
    points = [Point({1: (latency, 10.0)}) for latency in (0.0, 1.0, 2.0, 3.0, 4.0)]
    points[2] = Point(failed=frozenset({1}))
    points[1] = Point()
    assert next_values(points, 1.5, THREE, 1) == (1,)
    assert next_values(points, 1.5, THREE, 2) == (2,)


def test_repeats_go_on_until_the_interval_is_narrow() -> None:
    curve = bottleneck(1000, 4, 1)
    calm, noisy, capped = (
        Searching(curve, 0.02, noise, Rule(3, most, 0.03), seed=3)
        for noise, most in ((0.002, 20), (0.04, 20), (0.04, 4))
    )
    assert len(calm.work) == 3
    assert 4 < len(noisy.work) < 20
    assert all(4 in capped.points[at].found for at in capped.step.around)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32))
def test_a_search_ends_with_any_figures(values: int, rounds: int, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - noise, not secrecy
    found: list[dict[int, tuple[float, float]]] = [{} for _ in range(values)]
    failed: list[set[int]] = [set() for _ in range(values)]
    trials = 0
    for round_number in range(1, rounds + 1):
        while chosen := next_values(
            [Point(one, frozenset(other)) for one, other in zip(found, failed, strict=True)],
            0.0,
            Rule(rounds, rounds),
            round_number,
        ):
            for at in chosen:
                assert round_number not in found[at]
                assert round_number not in failed[at]
                if draw.random() < 0.2:
                    failed[at].add(round_number)
                else:
                    found[at][round_number] = (draw.gauss(0, 1), draw.uniform(1, 2))
                trials += 1
    assert trials <= values * rounds
