"""The store fails while a run goes on: that is said once and noted, the run does not stop, and nothing is lost."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from matrix_runner.records import store_sync
from matrix_runner.records.address import Address, address_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.run_folder import state_of
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import Feed, bring_up_to_date
from matrix_runner.records.tables import IN_STORE
from tests.records import past, server
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matrix_runner.records.run_folder import RunFolder
    from tests.records.server import Server

root = os.geteuid() == 0


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Run:
    """A run that records a trial at a time and feeds it on."""

    def __init__(self, folder: RunFolder, journal: Journal, address: Address) -> None:
        self.folder, self.journal, self.said, self.clock = folder, journal, list[str](), Clock()
        self.feed = Feed(address, folder, self.said.append, clock=self.clock)
        self.feed.wait_until_caught_up()
        self.rounds = 0

    def trial(self, reason: str = "") -> None:
        self.rounds += 1
        trial = past.measured("c1", self.rounds, 1e8)
        if reason:
            trial = Trial("c1", self.rounds, Outcome.BROKEN, reason)
        self.journal.record(trial)
        self.feed.copy_new()
        self.feed.wait_until_caught_up()

    def ends(self) -> bool:
        return self.feed.end(self.folder.update_manifest(finished=True, ended="2026-03-04T06:00:00+00:00"))


def in_store(address: Address) -> set[int]:
    with SharedStore.existing(address) as store:
        return {round_number for (round_number,) in store.trials(("round",))}


@pytest.fixture
def begun(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[Address], Run]:
    def begin(address: Address) -> Run:
        folder = past.recorded(tmp_path / "results", (), finished=False)
        journal = Journal.open(folder.journal)
        request.addfinalizer(journal.close)
        return Run(folder, journal, address)

    return begin


def test_an_undisturbed_run_is_stored_by_trial(address: Address, begun: Callable[[Address], Run]) -> None:
    run = begun(address)
    for number in (1, 2, 3):
        run.trial()
        assert in_store(address) == set(range(1, number + 1)), "each is there before the next begins"
    assert run.ends()
    assert run.said == []
    assert run.journal.troubles() == []


def test_trials_that_follow_each_other_quickly_are_one_transaction(
    address: Address, begun: Callable[[Address], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_sync, "_GATHERED", 60.0)
    added = list[int]()
    add = SharedStore.add

    def counted(store: SharedStore, run: str, cells: Sequence[CellRow], trials: Sequence[Trial]) -> None:
        added.append(len(trials))
        add(store, run, cells, trials)

    monkeypatch.setattr(SharedStore, "add", counted)
    run = begun(address)
    for number in range(1, 21):
        trial = past.measured("c1", number, 1e8)
        run.journal.record(trial)
        run.feed.copy_new()
        time.sleep(0.005)  # the feed has time to take each by itself
    run.feed.wait_until_caught_up()
    assert added == [20]
    assert in_store(address) == set(range(1, 21))
    assert run.ends()


def test_a_store_from_the_future_does_not_stop_a_run(address: Address, begun: Callable[[Address], Run]) -> None:
    with SharedStore.open(address) as store, store._transaction(immediate=True) as connection:
        connection.execute(sa.update(IN_STORE.meta).filter_by(key="version").values(value="99"))
    run = begun(address)
    for _ in range(3):
        run.trial()
        run.clock.now += 1000
    assert not run.ends()
    first, last = run.said
    assert "was written by a newer version of matrix" in first
    assert "the run continues, and its journal keeps every trial → use the newer program" in first
    assert "lacks trials; the journal of the run has them" in last
    assert len(run.journal.troubles()) == 1
    assert len(run.journal.recorded_identities()) == 3


def limit_pages(run: Run, pages: int) -> None:
    """A disk that is full, as SQLite meets it."""

    def limit() -> None:  # in the thread that the connection belongs to
        store = run.feed._store
        assert store is not None
        with store._engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    run.feed._do(limit)
    run.feed.wait_until_caught_up()
    assert not run.said


def test_a_full_store(tmp_path: Path, begun: Callable[[Address], Run]) -> None:
    address = address_of(None, tmp_path / "results")
    run = begun(address)
    run.trial()
    limit_pages(run, 1)
    for _ in range(3):
        run.trial("x" * 20_000)
    (said,) = run.said
    assert f"the disk that holds {tmp_path}/results/ is full" in said
    assert in_store(address) == {1}
    run.clock.now += 1000
    run.trial()
    assert in_store(address) == {1, 2, 3, 4, 5}, "room was made: all that was missing is there, and nothing was said"
    assert run.ends()
    assert len(run.said) == 1


@pytest.mark.skipif(not root, reason="needs a small file system of its own, hence root")
def test_a_disk_that_is_really_full(tmp_path: Path, begun: Callable[[Address], Run]) -> None:
    with small_disk(tmp_path / "small", "256k") as disk:
        address = address_of(str(disk / "store.db"), tmp_path)
        run = begun(address)
        while not run.said:
            run.trial("x" * 5000)
        for _ in range(5):
            run.trial("x" * 5000)
        assert not run.ends()
        assert f"the disk that holds {disk}/ is full" in run.said[0]
        assert len(run.journal.recorded_identities()) == run.rounds
        assert 1 <= len(in_store(address)) < run.rounds, "what was there before stays readable"
    elsewhere = address_of(str(tmp_path / "large.db"), tmp_path)
    with SharedStore.open(elsewhere) as store:
        assert bring_up_to_date(store, tmp_path / "results") == []
    assert in_store(elsewhere) == set(range(1, run.rounds + 1))


def test_a_server_that_goes_away_and_comes_back(
    postgresql: Server, tmp_path: Path, begun: Callable[[Address], Run]
) -> None:
    address = address_of(postgresql.database(tmp_path.name), tmp_path)
    run = begun(address)
    run.trial()
    postgresql.stop()
    try:
        run.trial()
        run.trial()
        run.clock.now += 1000
        run.trial()
    finally:
        postgresql.start()
    (said,) = run.said
    assert f"{address} does not answer" in said
    assert run.journal.troubles()[0].startswith("shared store: ")
    run.clock.now += 1000
    run.trial()
    assert in_store(address) == {1, 2, 3, 4, 5}
    assert run.ends()


def test_a_server_that_is_gone_for_good(postgresql: Server, tmp_path: Path, begun: Callable[[Address], Run]) -> None:
    address = address_of(postgresql.database(tmp_path.name), tmp_path)
    run = begun(address)
    postgresql.stop()
    try:
        for _ in range(3):
            run.trial()
        assert not run.ends()
    finally:
        postgresql.start()
    assert "lacks trials; the journal of the run has them" in run.said[-1]
    with SharedStore.existing(address) as store:
        assert bring_up_to_date(store, tmp_path / "results") == []
        assert store.complete_states() == {state_of(run.folder.path)}
    assert in_store(address) == {1, 2, 3}


def test_a_store_that_another_keeps_locked(
    tmp_path: Path, begun: Callable[[Address], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matrix_runner.records.store._BUSY_MS", 1)
    address = address_of(None, tmp_path / "results")
    run = begun(address)
    with SharedStore.open(address) as other, other._transaction(immediate=True):
        run.trial()
        run.trial()
    assert "is locked by another program" in run.said[0]
    assert run.ends()
    assert in_store(address) == {1, 2}


def test_an_emptied_store_is_filled_from_the_journal(
    address: Address, tmp_path: Path, begun: Callable[[Address], Run]
) -> None:
    """A store that somebody emptied is filled again."""
    run = begun(address)
    run.trial()
    with SharedStore.open(address) as store, store._transaction(immediate=True) as connection:
        if address.url:  # SQLite drops tables without their views
            past.drop_views(connection)
        IN_STORE.metadata.drop_all(connection)
    run.trial()
    assert run.said
    assert run.ends(), "made anew"
    assert in_store(address) == {1, 2}


def test_a_silent_server_does_not_delay_a_run(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path / "results", (), finished=False)
    said: list[str] = []
    with (
        server.silent() as url,
        Journal.open(folder.journal) as journal,
        Feed(address_of(url, tmp_path), folder, said.append) as feed,
    ):
        for round_number in range(100):
            trial = past.measured("c1", round_number, 1e8)
            journal.record(trial)
            feed.copy_new()
        assert said == []
        assert not feed.end(folder, silence=0.05)
    assert "lacks trials; the journal of the run has them" in said[0]
    assert feed._work.qsize() <= 10, "what waits is bounded"


def test_trials_recorded_while_a_reader_fills_the_store_are_added(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path / "results", (), finished=False)
    address = address_of(None, tmp_path / "results")
    with Journal.open(folder.journal) as journal:
        with folder.feeding(wait=True):  # a reader is at it
            feed = Feed(address, folder, print)
            for round_number in range(20):
                trial = past.measured("c1", round_number, 1e8)
                journal.record(trial)
                feed.copy_new()
            assert not address.file.exists()  # type: ignore[union-attr]
        feed.wait_until_caught_up()
        assert in_store(address) == set(range(20))
        assert feed.end(folder)


def test_an_unexpected_store_error_does_not_end_a_run(
    tmp_path: Path, begun: Callable[[Address], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*_: object, **__: object) -> None:
        raise UnicodeError("nobody\n\tthought of this")

    monkeypatch.setattr(SharedStore, "catch_up", odd)
    run = begun(address_of(None, tmp_path / "results"))
    run.trial()
    assert not run.ends()
    assert "cannot write to the shared store: UnicodeError: nobody thought of this" in run.said[0]
    assert "\n" not in run.said[0]
    assert run.journal.troubles()


def test_a_reader_and_a_run_do_not_keep_each_other_out(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS, finished=False)
    with folder.feeding(wait=False), folder.locked():
        pass
    with folder.locked(), SharedStore.open(address_of(None, tmp_path)) as store:
        assert bring_up_to_date(store, tmp_path) == []
        assert len([*store.trials(("cell",))]) == 3
