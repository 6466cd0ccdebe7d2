"""Databases of other versions of the program: older ones are brought up to date with their data, newer ones refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from matrix_runner.base.errors import BadInput
from matrix_runner.records.databases import Versioned, execute
from matrix_runner.records.journal import Journal
from matrix_runner.records.observe import read_progress
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.run_folder import create
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_tables import Address
from tests.records import past

#: The notes of the first trial of `journal-3.sql`, with the present names.
NOTES = {"kernel": "6.1.0-28-amd64", "host_limited_share": "0.0900", "host_limited": '9.0% ("late")'}
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
        assert journal.retry_counts() == {}
        assert journal.troubles() == []
        assert [trial.round for trial in journal.take_back()] == [2]
    assert version(path) == "13"


@pytest.mark.parametrize("name", ["journal-1.sql", "journal-2.sql", "journal-3.sql"])
def test_an_older_journal_that_may_not_be_written_is_read_all_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an archive, say: brought up to date in memory, and left as it is."""
    path = from_text(tmp_path / "journal.sqlite", name)
    with Journal.existing(from_text(tmp_path / "other.sqlite", name)) as journal:
        wanted = (
            list(journal.trials()),
            journal.cells(),
            journal.attempts(),
            journal.retry_counts(),
            journal.troubles(),
        )
        took = journal.mean_times()
    before = path.read_bytes()
    monkeypatch.setattr("os.access", lambda *_: False)
    for _ in range(2):
        with Journal.existing(path) as journal:
            assert (
                *(list(journal.trials()), journal.cells(), journal.attempts()),
                *(journal.retry_counts(), journal.troubles()),
            ) == wanted
            assert journal.mean_times() == took
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["journal.sqlite", "other.sqlite"]


def test_a_journal_from_the_future_that_may_not_be_written_is_refused_as_one_that_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.sqlite"
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update meta set value = '99'")
        connection.commit()
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(BadInput, match="written by a newer version"):
        Journal.existing(path)


def test_a_journal_of_version_2_has_no_histograms_and_no_tail_that_was_hardly_met(tmp_path: Path) -> None:
    path = from_text(tmp_path / "journal.sqlite", "journal-2.sql")
    with Journal.open(path) as journal:
        first, second, _, broken = journal.trials()
        sides = [trial.figures.read for trial in (first, second) if trial.figures]
        assert [side and (side.bw, side.lat_p90, side.lat_p99) for side in sides] == [
            (2e8, None, 9e6),
            (2.1e8, None, 9e6),
        ]
        assert [side and (side.lat_p999, side.lat_p9999, side.latencies) for side in sides] == [(9.5e6, None, None)] * 2
        assert broken.outcome is Outcome.BROKEN
        assert journal.troubles() == ["the store was away"]
        again = past.measured("c1", 3, 1e8)
        journal.record(again)
        assert list(journal.trials())[-1] == again
    assert version(path) == "13"


def test_a_journal_of_version_3_has_older_names(tmp_path: Path) -> None:
    path = from_text(tmp_path / "journal.sqlite", "journal-3.sql")
    with Journal.existing(path) as journal:
        first, second = journal.trials()
        assert (first.round, second.round, first.notes) == (1, 2, NOTES)
        assert journal.retry_counts() == {("c1", 2): 2}
        assert journal.set_up_times() == [("single", 0.5)]
        assert [(one.round, one.attempt) for one in journal.unended_attempts()] == [(3, 1)]
    with closing(sqlite3.connect(path)) as connection:
        assert dict(connection.execute("select * from meta")) == {"schema": "13", "synthetic": "true"}


def test_the_progress_of_an_older_journal_is_read_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    folder = create(tmp_path, past.manifest())
    before = from_text(folder.journal, "journal-3.sql").read_bytes()
    progress = read_progress(folder, datetime(2026, 1, 1, tzinfo=UTC))
    assert [(one.round, one.attempt) for one in progress.underway] == [(3, 1)]
    assert progress.last is not None
    assert (progress.last.round, progress.last.outcome) == (2, "broken")
    assert folder.journal.read_bytes() == before


