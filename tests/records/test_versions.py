"""Databases of other versions: an older or newer one is refused and stays as it is; an older store is renamed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from matrix_runner.base.errors import BadInput, Damaged
from matrix_runner.records import store as stores
from matrix_runner.records import tables, versions
from matrix_runner.records.address import Address, address_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.observe import read_progress
from matrix_runner.records.record import Outcome, Trial, TrialFacts
from matrix_runner.records.salvage import salvage
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.records.tables import IN_JOURNAL, IN_STORE, OF_RUNS, SUM, data_columns
from matrix_runner.records.versions import _LAST_COMMIT, Versioned, execute, put_aside
from tests.records import past
from tests.support.matrices import SMALL
from tests.support.sealing import reseal

if TYPE_CHECKING:
    from tests.records.server import Server
    from tests.support.command import Call


#: The facts of a trial that steps added.
_ADDED = [one.name for one in fields(TrialFacts)[-3:]]


def age(path: Path, version: int = 3) -> bytes:
    """Make a journal or a store one of an older version."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(version),))
        connection.commit()
    return path.read_bytes()


def oldest(path: Path, versioned: Versioned) -> None:
    """Make a journal or a store one of the oldest version that is read: fewer facts of a trial, and no sums."""
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        versioned._drop_views(connection)
        for name in _ADDED:
            connection.execute(sa.text(f"ALTER TABLE trials DROP COLUMN {name}"))
        connection.execute(sa.text(f"DELETE FROM meta WHERE key = '{SUM}'"))  # noqa: S608
        if versioned is versions.STORE:
            connection.execute(sa.text("DELETE FROM meta WHERE key LIKE 'run %'"))
            for name in OF_RUNS:
                connection.execute(sa.text(f"ALTER TABLE runs DROP COLUMN {name}_{SUM}"))
        versioned._make_views(connection)
        for key, value in (("statements", versioned._statements(connection)), ("version", "4")):
            connection.execute(sa.update(versioned.meta).filter_by(key=key).values(value=value))
    engine.dispose()


def test_a_journal_from_before_the_oldest_version_is_refused_and_stays_as_it_is(tmp_path: Path, call: Call) -> None:
    folder = past.recorded(tmp_path / "results", past.TRIALS)
    before = age(folder.journal)
    for read in (Journal.open, Journal.existing, salvage):
        with pytest.raises(BadInput, match=f"from before version 4 of the journal.* {_LAST_COMMIT}") as caught:
            read(folder.journal)
        assert "`--fresh`" in caught.value.resolution
    with pytest.raises(BadInput, match=_LAST_COMMIT):
        read_progress(folder)
    for command in ("report", "status", "salvage"):
        said = call(command, str(folder.path))
        assert _LAST_COMMIT in said.err, command
    assert _LAST_COMMIT in call("runs").err
    said = call("results")
    assert f"not completely in the store: {folder.path.name}" in said.err
    assert _LAST_COMMIT in said.err
    assert folder.journal.read_bytes() == before


def older_store(path: Path) -> bytes:
    path.parent.mkdir(exist_ok=True)
    SharedStore.open(Address(file=path)).close()
    return age(path)


