"""Databases of other versions: one from before version 1 or of a newer version is refused, and stays as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from matrix_runner.base.errors import BadInput, Damaged
from matrix_runner.records.address import Address, address_of
from matrix_runner.records.files import LAST_COMMIT
from matrix_runner.records.journal import Journal
from matrix_runner.records.observe import read_progress
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.run_folder import create
from matrix_runner.records.salvage import salvage
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.records.tables import IN_STORE, since
from matrix_runner.records.versions import JOURNAL, Versioned, execute, put_aside
from tests.records import past
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from tests.records.server import Server
    from tests.support.command import Call


def from_before(path: Path, meta: str, version: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f'CREATE TABLE {meta} ("key" VARCHAR NOT NULL PRIMARY KEY, value TEXT NOT NULL);'  # noqa: S608 - ours
            f"INSERT INTO {meta} VALUES ('schema', '{version}'); CREATE TABLE trials (cell VARCHAR, read_bw FLOAT)"
        )
        connection.execute("PRAGMA journal_mode = WAL")
    return path.read_bytes()


def test_a_journal_from_before_version_1_is_refused_and_stays_as_it_is(tmp_path: Path, call: Call) -> None:
    folder = create(tmp_path / "results", past.manifest())
    before = from_before(folder.journal, "meta", "13")
    for read in (Journal.open, Journal.existing, salvage):
        with pytest.raises(BadInput, match=f"from before version 1 of the journal.* {LAST_COMMIT}") as caught:
            read(folder.journal)
        assert "`--fresh`" in caught.value.resolution
    with pytest.raises(BadInput, match=LAST_COMMIT):
        read_progress(folder)
    for command in ("report", "status", "salvage"):
        said = call(command, str(folder.path))
        assert LAST_COMMIT in said.err, command
    assert LAST_COMMIT in call("runs").err
    said = call("results")
    assert f"not completely in the store: {folder.path.name}" in said.err
    assert LAST_COMMIT in said.err
    assert folder.journal.read_bytes() == before


def test_a_store_from_before_version_1_is_renamed_and_filled_again(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "results" / "store.db"
    past.recorded(path.parent, past.TRIALS)
    before = [from_before(path, "store", "12")]
    said = call("results", "--trials", "--format", "csv")
    assert said.status == 0
    assert len(said.out.splitlines()) == 1 + len(past.TRIALS)
    assert "note: results/store.db was a store from before version 1; it is results/store.db.before-1 now" in said.err
    assert call("results").err == "", "only once"
    path.unlink()
    before.append(from_before(path, "store", "12"))
    said = call("runs")
    assert (said.status, said.err.count("store.db.before-1-2 now")) == (0, 1)
    assert [(path.parent / name).read_bytes() for name in ("store.db.before-1", "store.db.before-1-2")] == before


def test_a_run_stores_its_trials_in_place_of_an_older_store(tmp_path: Path, call: Call) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "results").mkdir()
    from_before(tmp_path / "results" / "store.db", "store", "12")
    said = call("run", "--on", "dry", "--quiet", "small.yaml")
    assert said.status == 0
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection:
        assert connection.execute("SELECT count(*) FROM trials").fetchone()[0] == 8
    assert (tmp_path / "results" / "store.db.before-1").exists()


def test_an_older_store_that_cannot_be_renamed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    before = from_before(path, "store", "12")
    monkeypatch.setattr("os.access", lambda *_: False)
    for opening in (SharedStore.open, SharedStore.existing):
        with pytest.raises(BadInput, match=f"from before version 1 of the shared store.* {LAST_COMMIT}"):
            opening(Address(file=path))
    assert path.read_bytes() == before


def test_of_two_processes_one_renames_an_older_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before = from_before(path, "store", "12")
    was = path.stat().st_ino
    assert put_aside(path, was) == tmp_path / "store.db.before-1"
    put_aside(path, was)  # before the other process has made a new one
    path.write_bytes(b"the new one of another process")
    put_aside(path, was)
    assert path.read_bytes() == b"the new one of another process"
    assert (tmp_path / "store.db.before-1").read_bytes() == before


@pytest.mark.parametrize("writable", [True, False])
def test_a_journal_from_the_future_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool) -> None:
    path = tmp_path / "journal.sqlite"
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update meta set value = '99' where key = 'version'")
        connection.commit()
    monkeypatch.setattr("os.access", lambda *_: writable)
    with pytest.raises(BadInput, match="written by a newer version"):
        Journal.existing(path)


OLDER = Path(__file__).parents[1] / "data" / "versions"


def dumped(path: Path, name: str) -> Path:
    """Make a database of an older version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((OLDER / name).read_text())
    return path


@pytest.mark.parametrize("writable", [True, False])
def test_a_journal_of_version_2_keeps_its_later_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    path = dumped(tmp_path / "journal.sqlite", "journal-2.sql")
    monkeypatch.setattr("os.access", lambda *_: writable)
    with Journal.existing(path) as journal:
        assert [(one.facts.lost_processor, one.facts.cpu_per_io) for one in journal.trials()] == [
            (0.1, None),
            (None, None),
        ]


