"""Databases of other versions of the program: older ones are brought up to date with their data, newer ones refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa

from runner.store.journal import Journal
from runner.store.record import Outcome
from runner.store.shared import SharedStore
from runner.store.versions import Versioned

if TYPE_CHECKING:
    from runner.store.address import Address

DATA = Path(__file__).parents[1] / "data"


def from_text(path: Path, name: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / name).read_text())
    return path


def version(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("select value from meta where key = 'schema'").fetchone()[0])


@pytest.mark.parametrize("reading", [True, False])
def test_a_journal_of_version_1_is_brought_up_to_date_with_its_data(tmp_path: Path, reading: bool) -> None:
    path = from_text(tmp_path / "journal.sqlite", "journal-1.sql")
    with Journal.existing(path) if reading else Journal.open(path) as journal:
        first, second = journal.trials()
        assert first.figures is not None
        assert first.figures.read is not None
        assert (first.figures.read.bw, first.notes["kernel"]) == (2e8, "6.1.0-28-amd64")
        assert second.outcome is Outcome.BROKEN
        assert [attempt.tail for attempt in journal.attempts()] == ["Kernel panic"]
        assert journal.retried() == {}
        assert journal.troubles() == []
        assert [trial.block for trial in journal.take_back()] == [2]
    assert version(path) == "2"


def test_a_journal_of_version_1_that_has_retried_already(tmp_path: Path) -> None:
    path = from_text(tmp_path / "journal.sqlite", "journal-1.sql")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "create table retried (id integer primary key, cell varchar not null, block integer not null, attempts "
            "integer not null, outcome varchar not null, reason text not null, started varchar not null)"
        )
        connection.execute("insert into retried values (1, 'c1', 2, 3, 'broken', 'lost', '')")
    with Journal.open(path) as journal:
        assert journal.retried() == {("c1", 2): 3}


def test_a_store_of_version_1_is_brought_up_to_date_with_its_data(address: Address) -> None:
    text = (DATA / "store-1.sql").read_text()
    if address.file:
        address.file.parent.mkdir()
        from_text(address.file, "store-1.sql")
    else:
        assert address.url is not None
        with psycopg.connect(address.url.render_as_string(hide_password=False)) as connection:
            connection.execute(text.encode())
    for _ in range(2):
        with SharedStore.existing(address) as store:
            (run,) = store.runs()
            assert (run.name, run.least, run.most, run.environment) == ("run-1", 2, None, {"host.cpu": "some cpu"})
            assert store.trials(("run", "cell", "block", "read_bw", "write_bw")) == [("run1", "c1", 1, 2e8, None)]
            assert store.settled() == set(), "what is not known of it is in its manifest"


def test_a_step_that_fails_leaves_the_older_version_whole(tmp_path: Path) -> None:
    tables = sa.MetaData()
    meta = sa.Table("meta", tables, sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.Text))
    path = tmp_path / "some.sqlite"
    engine = sa.create_engine(f"sqlite:///{path}")

    def half(connection: sa.Connection) -> None:
        connection.execute(sa.text("insert into meta values ('half', 'done')"))
        raise RuntimeError("the power went")

    old = Versioned("thing", tables, meta, (), stranger="", newer="")
    new = Versioned("thing", tables, meta, (lambda _: None, half), stranger="", newer="")
    with engine.begin() as connection:
        old.prepare(connection, path)
    with pytest.raises(RuntimeError), engine.begin() as connection:
        new.prepare(connection, path)
    engine.dispose()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("select * from meta").fetchall() == [("schema", "1")]
