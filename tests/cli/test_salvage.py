"""Damaged journals: a named error in every command, and `matrix salvage` writes what can be read."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.base.errors import Damaged
from matrix_runner.records import tables
from matrix_runner.records.databases import driver_transaction
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load
from matrix_runner.records.tables import IN_JOURNAL, data_columns, sealed
from tests.support import forked
from tests.support.matrices import SMALL
from tests.support.sealing import reseal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from sqlalchemy import Table

    from tests.support.command import Call

TIMES = int(os.environ.get("MATRIX_TEST_TIMES", "1"))


FOREIGN = zlib.compress(b"[[1], [2, 3]]").hex()  # a histogram of another program


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all cells, which the tests copy."""
    place = tmp_path_factory.mktemp("recorded")
    (place / "small.yaml").write_text(SMALL)
    assert forked.run(("run", "--on", "dry", "--quiet", "small.yaml"), cwd=place).returncode == 0
    return place


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    (folder,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    return folder


def other(run: Path) -> Path:
    (saved,) = (path for path in run.parent.iterdir() if path.is_dir() and path != run)
    return saved


def trials(run: Path) -> int:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM trials").fetchone()[0])


def test_a_whole_journal_is_not_salvaged(run: Path, call: Call) -> None:
    said = call("salvage", str(run))
    assert said.status == 2
    assert "is not damaged" in said.err


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET notes = '[1]' WHERE id = 2",
        "UPDATE trials SET outcome = 'meazured' WHERE id = 2",
        "UPDATE trials SET read_bw = 'fast', write_bw = 'fast' WHERE id = 2",
        "UPDATE trials SET read_latencies = x'00', write_latencies = x'00' WHERE id = 2",
        f"UPDATE trials SET read_latencies = x'{FOREIGN}', write_latencies = x'{FOREIGN}' WHERE id = 2",  # noqa: S608 - ours
        "UPDATE trials SET seconds = -1 WHERE id = 2",
        "UPDATE trials SET read_bw = 1e-320, write_bw = 1e-320 WHERE id = 2",
        "UPDATE trials SET reason = CAST(x'ff' AS TEXT) WHERE id = 2",
        "UPDATE trials SET reason = hex(zeroblob(600000)) WHERE id = 2",
    ],
)
def test_a_row_that_matrix_did_not_write_is_named_and_dropped(run: Path, call: Call, change: str) -> None:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute(change)
    before = (run / "journal.sqlite").read_bytes()
    report = call("report", str(run))
    assert report.status == 3
    assert "journal.sqlite is damaged" in report.err
    assert "matrix salvage RUN" in report.err
    said = call("salvage", str(run))
    assert said.status == 0
    assert "dropped: 1 row of trials" in said.out
    assert (run / "journal.sqlite").read_bytes() == before
    assert trials(other(run)) == trials(run) - 1
    assert call("report", str(other(run))).status in {0, 3}
    assert "continuing the run" in call("run", "--on", "dry", "small.yaml").out
    assert trials(other(run)) == trials(run)


@pytest.mark.parametrize(("table", "column"), [("batches", "seconds"), ("batches", "round")])
def test_a_value_of_another_kind_with_a_right_checksum_is_dropped(
    run: Path, call: Call, table: str, column: str
) -> None:
    """Another program can write a right checksum."""
    names = data_columns(IN_JOURNAL.metadata.tables[table])
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = 'x' WHERE id = 1")  # noqa: S608
        ((_, *row),) = connection.execute(f"SELECT id, {', '.join(names)} FROM {table} WHERE id = 1")  # noqa: S608
        connection.execute(f"UPDATE {table} SET crc = ? WHERE id = 1", [tables.crc_of(row)])  # noqa: S608
    said = call("salvage", str(run))
    assert (said.status, said.err) == (0, "")
    assert f"dropped: 1 row of {table}" in said.out


