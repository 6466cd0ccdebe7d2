from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput, Damaged, HarnessBroken
from matrix_runner.records import tables
from matrix_runner.records.journal import AlreadyRecorded, Journal
from matrix_runner.records.journal_reader import UnendedAttempt
from matrix_runner.records.record import Attempt, CellRow, Outcome, Reading, Trial
from matrix_runner.work.fio.output import Direction, Figures
from tests.records import strategies

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sqlalchemy as sa

CELL = CellRow("c1", "striped/chunk=64KiB/seqread/bs=1MiB", {"md.chunk": "64KiB", "workload.bs": "1MiB"})
READ = Direction(2e8, 190.5, 200_000_000, 190, 5e6, 4e6, 8e6, 8.5e6, 9e6, 9.5e6, 9.9e6, 1e7)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as opened:
        opened.add_cells([CELL])
        yield opened


def measured(round_number: int = 0, *, cell: str = "c1", runtime: float = 1.0, seconds: float = 1.5) -> Trial:
    figures = Figures(read=READ, write=None, runtime=runtime, cpu_usr=1.0, cpu_sys=2.0, errors=0)
    return Trial(cell, round_number, Outcome.MEASURED, seconds=seconds, figures=figures)


def test_recorded_trials_are_read_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as journal:
        journal.add_cells([CELL])
        journal.record(measured(3))
    with Journal.open(path) as journal:
        assert list(journal.trials()) == [measured(3)]
        assert journal.recorded_identities() == {("c1", 3)}
        assert journal.cells() == [CELL]


def test_another_reader_sees_a_trial_as_soon_as_record_returns(journal: Journal, tmp_path: Path) -> None:
    with Journal.existing(tmp_path / "journal.sqlite") as other:
        journal.record(measured())
        assert other.recorded_identities() == {("c1", 0)}


def test_a_trial_is_never_counted_twice(journal: Journal) -> None:
    journal.record(measured())
    with pytest.raises(AlreadyRecorded, match="trial 0 of cell c1"):
        journal.record(Trial("c1", 0, Outcome.BROKEN, reason="again"))
    assert list(journal.trials()) == [measured()]


def test_a_trial_of_an_unknown_cell_is_refused(journal: Journal) -> None:
    with pytest.raises(HarnessBroken, match="is not in the journal"):
        journal.record(measured(cell="c2"))
    assert journal.recorded_identities() == set()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trials=st.lists(strategies.trials(st.just("c1"), st.integers(0, 999)), unique_by=lambda t: t.round, max_size=4))
def test_trials_come_back_equal_and_in_order(tmp_path_factory: pytest.TempPathFactory, trials: list[Trial]) -> None:
    with Journal.open(tmp_path_factory.mktemp("trials") / "journal.sqlite") as journal:
        journal.add_cells([CELL])
        for trial in trials:
            journal.record(trial)
        assert list(journal.trials()) == trials


@given(cells=st.lists(strategies.cell_rows, unique_by=lambda cell: cell.id, max_size=5))
def test_cells_come_back_equal_and_in_order(tmp_path_factory: pytest.TempPathFactory, cells: list[CellRow]) -> None:
    with Journal.open(tmp_path_factory.mktemp("cells") / "journal.sqlite") as journal:
        for _ in range(2):
            journal.add_cells(cells)
        assert journal.cells() == cells


def test_cells_beyond_one_batch_keep_their_order(journal: Journal) -> None:
    many = [CellRow(f"id{number}", f"name{number}", {}) for number in range(2500)]
    journal.add_cells(many[:1200])
    journal.add_cells(iter(many))
    assert journal.cells() == [CELL, *many]


def test_a_cell_that_comes_again_takes_its_new_name(journal: Journal) -> None:
    journal.add_cells([CellRow("c1", "renamed", {"a": "b"})])
    assert journal.cells() == [CellRow("c1", "renamed", {"a": "b"})]