def test_a_store_from_before_the_oldest_version_is_renamed_and_filled_again(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "results" / "store.db"
    past.recorded(path.parent, past.TRIALS)
    before = [older_store(path)]
    said = call("results", "--trials", "--format", "csv")
    assert said.status == 0
    assert len(said.out.splitlines()) == 1 + len(past.TRIALS)
    assert "note: results/store.db is from before version 4 of the shared store" in said.err
    assert "it is results/store.db.before-4 now" in said.err
    assert call("results").err == "", "only once"
    path.unlink()
    before.append(older_store(path))
    said = call("runs")
    assert (said.status, said.err.count("store.db.before-4-2 now")) == (0, 1)
    assert [(path.parent / name).read_bytes() for name in ("store.db.before-4", "store.db.before-4-2")] == before


def test_a_run_stores_its_trials_in_place_of_an_older_store(tmp_path: Path, call: Call) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    older_store(tmp_path / "results" / "store.db")
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection:
        assert connection.execute("SELECT count(*) FROM trials").fetchone()[0] == 8
    assert (tmp_path / "results" / "store.db.before-4").exists()


def test_an_older_store_that_cannot_be_renamed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    before = older_store(path)
    monkeypatch.setattr("os.access", lambda *_: False)
    for opening in (SharedStore.open, SharedStore.existing):
        with pytest.raises(BadInput, match=f"from before version 4 of the shared store.* {_LAST_COMMIT}") as caught:
            opening(Address(file=path))
        assert "move it away" in caught.value.resolution
    assert path.read_bytes() == before


def test_of_two_processes_one_renames_an_older_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before = older_store(path)
    was = path.stat().st_ino
    assert put_aside(path, was) == tmp_path / "store.db.before-4"
    put_aside(path, was)  # before the other process has made a new one
    path.write_bytes(b"the new one of another process")
    put_aside(path, was)
    assert path.read_bytes() == b"the new one of another process"
    assert (tmp_path / "store.db.before-4").read_bytes() == before


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


def test_a_trial_that_is_missing_already_is_missed_after_a_conversion(tmp_path: Path) -> None:
    journal = past.recorded(tmp_path, past.TRIALS).journal
    with closing(sqlite3.connect(journal)) as connection, connection:
        first = "SELECT sum(crc + 1) FROM (SELECT crc FROM trials UNION ALL SELECT crc FROM jobs)"
        connection.execute(f"UPDATE meta SET value = ({first}) WHERE key = 'sum'")  # noqa: S608
        connection.execute("UPDATE meta SET value = '7' WHERE key = 'version'")
    before = journal.read_bytes()
    with Journal.existing(journal) as converted:
        assert list(converted.trials()) == list(past.TRIALS)
    journal.write_bytes(before)
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("DELETE FROM trials WHERE id = 1")
    for _ in range(2):
        with pytest.raises(Damaged, match="rows are missing or added"):
            Journal.existing(journal)


@pytest.mark.parametrize("writable", [True, False])
def test_an_older_version_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool) -> None:
    for one in (IN_JOURNAL, IN_STORE):
        assert [*data_columns(one.trials)[-len(_ADDED) :]] == _ADDED, "so checksums stay right"
    folder = past.recorded(tmp_path, past.TRIALS)
    address = Address(file=tmp_path / "store.db")
    with SharedStore.open(address) as store:
        bring_up_to_date(store, tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("UPDATE runs SET cells_sum = NULL, trials_sum = NULL, jobs_sum = NULL, latencies_sum = NULL")
        reseal(connection, tables.runs)
        connection.commit()
    oldest(folder.journal, versions.JOURNAL)
    oldest(tmp_path / "store.db", versions.STORE)
    assert read_progress(folder, checked=True).trials == len(past.TRIALS)
    monkeypatch.setattr("os.access", lambda *_: writable)
    files = folder.journal, tmp_path / "store.db"
    before = [file.read_bytes() for file in files]
    for _ in range(2):
        with Journal.existing(folder.journal) as converted:
            assert list(converted.trials()) == list(past.TRIALS)
        with SharedStore.existing(address) as store:
            (run,) = store.runs()
            assert len(list(store.trials(("cell", "read_bw"), [run.id]))) == len(past.TRIALS)
    for file, content, version in zip(files, before, "88", strict=True):
        with closing(sqlite3.connect(file)) as connection:
            found = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
            assert found == (version if writable else "4",)
            named = connection.execute("SELECT count(*) FROM meta WHERE key = 'run run1'").fetchone()
            assert named == (int(file.name == "store.db" and writable),)
            assert _ADDED[-1] in str(connection.execute("SELECT sql FROM sqlite_master").fetchall()) or not writable
        assert writable or file.read_bytes() == content


def test_a_store_in_postgresql_is_converted_in_one_transaction(
    postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = address_of(postgresql.database("older"), tmp_path)
    past.recorded(tmp_path, past.TRIALS)
    with SharedStore.open(address) as store:
        assert bring_up_to_date(store, tmp_path) == []
    step = execute("ALTER TABLE trials ADD COLUMN later FLOAT")
    monkeypatch.setattr(stores, "STORE", replace(versions.STORE, steps=(*versions.STORE.steps, step)))
    with SharedStore.existing(address) as store:
        (run,) = store.runs()
        assert len(list(store.trials(("cell", "read_bw"), [run.id]))) == len(past.TRIALS)
        with store._transaction() as connection:
            assert connection.execute(sa.text("SELECT count(later) FROM trials")).scalar() == 0


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
    assert (found.get("half"), found["version"]) == (None, "4")


def test_a_step_may_rename_what_a_view_uses(tmp_path: Path, meta: sa.Table) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'some.sqlite'}")
    rename = execute("ALTER TABLE meta RENAME COLUMN value TO text")
    back = execute("ALTER TABLE meta RENAME COLUMN text TO value")
    old = thing(meta, v_meta="SELECT value AS it FROM meta")
    new = thing(meta, rename, back, v_meta="SELECT value FROM meta")
    for one in (old, new):
        with engine.begin() as connection:
            one.prepare(connection, "some.sqlite")
    with engine.begin() as connection:
        assert connection.execute(sa.text("select value from v_meta")).scalars().all()[:2] == ["thing", "6"]
    engine.dispose()


def test_wrong_data_stays_when_broken_trials_are_repeated(tmp_path: Path) -> None:
    ended = [Trial("c1", at, outcome, "why") for at, outcome in enumerate(Outcome, start=1)]
    with Journal.open(past.recorded(tmp_path, ended, 1, [past.READ]).journal) as journal:
        journal.take_back()
        assert {trial.outcome for trial in journal.trials()} == {Outcome.MEASURED, Outcome.CORRUPT}
