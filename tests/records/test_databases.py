"""How databases are opened."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.databases import has_lost_commits, memory_engine, sqlite_engine, sqlite_reader, switch_to_wal

if TYPE_CHECKING:
    from pathlib import Path


class Contested:
    """A file that others are just making, so often."""

    def __init__(self, times: int) -> None:
        self.times = times

    def execute(self, text: str) -> None:
        assert text == "PRAGMA journal_mode = WAL"
        if self.times:
            self.times -= 1
            busy = sqlite3.OperationalError("database is locked")
            busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise busy


def test_a_file_that_several_make_at_once_is_made_by_all_of_them() -> None:
    contested = Contested(3)
    switch_to_wal(contested, 60)
    assert contested.times == 0


def test_a_file_that_stays_locked_is_given_up() -> None:
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        switch_to_wal(Contested(10**9), 0)


def test_to_sort_needs_no_temporary_files(tmp_path: Path) -> None:
    """A folder of results can be on a host whose file systems are all read-only, or full."""
    file = tmp_path / "store.db"
    writer = sqlite_engine(file, (), busy_ms=1, durable=False)
    with writer.begin():
        pass
    for engine in (memory_engine(), writer, sqlite_reader(file, ())):
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA temp_store").scalar() == 2  # in memory
        engine.dispose()


def test_zeros_are_no_log(tmp_path: Path) -> None:
    """They have the right checksum, and pages of no size: a file of 1 GiB took 15 s."""
    for name in ("wal", "shm"):
        with (tmp_path / f"store.db-{name}").open("wb") as file:
            file.truncate(1 << 16)
    assert has_lost_commits(tmp_path / "store.db")
