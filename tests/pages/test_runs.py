"""The remaining time of a run, as another process sees it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from matrix_runner.decide.estimate import count_down, remaining_seconds
from matrix_runner.pages.runs import RunStatus, status_document, status_lines
from matrix_runner.records.environment import Requested
from matrix_runner.records.observe import Holder, LastTrial, Progress, State
from matrix_runner.records.run_folder import RunFolder
from tests.records.past import manifest

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def status(recent: int, *, expected: float, elapsed: float, trials: int = 0, age: float = 0) -> RunStatus:
    """A run whose last trial took 3 s and ended `age` seconds ago."""
    folder = RunFolder(Path("results/run"), manifest(planned=20, expected=expected))
    holder = Holder("1", "lab1", NOW - timedelta(seconds=elapsed))
    last = LastTrial("cell", 1, "measured", (NOW - timedelta(seconds=age + 3)).isoformat(), 3.0)
    progress = Progress(cells=4, outcomes={"measured": trials or recent}, recent=recent, last=last)
    return RunStatus(folder, State.RUNNING, holder, progress, NOW)


@pytest.mark.parametrize("recent", [5, 19])
@pytest.mark.parametrize("age", [0, 2, 40])
def test_the_remaining_time_is_that_of_the_progress_line(recent: int, age: float) -> None:
    found = status(recent, expected=100, elapsed=50, age=age).seconds_left
    assert found == pytest.approx(count_down(remaining_seconds(100, recent / 20, 50 - age), age, 20 - recent))


def test_the_estimate_counts_down_before_the_first_trial() -> None:
    assert status(0, expected=100, elapsed=10).seconds_left == pytest.approx(90)


def test_only_the_trials_of_this_process_count() -> None:
    """Ten were there before; this process did five of the other ten in 50 s."""
    assert status(5, expected=0, elapsed=50, trials=15).seconds_left == pytest.approx(50)


def test_without_an_estimate_and_a_trial_it_is_unknown() -> None:
    assert status(0, expected=0, elapsed=50).seconds_left is None


def test_the_coordinator_of_a_cluster_knows_better() -> None:
    found = status(5, expected=100, elapsed=50)
    folder = RunFolder(found.folder.path, manifest(planned=20, expected=100, ends=NOW + timedelta(seconds=70)))
    assert replace(found, folder=folder).seconds_left == 70


def test_a_run_that_waits_names_the_host_and_no_time() -> None:
    found = status(5, expected=100, elapsed=50)
    waiting = "waiting up to 60 s for r7"
    there = manifest(planned=20, expected=100, ends=NOW, waiting=waiting)
    found = replace(found, folder=RunFolder(found.folder.path, there))
    assert found.seconds_left is None
    lines = dict(status_lines(found))
    assert (lines["now"], lines["left"]) == (waiting, "not known while it waits")
    assert status_document(found)["waiting"] == waiting


def test_the_trials_under_way_on_a_cluster_are_not_known() -> None:
    found = status(5, expected=100, elapsed=50)
    assert dict(status_lines(found))["now"].startswith("no trial: ")
    assert status_document(found)["now"] == []
    found = replace(found, folder=RunFolder(found.folder.path, manifest(1, planned=20, on_cluster=True)))
    assert dict(status_lines(found))["now"] == "the terminal of `matrix run` shows the trials under way on the cluster"
    assert status_document(found)["now"] is None
    assert status_document(replace(found, state=State.INTERRUPTED))["now"] == []


def test_no_time_is_left_at_the_end() -> None:
    assert status(20, expected=100, elapsed=50).seconds_left == 0


@pytest.mark.parametrize(
    ("planned", "race", "text"),
    [(20, None, "7 of at most 20"), (20, (), "7 of 20"), (5, (), "7"), (0, None, "7")],
)
def test_a_plan_that_a_race_or_a_search_has_passed_is_not_named(
    planned: int, race: tuple[str, ...] | None, text: str
) -> None:
    found = status(1, expected=1, elapsed=1, trials=7)
    there = manifest(planned=planned, steered=True, requested=Requested(race=race))
    found = replace(found, folder=RunFolder(found.folder.path, there))
    assert dict(status_lines(found))["trials"].partition(":")[0] == text
