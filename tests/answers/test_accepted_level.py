"""The accepted level without a baseline: how many good runs need no check, how many are enough and are looked at."""

from __future__ import annotations

from dataclasses import replace

from matrix_runner.answers.selectors import accepted_level
from matrix_runner.records.store import RunRow

RUN = RunRow("", "", "nas", "local", False, "lab1", "", "", True, 9, 0.95, None, 3, 3, {"host.cpu": "old"}, exit=0)
RUNS = [replace(RUN, id=f"run-{at:02}", name=f"run-{at:02}", started=f"2026-{at:03}") for at in range(1, 51)]
NIGHT = replace(RUNS[-1], id="night", started="2026-999")


def level(slower: range, runs: list[RunRow] = RUNS) -> list[int]:
    """Return the numbers of the runs of the level, if those with some numbers are slower."""
    found = accepted_level(NIGHT, runs[::-1], (), lambda run, _: int(run.name[-2:]) in slower)
    return [int(run.name[-2:]) for run in found]


def test_the_first_three_good_runs_need_no_check_and_ten_are_enough() -> None:
    assert level(range(51)) == [1, 2, 3]
    assert level(range(0)) == list(range(1, 11))
    assert level(range(1, 4)) == list(range(1, 11))
    assert level(range(4, 6)) == [1, 2, 3, *range(6, 13)]


def test_later_runs_than_the_thirtieth_are_not_looked_at() -> None:
    assert level(range(4, 30)) == [1, 2, 3, 30]
    assert level(range(4, 31)) == [1, 2, 3]


def test_only_good_and_earlier_runs_of_the_same_work_count() -> None:
    others = [
        replace(RUNS[0], id="other", machine="dry"),
        replace(RUNS[1], id="failed", exit=1),
        replace(RUNS[2], id="imported", exit=None),
        replace(RUNS[3], id="later", started="2027-001"),
    ]
    assert level(range(0), [*others, RUNS[9]]) == [10]


def test_a_host_with_other_hardware_is_another_host() -> None:
    replaced = [replace(run, environment={"host.cpu": "new", "seed": "7"}) for run in RUNS[20:25]]
    night = replace(NIGHT, environment={"host.cpu": "new", "seed": "8", "practical": "0.02"})
    found = accepted_level(night, [*RUNS[:20], *replaced][::-1], (), lambda *_: False)
    assert found == replaced