def test_an_attempt_without_an_end_is_remembered(journal: Journal) -> None:
    journal.begin("c1", 0, 1, "boot-a", "2026-01-01T00:00:00Z")
    journal.begin("c1", 1, 1, "boot-a")
    assert journal.unended_attempts() == [
        UnendedAttempt("c1", 0, 1, "boot-a", "2026-01-01T00:00:00Z"),
        UnendedAttempt("c1", 1, 1, "boot-a"),
    ]


def test_recording_ends_every_attempt_at_that_trial(journal: Journal) -> None:
    journal.begin("c1", 0, 1, "boot-a")
    journal.begin("c1", 0, 2, "boot-b")
    journal.begin("c1", 1, 1, "boot-b")
    journal.record(measured(0))
    assert journal.unended_attempts() == [UnendedAttempt("c1", 1, 1, "boot-b")]


def test_beginning_the_same_attempt_again_replaces_it(journal: Journal) -> None:
    journal.begin("c1", 0, 1, "boot-a")
    journal.begin("c1", 0, 1, "boot-b")
    assert journal.unended_attempts() == [UnendedAttempt("c1", 0, 1, "boot-b")]


def test_a_lost_attempt_is_kept_once_and_ends_only_itself(journal: Journal) -> None:
    lost = Attempt("c1", 0, 1, "2026-01-01T00:00:00Z", "the guest panicked", "Kernel panic - not syncing")
    journal.begin("c1", 0, 1, "boot-a")
    journal.begin("c1", 0, 2, "boot-a")
    journal.record_lost(lost)
    assert journal.attempts() == [lost]
    assert journal.unended_attempts() == [UnendedAttempt("c1", 0, 2, "boot-a")]
    with pytest.raises(AlreadyRecorded, match="attempt 1 at trial 0"):
        journal.record_lost(lost)


def test_figures_can_be_read_by_plain_sql(journal: Journal, tmp_path: Path) -> None:
    journal.record(measured())
    connection = sqlite3.connect(tmp_path / "journal.sqlite")
    try:
        query = "select name, read_bw, read_lat_p99, write_bw from trials join cells on trials.cell = cells.id"
        assert connection.execute(query).fetchall() == [(CELL.name, 2e8, 9e6, None)]
    finally:
        connection.close()


def test_the_journal_survives_a_power_cut(journal: Journal) -> None:
    settings_ = {name: journal._connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS}
    assert settings_ == PRAGMAS


