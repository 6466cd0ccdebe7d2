"""The races of the bench: they end, with the right answers."""

from __future__ import annotations

from bench.race import measure


def test_races_of_a_bench_end_with_right_answers() -> None:
    ended, _ = measure("0..50 %", 5, 0.1, 24)
    assert sum(one.wrong for one in ended) <= 2
    assert all(one.decided for one in ended)
    assert sum(one.trials for one in ended) < 0.7 * 5 * sum(one.rounds for one in ended), "losers leave early"


def test_a_best_stack_at_the_edge_is_rarely_missed() -> None:
    ended, _ = measure("edge", 5, 0.05, 24)
    assert sum(one.wrong for one in ended) <= 3