def test_a_journal_of_version_1_that_has_retried_already(tmp_path: Path) -> None:
    path = from_text(tmp_path / "journal.sqlite", "journal-1.sql")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "create table retried (id integer primary key, cell varchar not null, block integer not null, attempts "
            "integer not null, outcome varchar not null, reason text not null, started varchar not null)"
        )
        connection.execute("insert into retried values (1, 'c1', 2, 3, 'broken', 'lost', '')")
    with Journal.open(path) as journal:
        assert journal.retry_counts() == {("c1", 2): 3}


def test_a_step_that_fails_leaves_the_older_version_whole(tmp_path: Path) -> None:
    tables = sa.MetaData()
    meta = sa.Table("meta", tables, sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.Text))
    path = tmp_path / "some.sqlite"
    engine = sa.create_engine(f"sqlite:///{path}")

    def half(connection: sa.Connection) -> None:
        connection.execute(sa.text("insert into meta values ('half', 'done')"))
        raise RuntimeError("the power went")

    old = Versioned("thing", tables, meta, stranger="", newer="")
    new = Versioned("thing", tables, meta, stranger="", newer="", steps=(lambda _: None, half))
    with engine.begin() as connection:
        old.prepare(connection, path)
    with pytest.raises(RuntimeError), engine.begin() as connection:
        new.prepare(connection, path)
    engine.dispose()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("select * from meta").fetchall() == [("schema", "1")]


def test_a_step_may_rename_what_a_view_uses(tmp_path: Path) -> None:
    tables = sa.MetaData()
    meta = sa.Table("meta", tables, sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.Text))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'some.sqlite'}")
    rename = execute("ALTER TABLE meta RENAME COLUMN value TO text")
    back = execute("ALTER TABLE meta RENAME COLUMN text TO value")
    old = Versioned("thing", tables, meta, "", "", views={"v_meta": "SELECT value AS it FROM meta"})
    new = Versioned("thing", tables, meta, "", "", steps=(rename, back), views={"v_meta": "SELECT value FROM meta"})
    for versions in (old, new):
        with engine.begin() as connection:
            versions.prepare(connection, "some.sqlite")
    with engine.begin() as connection:
        assert connection.execute(sa.text("select value from v_meta")).scalars().all() == ["3"]
    engine.dispose()


def without_trims(path: Path, tables: tuple[str, ...], meta: str, version_before: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        past.drop_views(connection)
        for table in tables:
            names = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            for name in names:
                if name.startswith("trim_"):
                    connection.execute(f"alter table {table} drop column {name}")
        connection.execute(f"update {meta} set value = ? where key = 'schema'", [version_before])  # noqa: S608 - ours
        connection.commit()


def test_older_journals_and_stores_get_the_columns_of_trims(tmp_path: Path) -> None:
    before = past.measured("c1", 1, 2e8)
    folder, file = past.recorded(tmp_path, [before], 1, [past.READ]), tmp_path / "store.db"
    SharedStore.open(Address(file=file)).close()
    without_trims(file, ("trials", "latencies", "jobs"), "store", "8")
    without_trims(folder.journal, ("trials", "jobs"), "meta", "9")
    with Journal.open(folder.journal) as journal, SharedStore.open(Address(file=file)) as store:
        assert [trial.figures for trial in journal.trials()] == [before.figures]
        store.catch_up(folder, journal)
        assert [*store.trials(["read_bw", "total_bw", "trim_bw"])] == [(2e8, 2e8, None)]


def test_wrong_data_stays_when_broken_trials_are_repeated(tmp_path: Path) -> None:
    ended = [Trial("c1", at, outcome, "why") for at, outcome in enumerate(Outcome, start=1)]
    with Journal.open(past.recorded(tmp_path, ended, 1, [past.READ]).journal) as journal:
        journal.take_back()
        assert {trial.outcome for trial in journal.trials()} == {Outcome.MEASURED, Outcome.CORRUPT}
