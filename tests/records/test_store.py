"""The shared store, in SQLite and in PostgreSQL: fed any number of times in any order, it holds what the journals hold."""

from __future__ import annotations

import dataclasses
import multiprocessing
import sqlite3
import zlib
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matrix_runner.answers.stored_samples import read_samples
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.records.address import Address, address_of
from matrix_runner.records.databases import _connection_cause
from matrix_runner.records.environment import Host
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.run_folder import load
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from matrix_runner.records.tables import IN_STORE
from matrix_runner.work.fio.output import Figures, Sync
from matrix_runner.work.metrics import WORK, work_bit
from tests.records import past, strategies
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from tests.records.server import Server

ALL = tuple(column.name for column in IN_STORE.trials.columns)


def content(address: Address) -> list[tuple[object, ...]]:
    """Every trial in the store, in full."""
    with SharedStore.existing(address) as store:
        return [tuple(str(value) for value in row) for row in store.trials(ALL)]


def identities(address: Address) -> set[tuple[str, str, int]]:
    with SharedStore.existing(address) as store:
        return {(run, cell, round_number) for run, cell, round_number in store.trials(("run", "cell", "round"))}


def catch_up(address: Address, results: Path) -> list[str]:
    with SharedStore.open(address) as store:
        return bring_up_to_date(store, results)


def test_numeric_notes_can_be_read_like_figures(address: Address, tmp_path: Path) -> None:
    trial = dataclasses.replace(past.TRIALS[0], **noted({"iowait": "0.4213", "evenness": "1.000"}))
    past.recorded(tmp_path / "results", [trial, *past.TRIALS[1:]], 1)
    catch_up(address, tmp_path / "results")
    with SharedStore.existing(address) as store:
        rows = [*store.trials(("cell", "round", "iowait", "evenness"))]
        assert rows == [("c1", 1, 0.4213, 1.0), ("c1", 2, None, None), ("c2", 1, None, None)]
        assert [*store.trials(("total_bw",))] == [(2e8,), (None,), (7e5,)], (
            "where one direction is missing, the other is all"
        )
        assert next(iter(store.trials(("notes", "iowait"), cells=["c1"]))) == (dict(trial.notes), 0.4213)


def rounds_by_cell(store: SharedStore) -> dict[str, list[int]]:
    found = [(one.cell.id, [row.round for row in one.trials]) for one in read_samples(store, store.runs(), ())]
    assert len(found) == len(dict(found))
    return dict(found)


def test_cells_and_trials_come_in_the_declared_order(address: Address, tmp_path: Path) -> None:
    """A comparison of 100,000 cells takes a quarter less time if they are in memory in the order of their use."""
    cells = [CellRow(id_, f"cell {id_}", {}, position) for position, id_ in enumerate(("c3", "c1", "c2"))]
    trials = [past.measured(id_, number, 1e8) for number in (2, 1) for id_ in ("c1", "c2", "c3")]
    past.recorded(tmp_path / "results", trials, 1, cells)
    catch_up(address, tmp_path / "results")
    keys = [("c3", 1), ("c3", 2), ("c1", 1), ("c1", 2), ("c2", 1), ("c2", 2)]
    with SharedStore.existing(address) as store:
        assert [one.cell.id for one in store.cells({"run1"})] == ["c3", "c1", "c2"]
        assert [*store.trials(("cell", "round"))] == keys
        assert [*rounds_by_cell(store).items()] == [("c3", [1, 2]), ("c1", [1, 2]), ("c2", [1, 2])]


@pytest.mark.parametrize("position", [None, 5])
def test_cells_of_one_position_stay_apart(address: Address, tmp_path: Path, position: int | None) -> None:
    cells = [CellRow(id_, f"cell {id_}", {}, position) for id_ in ("c2", "c1")]
    trials = [past.measured(id_, number, 1e8) for number in (1, 2) for id_ in ("c1", "c2")]
    past.recorded(tmp_path / "results", trials, 1, cells)
    catch_up(address, tmp_path / "results")
    with SharedStore.existing(address) as store:
        assert rounds_by_cell(store) == {"c1": [1, 2], "c2": [1, 2]}


