"""What a timeline says of a history beside its steps."""

from __future__ import annotations

import pytest

from matrix_runner.pages.timeline import _describe_history
from matrix_runner.statistics.changes import History, read_history


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (History(), []),
        (History(correlation=0.61), ["runs are correlated (0.6 from one to the next)"]),
        (History(trend=0.9), ["a drift, no step: 0.90"]),
        (History(newest=0.7), ["the newest run alone is far off: 0.70"]),
    ],
)  # fmt: skip
def test_what_is_to_be_known_is_stated(history: History, words: list[str]) -> None:
    found = "; ".join(_describe_history(history))
    assert all(one in found for one in words)
    assert bool(found) == bool(words)


def test_a_newest_night_ten_deviations_below_is_named() -> None:
    nights = [1 + 0.02 * ((7 * night) % 5 - 2) / 2 for night in range(30)]
    assert any("alone is far off: 0.80" in one for one in _describe_history(read_history([*nights, 0.8])))
