"""The screens of the bench: they find what is planted."""

from __future__ import annotations

from bench.screen import measure


def test_screens_of_a_bench_find_what_is_planted() -> None:
    found, false = measure(0.02, 3)
    assert found > 0.9
    assert false <= 0.34