def test_trials_are_written_many_in_a_transaction(run: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A durable transaction for each of 100,000 trials takes minutes."""
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE trials SET notes = '[1]' WHERE id = 2")
    begun = []

    def counted(*place: Any, **how: Any) -> AbstractContextManager[None]:
        begun.append(place)
        return driver_transaction(*place, **how)

    monkeypatch.setattr("matrix_runner.records.journal.driver_transaction", counted)
    assert call("salvage", str(run)).status == 0
    assert trials(other(run)) == 7
    assert len(begun) <= 2, "and one for the set-ups"


def test_a_histogram_of_a_job_that_another_program_wrote_is_dropped(run: Path, call: Call) -> None:
    jobs = IN_JOURNAL.jobs
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM trials WHERE id = 2").fetchone())
        packed = bytes.fromhex(FOREIGN)
        row |= {"job": "one", "position": 0, "read_latencies": packed, "write_latencies": packed}
        insert(connection, jobs, row)
        reseal(connection, jobs)
    with Journal.existing(run / "journal.sqlite") as journal, pytest.raises(Damaged, match="damaged"):
        journal.trials_of_cells({row["cell"]})
    said = call("report", str(run))
    assert said.status == 3
    assert "journal.sqlite is damaged" in said.err
    assert "dropped: 1 row of jobs" in call("salvage", str(run)).out


def test_a_trial_without_its_cell_is_damage(run: Path, call: Call) -> None:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("DELETE FROM cells WHERE position = 1")
    said = call("report", str(run))
    assert said.status == 3
    assert "journal.sqlite is damaged\nrows are missing or added" in said.err
    assert "dropped: 2 rows of trials" in call("salvage", str(run)).out


def test_a_huge_name_is_damage_and_status_shows_its_start(run: Path, call: Call) -> None:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE cells SET name = hex(zeroblob(600000)) WHERE position = 1")
        connection.execute("UPDATE trials SET reason = hex(zeroblob(600000)), outcome = 'broken' WHERE id = 1")
    assert len(call("status", str(run)).out) < 5000
    assert "journal.sqlite is damaged" in call("report", str(run)).err


def test_a_lost_page_costs_its_rows_only(run: Path, call: Call) -> None:
    file = run / "journal.sqlite"
    content = bytearray(file.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'attempts'")
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    file.write_bytes(content)
    assert call("report", str(run)).status == 3
    said = call("salvage", str(run))
    assert said.status == 0
    assert "damaged: the table attempts; rows of it may be missing\n" in said.out
    assert trials(other(run)) == 8


def insert(connection: sqlite3.Connection, table: Table, row: Mapping[str, object]) -> None:
    """Write a row as matrix does."""
    row = {name: value for name, value in row.items() if name in table.c} | sealed(table, row)
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", row)  # noqa: S608 - names of ours


AT = {"cell": "c", "round": 1, "started": "2026-01-01", "reason": "lost"}
ROWS = {
    tables.attempts: {**AT, "number": 1, "tail": "tail"},
    tables.begun: {**AT, "attempt": 2, "boot_id": "boot"},
    tables.retried: {**AT, "id": 7, "attempts": 2, "outcome": "broken"},
    tables.batches: {"id": 70, "round": 1, "stack": "stack", "seconds": 2.5},
    tables.troubles: {"id": 7, "at": "2026-01-01", "what": "a disk did not come back"},
}


def test_rows_of_every_table_are_kept(run: Path, call: Call) -> None:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        for table, row in ROWS.items():
            insert(connection, table, row)
        connection.execute("INSERT INTO retried SELECT 8, cell, round, 7, outcome, reason, started, crc FROM retried")
        connection.execute("UPDATE trials SET seconds = -1 WHERE id = 2")
    report = call("run", "--on", "dry", "--retry-broken", "small.yaml")
    assert report.status == 3
    assert "has another checksum" in report.err
    said = call("salvage", str(run))
    assert "dropped: 1 row of retried\ndropped: 1 row of trials\n" in said.out
    whole, saved = (run / "journal.sqlite", other(run) / "journal.sqlite")
    with closing(sqlite3.connect(whole)) as before, closing(sqlite3.connect(saved)) as after:
        for table in ROWS:
            names = ", ".join(data_columns(table))
            query = f"SELECT {names}, crc FROM {table.name}"  # noqa: S608
            kept = before.execute(f"{query} LIMIT 1" if table is tables.retried else query).fetchall()
            assert after.execute(query).fetchall() == kept != [], table


def test_flipped_bytes_never_end_in_a_traceback(run: Path, call: Call) -> None:
    file, draw = run / "journal.sqlite", random.Random(29)  # noqa: S311
    whole = file.read_bytes()
    for _ in range(10 * TIMES):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 4, 40])):
            content[draw.randrange(len(content))] = draw.randrange(256)
        file.write_bytes(content)
        for words in (("report", str(run)), ("runs",), ("status", str(run)), ("salvage", str(run))):
            said = call(*words)
            assert "a mistake in matrix itself" not in said.err, said.err
        for saved in run.parent.iterdir():
            if saved.is_dir() and saved != run:
                shutil.rmtree(saved)


def test_a_file_that_is_no_database_is_not_copied(run: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "copyfile", None)
    (run / "journal.sqlite").write_bytes(b"")
    os.truncate(run / "journal.sqlite", 1 << 36)
    said = call("salvage", str(run))
    assert said.status == 3
    assert "nothing can be read of " in said.err


@pytest.mark.parametrize("table", ["meta", "cells", "trials", "readings", "troubles"])
def test_a_damaged_statement_of_a_table_costs_no_row(table: str, run: Path, call: Call) -> None:
    file = run / "journal.sqlite"
    content, statement = file.read_bytes(), f"CREATE TABLE {table} (".encode()
    assert content.count(statement) == 1
    file.write_bytes(content.replace(statement, statement.replace(b"TABLE", b"TA\xa5LE")))
    said = call("salvage", str(run))
    assert (said.status, "dropped" in said.out) == (0, False), said
    assert trials(other(run)) == 8


def test_a_damaged_name_of_a_table_costs_no_row(run: Path, call: Call) -> None:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = 'trialz' WHERE type = 'table' AND name = 'trials'")
    said = call("salvage", str(run))
    assert (said.status, "dropped" in said.out) == (0, False), said
    with closing(sqlite3.connect(other(run) / "journal.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM trials").fetchone() == (8,)


def test_a_statement_with_another_order_of_columns_is_not_restored(run: Path, call: Call) -> None:
    """Otherwise figures would be in the wrong columns."""
    file = run / "journal.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        (old,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'troubles'").fetchone()
        columns = ("at VARCHAR NOT NULL", "what TEXT NOT NULL")
        assert all(one in old for one in columns)
        new = old.replace(columns[0], "?").replace(columns[1], columns[0]).replace("?", columns[1])
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'troubles'", (new.replace("TABLE", "TA?LE"),))
    said = call("salvage", str(run))
    assert "damaged: the table troubles; rows of it may be missing\n" in said.out


def test_only_files_of_the_run_are_copied(run: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    (run / "imported").symlink_to(tmp_path / "other")
    os.mkfifo(run / "cells/pipe")
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE trials SET seconds = -1 WHERE id = 2")
    assert call("salvage", str(run)).status == 0
    saved = other(run)
    assert {path.name for path in saved.iterdir()}.isdisjoint({"imported"})
    assert {path.name for path in (saved / "cells").iterdir()} == {path.name for path in (run / "cells").iterdir()} - {
        "pipe"
    }


def test_trials_without_their_readings_are_saved(run: Path, call: Call) -> None:
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("DELETE FROM readings")
    said = call("salvage", str(run))
    assert said.status == 0, said.err
    assert "damaged: the table readings; rows of it may be missing" in said.out
    assert trials(other(run)) == trials(run)


def test_the_archive_of_a_large_run_is_copied(
    matrix: object, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matrix_runner.session.run_request.MOST_IN_FOLDERS", 1)
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (run,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    before = call("show", "*", "--run", str(run)).out
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE trials SET seconds = -1 WHERE id = 2")
    assert call("salvage", str(run)).status == 0
    assert before == call("show", "*", "--run", str(other(run))).out != ""


def damage_number(run: Path, row: int, bit: int) -> None:
    """Change the number of a trial in its page, so that the rows are out of order."""
    file = run / "journal.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trials'")
    content = bytearray(file.read_bytes())
    start = (root - 1) * 4096
    while content[start] == INTERIOR:
        pointer = start + int.from_bytes(content[start + 12 : start + 14], "big")
        start = (int.from_bytes(content[pointer : pointer + 4], "big") - 1) * 4096
    place = start + int.from_bytes(content[start + 8 + 2 * (row - 1) : start + 10 + 2 * (row - 1)], "big")
    while content[place] & 0x80:  # the size of the row comes first
        place += 1
    assert content[place + 1] == row
    content[place + 1] ^= bit
    file.write_bytes(content)


INTERIOR = 5  # the sign of a page that leads to others


def test_rows_out_of_order_are_saved_and_the_run_is_unfinished(run: Path, call: Call) -> None:
    damage_number(run, row=1, bit=0x40)
    said = call("salvage", str(run))
    assert said.status == 0, said.err
    assert "damaged: the table trials; rows of it may be missing\nsaved: 8 trials of " in said.out
    assert "continues it" in said.out
    assert load(run).manifest.finished
    assert not load(other(run)).manifest.finished


LOOP = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("object_", "change"),
    [
        (
            "view named trials",
            f"ALTER TABLE trials RENAME TO t; CREATE VIEW trials AS {LOOP} SELECT t.* FROM t, numbers",  # noqa: S608
        ),
        (
            "view named Cells",  # SQLite ignores the case of names
            f"ALTER TABLE cells RENAME TO c; CREATE VIEW Cells AS {LOOP} SELECT c.* FROM c, numbers",  # noqa: S608
        ),
        ("trigger named gone", "CREATE TRIGGER gone AFTER INSERT ON trials BEGIN DELETE FROM trials; END"),
    ],
)
def test_a_journal_that_computes_is_refused(run: Path, call: Call, object_: str, change: str) -> None:
    """It could lose trials, or run for ever."""
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection:
        connection.executescript(change)
    for command in (("report", str(run)), ("show", "--run", str(run), "*"), ("salvage", str(run))):
        said = call(*command)
        assert said.status in {0, 2, 3}
        if command[0] != "salvage":
            assert f"journal.sqlite is not a file that matrix wrote\nit has a {object_}\n" in said.err
    assert "journal.sqlite is not a file that matrix wrote" in call("runs").err


@pytest.mark.timeout(60)
def test_a_journal_that_is_mostly_a_hole_takes_no_longer(run: Path, call: Call) -> None:
    with load(run).journal.open("rb+") as file:
        file.truncate(1 << 40)
    said = call("salvage", str(run))
    assert (said.status, "is not damaged" in said.err) == (2, True)
