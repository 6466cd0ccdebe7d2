"""The verdict on a cluster that was killed: what fails it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from bench.cluster_kills import failures, unexpected_ends

if TYPE_CHECKING:
    from typing import Any

KILLS = Counter({"coordinator": 2, "worker": 1, "batch": 3, "link": 1})
SOUND: dict[str, Any] = {
    "runs": 1,
    "lost": 0,
    "doubled": 0,
    "outcomes": Counter(measured=720),
    "processes_left": [],
    "folders_left": [],
}


def test_ends_by_these_kills_and_without_a_scheduler_are_expected() -> None:
    exits = {
        "coordinator": Counter({-9: 2, 3: 4, 0: 1}),
        "worker": Counter({-9: 1, 0: 2, -15: 1}),
        "scheduler": Counter({0: 1}),
    }
    assert unexpected_ends(exits, KILLS, "b: the batch process was killed by signal 9; another continues") == []


@pytest.mark.parametrize(
    ("kind", "status"), [("coordinator", -7), ("coordinator", 1), ("worker", -11), ("worker", 3), ("scheduler", -9)]
)
def test_a_crash_an_unknown_code_and_a_kill_by_others_fail(kind: str, status: int) -> None:
    assert unexpected_ends({kind: Counter({status: 1})}, KILLS, "") == [f"1 × {kind} ended with {status}"]


def test_more_kills_than_were_made_fail() -> None:
    assert unexpected_ends({"worker": Counter({-9: 2})}, KILLS, "") == ["2 × worker ended with -9"]


@pytest.mark.parametrize("how", ["was killed by signal 7; another", "was killed by signal 92", "ended with status 1"])
def test_a_batch_that_crashed_fails(how: str) -> None:
    assert unexpected_ends({}, KILLS, f"b: the batch process {how}\n") == [f"the batch process {how}"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost": 1},
        {"doubled": 2},
        {"outcomes": Counter(measured=719, broken=1)},
        {"processes_left": [7]},
        {"folders_left": ["matrix-batch-0-x"]},
        {"runs": 2},
    ],
)
def test_each_part_of_the_verdict_counts(wrong: dict[str, Any]) -> None:
    assert failures(SOUND) == []
    assert len(failures(SOUND | wrong)) == 1