@pytest.mark.parametrize("writable", [True, False])
def test_a_journal_of_version_1_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool) -> None:
    path = dumped(tmp_path / "journal.sqlite", "journal-1.sql")
    monkeypatch.setattr("os.access", lambda *_: writable)
    before = path.read_bytes()
    for _ in range(2):
        with Journal.existing(path) as journal:
            assert list(journal.trials()) == list(past.TRIALS[:2])
    assert (path.read_bytes() == before) is not writable


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize(("dump", "lost"), [("store-1.sql", None), ("store-2.sql", 0.1)])
def test_an_older_store_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool, dump: str, lost: float | None
) -> None:
    path = dumped(tmp_path / "store.db", dump)
    monkeypatch.setattr("os.access", lambda *_: writable)
    for _ in range(2):
        with SharedStore.existing(Address(file=path)) as store:
            (run,) = store.runs()
            (trial, *_) = store.trials(("cell", "read_bw", "lost_processor"), [run.id])
            assert (run.name, tuple(trial)) == ("run-1", ("c1", 2e8, lost))


def test_a_store_in_postgresql_is_converted_in_one_transaction(postgresql: Server, tmp_path: Path) -> None:
    address = address_of(postgresql.database("older"), tmp_path)
    with SharedStore.open(address) as store, store._transaction() as connection:
        added = [column for table in IN_STORE.metadata.sorted_tables for column in table.columns if since(column) > 1]
        execute(
            *(f"ALTER TABLE {column.table.name} DROP COLUMN {column.name}" for column in added),
            "UPDATE meta SET value = '1' WHERE key = 'version'",
        )(connection)
    past.recorded(tmp_path, past.TRIALS[:2])
    with SharedStore.existing(address) as store:
        assert bring_up_to_date(store, tmp_path) == []
    with SharedStore.existing(address) as store:
        (run,) = store.runs()
        assert len(list(store.trials(("cell", "read_bw", "lost_processor"), [run.id]))) == 2


def test_a_changed_row_of_version_1_is_still_found(tmp_path: Path) -> None:
    path = dumped(tmp_path / "journal.sqlite", "journal-1.sql")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials SET seconds = 1.5 WHERE round = 1")
    with pytest.raises(Damaged, match="another checksum"):
        Journal.existing(path)


def test_a_run_of_version_1_is_listed_and_resumed_by_its_journal(tmp_path: Path, call: Call) -> None:
    folder = past.recorded(tmp_path / "results", ())
    folder.journal.unlink()
    dumped(folder.journal, "journal-1.sql")
    assert "damaged" not in (listed := call("runs")).out + listed.err
    assert salvage(folder.journal).is_whole
    assert "raid5/chunk=64KiB" in call("results").out
    with closing(sqlite3.connect(folder.journal)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == (str(JOURNAL.version),)


def thing(meta: sa.Table, *steps: object, **views: str) -> Versioned:
    return Versioned("thing", meta.metadata, meta, "", "", "", steps, views)  # type: ignore[arg-type]


@pytest.fixture
def meta() -> sa.Table:
    return sa.Table("meta", sa.MetaData(), sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.Text))


def test_a_step_that_fails_leaves_the_older_version_whole(tmp_path: Path, meta: sa.Table) -> None:
    path = tmp_path / "some.sqlite"
    engine = sa.create_engine(f"sqlite:///{path}")

    def half(connection: sa.Connection) -> None:
        connection.execute(sa.text("insert into meta values ('half', 'done')"))
        raise RuntimeError("the power went")

    with engine.begin() as connection:
        thing(meta).prepare(connection, path)
    with pytest.raises(RuntimeError), engine.begin() as connection:
        thing(meta, lambda _: None, half).prepare(connection, path)
    engine.dispose()
    with closing(sqlite3.connect(path)) as raw:
        found = dict(raw.execute("select * from meta"))
    assert (found.get("half"), found["version"]) == (None, "1")


def test_a_step_may_rename_what_a_view_uses(tmp_path: Path, meta: sa.Table) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'some.sqlite'}")
    rename = execute("ALTER TABLE meta RENAME COLUMN value TO text")
    back = execute("ALTER TABLE meta RENAME COLUMN text TO value")
    old = thing(meta, v_meta="SELECT value AS it FROM meta")
    new = thing(meta, rename, back, v_meta="SELECT value FROM meta")
    for versions in (old, new):
        with engine.begin() as connection:
            versions.prepare(connection, "some.sqlite")
    with engine.begin() as connection:
        assert connection.execute(sa.text("select value from v_meta")).scalars().all()[:2] == ["thing", "3"]
    engine.dispose()


def test_wrong_data_stays_when_broken_trials_are_repeated(tmp_path: Path) -> None:
    ended = [Trial("c1", at, outcome, "why") for at, outcome in enumerate(Outcome, start=1)]
    with Journal.open(past.recorded(tmp_path, ended, 1, [past.READ]).journal) as journal:
        journal.take_back()
        assert {trial.outcome for trial in journal.trials()} == {Outcome.MEASURED, Outcome.CORRUPT}