def test_only_synthetic_trials_may_be_lost_at_a_power_cut(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.sqlite", synthetic=True) as journal:
        settings_ = {name: journal._connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS}
    assert settings_ == PRAGMAS | {"synchronous": 1}
    with Journal.open(tmp_path / "journal.sqlite", synthetic=False) as journal:
        assert journal._connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_opening_for_reading_does_not_make_a_journal(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no journal"):
        Journal.existing(tmp_path / "journal.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_opening_for_reading_leaves_an_empty_file_as_it_is(tmp_path: Path) -> None:
    """A runner that was killed before its journal had a table."""
    path = tmp_path / "journal.sqlite"
    path.touch()
    with pytest.raises(BadInput, match="not a journal of matrix"):
        Journal.existing(path)
    with Journal.open(path) as journal:
        assert journal.recorded_identities() == set()


def test_older_journals_note_synthetic_results_if_known(tmp_path: Path) -> None:
    def noted() -> list[tuple[str]]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("select value from meta where key = 'synthetic'").fetchall()

    path = tmp_path / "journal.sqlite"
    Journal.open(path).close()
    assert noted() == []
    for _ in range(2):
        Journal.open(path, synthetic=False).close()
        assert noted() == [("false",)]


def test_equal_readings_are_stored_once(journal: Journal, tmp_path: Path) -> None:
    readings = (Reading("md/chunk_size", "65536", "65536"), Reading("disk0/rotational", None, "1"))
    recorded = [replace(measured(number), readings=readings if number < 3 else ()) for number in range(4)]
    for trial in recorded:
        journal.record(trial)
    assert list(journal.trials()) == recorded
    with Journal.existing(tmp_path / "journal.sqlite") as other:
        assert other.trials_of({("c1", 1), ("c1", 3)}) == [recorded[1], recorded[3]]
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM readings").fetchone() == (2,)


def test_missing_readings_are_damage(journal: Journal, tmp_path: Path) -> None:
    journal.record(measured())
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection, connection:
        connection.execute("DELETE FROM readings")
    with Journal.existing(tmp_path / "journal.sqlite") as other, pytest.raises(HarnessBroken, match="damaged"):
        list(other.trials())


@pytest.fixture
def full(journal: Journal) -> Journal:
    """A journal with a row in each table, and with others that came and went."""
    trial = measured(1)
    assert trial.figures
    jobs = {"one": trial.figures, "two": trial.figures}
    journal.add_cells([CellRow("c2", "other", {}), CELL])
    journal.add_cells([CellRow("c2", "another", {"layout": "a"})])
    for number in (1, 2, 3):
        journal.begin("c1", number, 1, "boot", "then")
        journal.begin("c1", number, 1, "boot", "later")
        journal.begin("c1", number, 2, "boot", "later")
        journal.record_lost(Attempt("c1", number, 1, "then", "the rig was lost", "its console"))
    journal.record(replace(trial, figures=replace(trial.figures, jobs=jobs)))
    journal.withdraw("c1", 2)
    journal.record(Trial("c1", 2, Outcome.BROKEN, "no disk", started="then"))
    journal.record(Trial("c2", 2, Outcome.SKIPPED, "no disk", started="then"))
    journal.take_back()
    journal.record_set_up(1, "stack", 2.5)
    journal.record_trouble("then", "the store was away")
    return journal


@pytest.mark.parametrize("table", tables.SEALED, ids=lambda table: table.name)
def test_a_deleted_row_of_any_table_is_damage(full: Journal, tmp_path: Path, table: sa.Table) -> None:
    path = tmp_path / "journal.sqlite"
    Journal.existing(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        order = ", ".join(column.name for column in table.primary_key)
        one = f"SELECT rowid FROM {table.name} ORDER BY {order} DESC LIMIT 1"  # noqa: S608
        assert connection.execute(f"DELETE FROM {table.name} WHERE rowid = ({one})").rowcount == 1  # noqa: S608
    for opening in (Journal.existing, Journal.open):
        with pytest.raises(Damaged, match="rows are missing or added"):
            opening(path)


@pytest.mark.parametrize(
    "change",
    [
        "cells SET name = CAST(x'ff' AS TEXT)",
        "cells SET axes = '{'",
        "cells SET position = 7",
        "trials SET started = CAST(x'ff' AS TEXT)",
        "trials SET seconds = 'slow'",
        "trials SET attempts = 1e300",
        "trials SET seconds = 9.5",
        "readings SET content = '[7]'",
        "meta SET value = '7' WHERE key = 'statements'",
    ],
)
def test_a_value_that_was_not_written_is_damage(change: str, journal: Journal, tmp_path: Path) -> None:
    journal.record(measured())
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection, connection:
        connection.execute(f"UPDATE {change}")
    for opening in (Journal.existing, Journal.open):
        with pytest.raises(Damaged):
            opening(tmp_path / "journal.sqlite")


def test_adding_cells_takes_the_lock_before_it_reads(tmp_path: Path) -> None:
    """Otherwise it fails at once if the feed of the store writes meanwhile."""
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        said: list[str] = []
        journal._driver.set_trace_callback(said.append)
        journal.add_cells([CellRow("a", "a", {})])
        with journal.together():
            pass
    begins = [one for one in said if one.startswith("BEGIN")]
    assert begins == ["BEGIN IMMEDIATE"] * 2