def test_trials_are_fetched_in_parts(address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.records.store._FETCHED", 2)
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    catch_up(address, tmp_path / "results")
    keys = [("c1", 1), ("c1", 2), ("c2", 1)]
    with SharedStore.existing(address) as store:
        assert [*store.trials(("cell", "round"))] == keys
        assert [tuple(row)[:2] for row in store.trials(("cell", "round", "notes"))] == keys


def test_trials_are_read_before_their_histograms(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run adds trials at any time. Without the histogram of one, a cell would have no percentile."""
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    catch_up(address, tmp_path / "results")
    trials, latencies, order = SharedStore.trials, SharedStore.latencies, list[str]()

    def read_trials(self: SharedStore, *args: Any) -> Iterator[tuple[Any, ...]]:
        yield from trials(self, *args)
        order.append("trials")

    def read_latencies(self: SharedStore, *args: Any) -> Sequence[tuple[Any, ...]]:
        order.append("latencies")
        return latencies(self, *args)

    monkeypatch.setattr(SharedStore, "trials", read_trials)
    monkeypatch.setattr(SharedStore, "latencies", read_latencies)
    with SharedStore.existing(address) as store:
        assert read_samples(store, store.runs(), ("read_lat_p99",))
    assert order == ["trials", "latencies"]


def test_the_work_of_a_trial_is_what_it_did_in_each_direction(address: Address, tmp_path: Path) -> None:
    small, large = past.direction(4096.0, 1.0), past.direction(float(1 << 20), 1.0)
    works = {
        "read": (Figures(small, None, 1, 1, 1, 0), work_bit("read")),
        "mixed": (
            Figures(small, large, 1, 1, 1, 0),
            work_bit("read") | work_bit("write") | work_bit("write", large=True),
        ),
        "trim": (Figures(None, None, 1, 1, 1, 0, trim=large), work_bit("trim") | work_bit("trim", large=True)),
        "sync": (Figures(None, None, 1, 1, 1, 0, rebuild=Sync(1.0, 1e8)), work_bit("sync")),
    }
    trials = [dataclasses.replace(past.measured(name, 1, 1e8), figures=figures) for name, (figures, _) in works.items()]
    broken = Trial("broken", 1, Outcome.BROKEN, "no fio")
    cells = [CellRow(one.cell, one.cell, {}) for one in (*trials, broken)]
    past.recorded(tmp_path / "results", [*trials, broken], 1, cells)
    catch_up(address, tmp_path / "results")
    with SharedStore.existing(address) as store:
        assert dict(store.trials(("cell", WORK))) == {name: work for name, (_, work) in works.items()} | {"broken": 0}


def test_texts_of_a_manifest_are_stored_without_nul(address: Address, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", past.TRIALS[:1], 1, tags=("a\0b",), note="\0", matrix="m\0")
    assert catch_up(address, tmp_path / "results") == []
    with SharedStore.existing(address) as store:
        assert [(run.matrix, run.tags) for run in store.runs()] == [("m␀", ("a␀b",))]
        assert not store.damage


def test_it_holds_what_the_journals_hold(address: Address, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    past.recorded(tmp_path / "results", past.TRIALS[:1], 2, host=Host(kernel="6.12", cpu="", cores=1, memory=1))
    assert catch_up(address, tmp_path / "results") == []
    with SharedStore.existing(address) as store:
        assert [(run.id, run.name, run.host) for run in store.runs()] == [
            ("run2", "run-2", ""),
            ("run1", "run-1", "lab1"),
        ]
        assert store.runs()[1].environment["6.1.0: fio"] == "3.33"
        rows = [*store.trials(("run", "cell", "round", "outcome", "read_bw", "write_bw", "kernel"))]
        assert rows == [
            ("run1", "c1", 1, "measured", 2e8, None, "6.1.0"),
            ("run1", "c1", 2, "broken", None, None, ""),
            ("run1", "c2", 1, "measured", 4e5, 3e5, "6.1.0"),
            ("run2", "c1", 1, "measured", 2e8, None, "6.1.0"),
        ]
        assert [*store.trials(("reason",), runs=["run1"], cells=["c1"])] == [("",), ("a NUL ␀ said",)]
        assert [(one.run, one.cell) for one in store.cells(ids=["c1"])] == [("run1", past.READ), ("run2", past.READ)]


def test_an_empty_database_has_no_runs(address: Address) -> None:
    if address.file:
        address.file.parent.mkdir()
        address.file.touch()
    with SharedStore.existing(address) as store:
        assert store.runs() == []


def test_storing_a_run_twice_changes_no_row(address: Address, tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    catch_up(address, tmp_path)
    before = content(address)
    catch_up(address, tmp_path)
    with SharedStore.open(address) as store, Journal.existing(folder.journal) as journal:
        assert store.catch_up(folder, journal) == 0
        for trial in journal.trials():
            store.add("run1", journal.cells_of({trial.cell}), [trial])
    assert content(address) == before


def test_each_trial_of_the_journal_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.records.store._BATCH", 10)
    cells = [CellRow(f"c{number}", f"cell-{number}", {}) for number in range(20)]
    many = [past.measured(cell.id, round_number, 1e8) for round_number in range(10) for cell in cells]
    past.recorded(tmp_path, many, cells=cells)
    asked: list[set[str]] = []
    trials_of = Journal.trials_of

    def counted(journal: Journal, identities: Collection[tuple[str, int]]) -> list[Trial]:
        asked.append({cell for cell, _ in identities})
        return trials_of(journal, identities)

    monkeypatch.setattr(Journal, "trials_of", counted)
    assert catch_up(address_of(None, tmp_path), tmp_path) == []
    assert [len(one) for one in asked] == [1] * 20


def test_runs_that_are_not_finished_are_not_settled(address: Address, tmp_path: Path) -> None:
    past.recorded(tmp_path, past.TRIALS, finished=False)
    catch_up(address, tmp_path)
    with SharedStore.existing(address) as store:
        assert store.complete_states() == set()


def test_repeated_trials_replace_the_withdrawn_ones(address: Address, tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    catch_up(address, tmp_path)
    with Journal.open(folder.journal) as journal, SharedStore.open(address) as store:
        journal.take_back()
        store.catch_up(folder, journal)
        assert [*store.trials(("cell", "round"))] == [("c1", 1), ("c2", 1)]
        journal.record(dataclasses.replace(past.measured("c1", 2, 1e8), attempts=2))
        store.catch_up(folder, journal)
        assert [*store.trials(("round", "outcome", "attempts"), cells=["c1"])] == [
            (1, "measured", 1),
            (2, "measured", 2),
        ]


def test_a_finished_run_is_looked_at_once_until_its_manifest_changes(address: Address, tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    catch_up(address, tmp_path)
    folder.journal.unlink()  # would be missed if anybody looked
    assert catch_up(address, tmp_path) == []
    load(folder.path).update_manifest(ended="2026-03-04T06:00:00+00:00")
    (note,) = catch_up(address, tmp_path)
    assert "not completely in the store: run-1: there is no journal" in note


def test_a_run_with_an_active_feed_is_left_out(address: Address, tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS, finished=False)
    with folder.feeding(wait=True):
        assert catch_up(address, tmp_path) == []
    assert identities(address) == set()
    catch_up(address, tmp_path)
    assert len(identities(address)) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_trial_comes_back_as_it_was(address: Address, data: st.DataObject) -> None:
    cell = data.draw(strategies.cell_rows)
    trial = data.draw(strategies.trials(st.just(cell.id.replace("\0", "")), st.integers(0, 9)))
    trial = dataclasses.replace(trial, outcome=Outcome.MEASURED)
    cell = CellRow(trial.cell, cell.name, cell.axes)
    with SharedStore.open(address) as store:
        store.add("run", [cell], [trial])
        names = [f"read_{name}" for name in ("bw", "ios", "lat_p9999")]
        (row,) = [
            row[2:] for row in store.trials(("cell", "round", *names), ["run"]) if row[:2] == (trial.cell, trial.round)
        ]
    read = trial.figures.read if trial.figures else None
    assert row == ((read.bw, read.ios, read.lat_p9999) if read else (None, None, None))


def _feed(url: str, results: str, number: int, trials: int) -> None:
    """What one process does: a run of its own, trial by trial."""
    from pathlib import Path

    folder = past.recorded(Path(results), (), number, finished=False)
    with Journal.open(folder.journal) as journal, SharedStore.open(address_of(url, Path(results))) as store:
        store.catch_up(folder, journal, grows=True)
        for round_number in range(trials):
            trial = past.measured("c1", round_number, 1e8 + round_number)
            journal.record(trial)
            store.add(folder.manifest.id, [past.READ], [trial])


def test_several_processes_at_once_on_one_store(address: Address, tmp_path: Path) -> None:
    """All of them begin with a store that is not there yet, and none waits so long that it gives up."""
    url = str(address.file) if address.file else address.url.render_as_string(hide_password=False)  # type: ignore[union-attr]
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=_feed, args=(url, str(tmp_path / "results"), number, 40)) for number in (1, 2, 3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert identities(address) == {
        (f"run{number}", "c1", round_number) for number in (1, 2, 3) for round_number in range(40)
    }
    if address.file:
        with closing(sqlite3.connect(address.file)) as connection:
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_store_from_the_future(address: Address, tmp_path: Path) -> None:
    past.recorded(tmp_path, past.TRIALS)
    with SharedStore.open(address) as store, store._transaction(immediate=True) as connection:
        connection.execute(sa.update(IN_STORE.meta).filter_by(key="version").values(value="99"))
    with pytest.raises(BadInput, match="newer version") as caught:
        SharedStore.open(address)
    assert str(address) in caught.value.brief
    assert "version 99" in caught.value.details
    assert "--store" in caught.value.resolution


def test_a_database_of_something_else(address: Address, tmp_path: Path) -> None:
    with SharedStore.open(address) as store, store._transaction(immediate=True) as connection:
        past.drop_views(connection)
        IN_STORE.metadata.drop_all(connection)
        connection.execute(sa.text("create table bookmarks (url text)"))
    with pytest.raises(BadInput, match="but not a shared store of matrix"):
        SharedStore.open(address)


def test_a_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    """Also one that a link in a run folder leads to."""
    other, folder = tmp_path / "other.db", past.recorded(tmp_path / "results", past.TRIALS)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("create table jobs (url text)")
    before = other.read_bytes()
    folder.journal.unlink()
    folder.journal.symlink_to(other)
    for opened in (
        lambda: SharedStore.open(Address(file=other)),
        lambda: Journal.existing(folder.journal),
        lambda: Journal.open(folder.journal),
    ):
        with pytest.raises(BadInput, match="is a database, but not"):
            opened()
    assert other.read_bytes() == before


def test_a_journal_is_no_shared_store(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    with pytest.raises(BadInput, match="is a database, but not a shared store of matrix"):
        SharedStore.open(address_of(str(folder.journal), tmp_path))


@pytest.mark.parametrize(
    "broken", ["mysql://h/d", "", "postgresql://", "sqlite://", "/", ".", "sqlite:////", "postgresql://h/d?plugin=x"]
)
def test_addresses_that_cannot_be(broken: str, tmp_path: Path) -> None:
    if broken == "postgresql://":
        assert address_of(broken, tmp_path).url is not None  # libpq fills in the rest from its own variables
        return
    with pytest.raises(BadInput, match="is not valid") as caught:
        address_of(broken, tmp_path)
    assert "postgresql://USER@HOST/DATABASE" in caught.value.resolution


def test_no_password_is_ever_shown(tmp_path: Path) -> None:
    assert "secret" not in str(address_of("postgresql://me:secret@db/matrix", tmp_path))
    with pytest.raises(BadInput) as caught:
        address_of("mysql://me:secret@db/matrix", tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("postgresql://db/m?user=a&password=secret", "postgresql://db/m?password=***&user=a"),
        ("postgresql://db/m?sslpassword=secret&user=a", "postgresql://db/m?sslpassword=***&user=a"),
        ("postgresql://me:se%40cret@db:5432/m", "postgresql://me:***@db:5432/m"),
        ("postgresql://db:5432/m", "postgresql://db:5432/m"),
        ("postgresql://me@/m?host=/run/x", "postgresql://me@/m?host=%2Frun%2Fx"),
    ],
)
def test_passwords_are_hidden_in_each_part_of_an_address(told: str, shown: str, tmp_path: Path) -> None:
    assert str(address_of(told, tmp_path)).partition("?")[0] == shown.partition("?")[0]
    assert "secret" not in str(address_of(told, tmp_path))
    if "?" in shown:
        assert set(str(address_of(told, tmp_path)).partition("?")[2].split("&")) == set(
            shown.partition("?")[2].split("&")
        )


@pytest.mark.parametrize(
    "told",
    [
        "postgresql://lab:sec@ret@db/m",
        "postgresql://lab:secret/m",
        "mysql://lab:sec@ret@db/m?password=secret",
        "x://:ret@",
    ],
)
def test_a_refused_address_shows_no_password(told: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not valid") as caught:
        address_of(told, tmp_path)
    assert "ret" not in f"{caught.value} {caught.value.details}"


def test_an_odd_run_folder_does_not_hide_the_others(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = past.recorded(tmp_path, past.TRIALS, 1)
    past.recorded(tmp_path, past.TRIALS, 2)
    from matrix_runner.records import run_folder as run
    from matrix_runner.records import store_sync

    def loaded(folder: Path) -> run.RunFolder:
        if folder == odd.path:
            raise RecursionError("nobody thought of this")
        return run.load(folder)

    monkeypatch.setattr(store_sync, "load", loaded)
    assert catch_up(address, tmp_path) == ["not completely in the store: run-1: RecursionError: nobody thought of this"]
    assert {run_ for run_, *_ in identities(address)} == {"run2"}


def test_host_facts_may_have_unknown_keys(address: Address, tmp_path: Path) -> None:
    host = Host.model_validate(
        {"kernel": "6.1", "cpu": "", "cores": 1, "memory": 1, "disks": ["sda", "sdb"], "nothing": []}
    )
    past.recorded(tmp_path, past.TRIALS, host=host)
    assert catch_up(address, tmp_path) == []
    with SharedStore.existing(address) as store:
        assert store.runs()[0].environment["host.disks"] == "['sda', 'sdb']"


@pytest.mark.parametrize("writable", [True, False])
def test_a_folder_whose_name_is_no_utf8(
    address: Address, tmp_path: Path, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    folder.path.rename(tmp_path / "run-\udcff")
    if not writable:
        monkeypatch.setattr("matrix_runner.records.journal.os.access", lambda *_: False)
    assert catch_up(address, tmp_path) == []
    with SharedStore.open(address) as store:
        assert [run.name for run in store.runs()] == ["run-\\udcff"]
        assert len([*store.trials(("cell",))]) == 3


def test_the_environment_names_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_STORE", "postgresql://db/matrix")
    assert str(address_of(None, tmp_path)) == "postgresql://db/matrix"
    assert address_of("mine.db", tmp_path).file is not None
    monkeypatch.delenv("MATRIX_STORE")
    assert address_of(None, tmp_path).file == tmp_path / "store.db"


def test_servers_and_databases_that_are_not_there(postgresql: Server, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the database does not exist") as caught:
        SharedStore.open(address_of(postgresql.url("absent"), tmp_path))
    assert "createdb" in caught.value.resolution
    with pytest.raises(HarnessBroken, match="does not answer") as gone:
        SharedStore.open(address_of(f"postgresql://matrix@/x?host={tmp_path}", tmp_path))
    assert gone.value.details


def test_a_trigger_that_drops_trials_is_noticed(postgresql: Server, tmp_path: Path) -> None:
    url = postgresql.database(f"{tmp_path.name}-trigger")
    past.recorded(tmp_path, past.TRIALS)
    SharedStore.open(address_of(url, tmp_path)).close()
    body = "begin return null; end"
    _run(
        url,
        f"create function lose() returns trigger language plpgsql as '{body}'",
        "create trigger one before insert on trials for each row execute function lose()",
    )
    unread = catch_up(address_of(url, tmp_path), tmp_path)
    assert "does not keep all trials" in str(unread)


def test_a_histogram_of_another_program_does_not_get_into_the_store(tmp_path: Path) -> None:
    folder = past.recorded(tmp_path, past.TRIALS)
    with closing(sqlite3.connect(folder.journal)) as connection, connection:
        foreign = zlib.compress(b"[[1], [2, 3]]")
        connection.execute("UPDATE trials SET read_latencies = ? WHERE read_bw IS NOT NULL", (foreign,))
    with SharedStore.open(address_of(None, tmp_path)) as store:
        assert bring_up_to_date(store, tmp_path) == []
        assert "journal.sqlite is damaged" in store.damage["run-1"].brief
        assert [*store.trials(("cell",))] == []


def test_a_database_with_views_of_others_is_no_store(postgresql: Server, tmp_path: Path) -> None:
    url = postgresql.database(f"{tmp_path.name}-views")
    _run(url, "create view v_cells as select 7 as theirs")
    with pytest.raises(BadInput, match="not a shared store of matrix") as caught:
        SharedStore.open(address_of(url, tmp_path))
    assert "it has a view named v_cells" in caught.value.details
    _run(url, "select theirs from v_cells")


def test_a_server_that_refuses_a_connection_is_not_one_that_is_away(postgresql: Server, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="refuses the connection") as caught:
        SharedStore.open(address_of(f"{postgresql.url()}&options=-c%20nonsense%3D1", tmp_path))
    assert "nonsense" in caught.value.details
    url = postgresql.database(f"{tmp_path.name}-full")
    _run(url, f'alter database "{tmp_path.name}-full" connection limit 0', "create role guest login")
    with pytest.raises(HarnessBroken, match="has too many connections"):
        SharedStore.open(address_of(url.replace("matrix@", "guest@"), tmp_path))


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ('too many connections for role "guest"', "has too many connections"),
        ("the database system is starting up", "does not answer"),
        ("terminating connection due to administrator command", "does not answer"),
        ("canceling authentication due to timeout", "does not answer"),
        ('permission denied for database "m"', "does not allow this to its user"),
        ('role "guest" does not exist', "refuses the login"),
        ("unsupported frontend protocol", "refuses the connection"),
    ],
)
def test_the_words_of_a_server_are_understood(text: str, brief: str) -> None:
    assert brief in _connection_cause(f"connection failed: FATAL:  {text}").brief


def _run(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for one in statements:
            connection.execute(one)


def _rights(url: str) -> None:
    _run(url, "create role reader login", "grant select on all tables in schema public to reader")


def test_a_user_who_may_only_read(postgresql: Server, tmp_path: Path) -> None:
    url = postgresql.database(f"{tmp_path.name}-rights")
    past.recorded(tmp_path, past.TRIALS)
    catch_up(address_of(url, tmp_path), tmp_path)
    _rights(url)
    reader = address_of(url.replace("matrix@", "reader@"), tmp_path)
    with SharedStore.existing(reader) as store:
        assert len([*store.trials(("cell",))]) == 3
        with pytest.raises(BadInput, match="does not allow this to its user"):
            store.add("run1", [past.READ], [Trial("c1", 9, Outcome.BROKEN)])


def test_conditions_on_more_values_than_a_database_takes(address: Address, tmp_path: Path) -> None:
    past.recorded(tmp_path, past.TRIALS)
    catch_up(address, tmp_path)
    many: Collection[str] = [f"run{number}" for number in range(1, 100_000)]
    with SharedStore.existing(address) as store:
        assert len([*store.trials(("cell",), runs=many)]) == 3
