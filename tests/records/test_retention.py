"""Old runs: which stay, and what is left after their removal."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.records.files import InUse, Standing
from matrix_runner.records.run_folder import Keep, KeptRun, create, remove_run, run_folders, runs_to_remove
from matrix_runner.records.store import SharedStore, describe_run
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.address import Address


def nights(tmp_path: Path, count: int) -> list[KeptRun]:
    """One run a day of March, the first three with figures of 10 bytes."""
    folders = [past.recorded(tmp_path, (), number, exit=0) for number in range(1, count + 1)]
    return [KeptRun(describe_run(folder), folder, 10) for folder in folders]


def names(found: list[KeptRun]) -> list[str]:
    return [one.run.name for one in found]


def test_rules_keep_runs_and_the_oldest_go_first(tmp_path: Path) -> None:
    runs = nights(tmp_path, 5)
    since = datetime(2026, 3, 4, tzinfo=UTC)
    assert names(runs_to_remove(runs, Keep())) == ["run-1", "run-2", "run-3", "run-4"]  # the last good one stays
    assert names(runs_to_remove(runs, Keep(since))) == ["run-1", "run-2", "run-3"]
    assert names(runs_to_remove(runs, Keep(last=4))) == ["run-1"]
    assert names(runs_to_remove(runs, Keep(size=25))) == ["run-1", "run-2", "run-3"]
    assert names(runs_to_remove(runs, Keep(since, size=45))) == ["run-1"]
    assert runs_to_remove(runs, Keep(size=50)) == []


def test_unfinished_and_tagged_runs_and_the_last_good_one_stay(tmp_path: Path) -> None:
    first, second, third, fourth = nights(tmp_path, 4)
    runs = [
        replace(first, run=replace(first.run, finished=False)),
        replace(second, run=replace(second.run, tags=("release",))),
        third,
        replace(fourth, run=replace(fourth.run, excluded="a rebuild")),
    ]
    assert names(runs_to_remove(runs, Keep())) == ["run-4"]
    assert names(runs_to_remove(runs, Keep(tagged=False))) == ["run-2", "run-4"]


def test_a_removed_run_is_gone_from_folder_and_store_and_does_not_come_back(tmp_path: Path, address: Address) -> None:
    results = tmp_path / "results"
    one, other = (past.recorded(results, past.TRIALS, number) for number in (1, 2))
    with SharedStore.open(address) as store:
        assert bring_up_to_date(store, results) == []
        remove_run(KeptRun(describe_run(one), one), store)
        assert bring_up_to_date(store, results) == []
        assert [run.name for run in store.runs()] == ["run-2"]
        assert {row[0] for row in store.trials(("run",))} == {other.manifest.id}
        assert run_folders(results) == [other.path]


def killed_there(_: Path) -> None:
    raise KeyboardInterrupt


def test_leftovers_of_a_killed_removal_are_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    kept = KeptRun(describe_run(folder), folder)
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", killed_there)
        with pytest.raises(KeyboardInterrupt):
            remove_run(kept, None)
    assert run_folders(tmp_path) == []
    assert list(tmp_path.iterdir())
    new = create(tmp_path, past.manifest(2))
    assert list(tmp_path.iterdir()) == [new.path]


def test_a_run_in_use_and_one_whose_stack_may_be_up_stay(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, ())
    kept = KeptRun(describe_run(folder), folder)
    with folder.locked(), pytest.raises(InUse):
        remove_run(kept, None)
    Standing(folder.path).keep_tear_down("s1", "true")
    with pytest.raises(BadInput, match="may still be up"):
        remove_run(kept, None)
    assert folder.journal.exists()
