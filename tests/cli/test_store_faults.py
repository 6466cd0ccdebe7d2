"""A whole run, and whole answers, while something is wrong with the store or the folder."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.address import address_of
from matrix_runner.records.run_folder import load, run_folders
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past, server
from tests.support.forked import Forked
from tests.support.matrices import SMALL
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.machines.base import Step, StepResult
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import RunFolder
    from tests.support.command import Said

ROOT = Path(__file__).parents[2]
Call = Callable[..., "Said"]
root = os.geteuid() == 0


@contextmanager
def read_only(results: Path) -> Iterator[None]:
    """A folder that cannot be written, be one root or not."""
    if not root:
        for path in (results, *results.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield
        for path in (results, *results.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return
    kept = results.with_name("kept")
    results.rename(kept)
    with small_disk(results, "8m"):
        shutil.copytree(kept, results, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", results], check=True)
        yield


def test_a_read_only_folder_of_results(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    with read_only(tmp_path / "results"):
        said = call("results", "run-1")
        assert said.status == 0, said.err
        assert past.READ.name in said.out, "answered from the journals"
        (tmp_path / "small.yaml").write_text(SMALL)
        said = call("run", "--on", "dry", "small.yaml")
        assert said.status == 2
        assert "results" in said.err
        assert "cannot be written" in said.err
        (tmp_path / "elsewhere.db").touch()
        said = call("results", "--store", "elsewhere.db")
        assert said.status == 0
    with SharedStore.existing(address_of("elsewhere.db", tmp_path)) as store:
        assert len([*store.trials(("cell",))]) == 3


def test_a_read_only_folder_with_a_store_that_lacks_a_run(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    call("results")
    past.recorded(tmp_path / "results", past.TRIALS, 2)
    with read_only(tmp_path / "results"):
        said = call("results")
    assert said.status == 0
    assert "is read-only; it may lack trials of run-2" in said.err


def test_a_store_from_the_future(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    call("run", "--on", "dry", "small.yaml")
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection, connection:
        connection.execute("update meta set value = '99' where key = 'version'")
    said = call("run", "--on", "dry", "--fresh", "--quiet", "small.yaml")
    assert said.status == 3, "its history would end without a word"
    assert "results/store.db lacks trials" in said.err
    assert said.err.count("was written by a newer version of matrix") == 1
    for command in (("results",), ("compare", "latest~1", "latest"), ("history", "--only", "bs=4KiB")):
        said = call(*command)
        assert said.status == 2
        assert "results/store.db was written by a newer version of matrix" in said.err
        assert "→ use the newer program, or name another store with `--store`" in said.err
    (tmp_path / "another.db").touch()
    told = call("results", "--store", "another.db", "--format", "csv").out
    assert len(told.splitlines()) == 1 + 2 * 4, "nothing was lost: the journals have it all"


@pytest.mark.parametrize("damage", ["begins otherwise", "broken inside"])
def test_a_damaged_store_is_reported_and_can_be_rebuilt(call: Call, tmp_path: Path, damage: str) -> None:
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    whole = call("results")
    store = tmp_path / "results" / "store.db"
    content = bytearray(store.read_bytes())
    begin = 0 if damage == "begins otherwise" else 100
    content[begin : begin + 2000] = b"\xff" * 2000
    store.write_bytes(content)
    said = call("results")
    assert said.status == (2 if begin == 0 else 3)
    said_of_it = (
        "the store results/store.db is damaged" if begin else "results/store.db is not a store, or it is damaged"
    )
    assert said_of_it in said.err
    assert "journal of matrix" not in said.err
    assert "--fresh" not in said.err
    assert "move it away with its `-wal` and `-shm`: the next command makes it again" in said.err
    assert said.out == (whole.out if begin else ""), "the journals have the same answer"
    assert store.read_bytes() == content, "it may hold runs without a folder"
    for file in store.parent.glob("store.db*"):
        file.unlink()
    assert call("results") == whole


@pytest.mark.parametrize(
    "change",
    [
        "trials SET read_bw = 9e999",
        "trials SET read_bw = -1",
        "trials SET read_bw = 1e300",
        "trials SET read_bw = 'fast'",
        "trials SET outcome = x'00'",
        "cells SET axes = '[1]'",
        "cells SET name = x'00'",
        "runs SET confidence = 5",
        "runs SET least = 'many'",
        "runs SET environment = '7'",
        "latencies SET read_latencies = x'00', write_latencies = x'00'",
    ],
)
def test_a_value_of_another_program_is_no_figure(call: Call, tmp_path: Path, change: str) -> None:
    past.recorded(tmp_path / "results", past.TRIALS, 2)
    assert call("results").status == 0
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection, connection:
        assert connection.execute(f"UPDATE {change}").rowcount
    metric = ("--metric", "read_lat_p99", "--metric", "write_lat_p99") if "latencies" in change else ()
    said = call("results", *metric)
    assert said.status == 3, said
    assert "store.db is damaged" in said.err


@pytest.mark.parametrize("damaged", ["journal", "store"])
def test_the_list_of_runs_names_a_damaged_run(call: Call, tmp_path: Path, damaged: str) -> None:
    results = tmp_path / "results"
    folder, _ = past.recorded(results, past.TRIALS, 1), past.recorded(results, past.TRIALS, 2)
    assert call("results").status == 0
    file = folder.journal if damaged == "journal" else results / "store.db"
    where = "" if damaged == "journal" else " WHERE run = 'run1'"
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(f"UPDATE trials SET seconds = 9.5{where}").rowcount  # noqa: S608 - ours
    if damaged == "store":
        shutil.rmtree(folder.path)
    said = call("runs")
    assert said.status == 3
    assert "damaged: run-1 is left out" in said.err
    assert "run-2" not in said.err
    assert "sweep" in said.out


@pytest.mark.timeout(60)
def test_a_store_that_computes_is_refused_with_the_advice_for_a_store(call: Call, tmp_path: Path) -> None:
    past.recorded(tmp_path / "results", past.TRIALS, 1)
    assert call("results").status == 0
    loop = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT c.* FROM c, n"
    with closing(sqlite3.connect(tmp_path / "results" / "store.db")) as connection:
        connection.executescript(f"ALTER TABLE cells RENAME TO c; CREATE VIEW Cells AS {loop}")
    said = call("results")
    assert said.status == 2
    assert "store.db is not a store, or it is damaged\nit has a view named Cells\n" in said.err
    assert "if this is it, move it away with its `-wal` and `-shm`" in said.err


def test_a_file_of_another_kind_is_not_to_be_deleted(call: Call, tmp_path: Path) -> None:
    (tmp_path / "notes.yaml").write_text("name: mine\n" * 100)
    said = call("results", "--store", "notes.yaml")
    assert (said.status, "notes.yaml is not a store" in said.err) == (2, True)
    assert "→ name the store with `--store`" in said.err
    assert "delete" not in said.err


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_runs_at_once_on_one_store(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    url = str(tmp_path / "store.db")
    if kind == "postgresql":
        if server.MISSING:
            pytest.skip(server.MISSING)
        url = request.getfixturevalue("own_server").url()
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(
            SMALL.replace("name: small", f"name: {name}").replace("repeat: 2", "repeat: 8")
        )
    words = [["run", "--on", "dry", "--store", url, f"{name}.yaml"] for name in ("one", "two")]
    running = [Forked(one, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True) for one in words]
    said = [one.communicate() for one in running]
    assert [one.returncode for one in running] == [0, 0], said
    assert all("store" not in err for _, err in said)
    with SharedStore.existing(address_of(url, tmp_path)) as store:
        runs = {run.id: run.matrix for run in store.runs()}
        assert sorted(runs.values()) == ["one", "two"]
        found = [(runs[run], cell, round_number) for run, cell, round_number in store.trials(("run", "cell", "round"))]
    assert len(found) == len(set(found)) == 2 * 4 * 8


@pytest.fixture(scope="module")
def own_server() -> Iterator[server.Server]:
    with server.private_server() as running:
        yield running


@pytest.mark.skipif(bool(server.MISSING), reason=server.MISSING)
def test_a_database_server_that_stops_during_a_run(
    call: Call, own_server: server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matrix_runner.machines import dry

    answered, plausible = [], dry.plausible

    def answer(step: Step, slow: int) -> StepResult:
        if step.name == "measure":
            answered.append(step)
            if len(answered) == 3:
                own_server.stop()
        return plausible(step, slow)

    monkeypatch.setattr(dry, "plausible", answer)
    (tmp_path / "small.yaml").write_text(SMALL)
    url = own_server.database("away")
    try:
        said = call("run", "--on", "dry", "--store", url, "small.yaml")
    finally:
        own_server.start()
    assert said.status == 3
    assert "8 of 8" in said.out or "[8/8]" in said.out
    assert said.out.count("cannot write to the shared store") == 1
    assert "does not answer" in said.out
    again = call("results", "--store", url, "--trials", "--format", "csv")
    assert len(again.out.splitlines()) == 1 + 8, "the next command that reads adds what is missing"


def test_a_database_server_that_does_not_answer(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.records.store_sync.Feed.end.__defaults__", (0.05, 60.0))
    (tmp_path / "small.yaml").write_text(SMALL)
    with server.silent() as url:
        said = call("run", "--on", "dry", "--store", url, "small.yaml")
    assert said.status == 3
    assert "the store postgresql://lab@127.0.0.1" in said.out
    for thread in threading.enumerate():
        if thread.name == "feed":  # a process of its own would have ended with it
            thread.join()
    assert len(call("results", "--trials", "--format", "csv").out.splitlines()) == 1 + 8


def test_a_run_continues_while_a_reader_adds_it_to_a_store(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is in the middle of it, in another process as far as anybody can tell."""
    (tmp_path / "small.yaml").write_text(SMALL)
    assert call("run", "--on", "dry", "small.yaml").status == 0
    (path,) = run_folders(tmp_path / "results")
    load(path).update_manifest(finished=False)
    monkeypatch.setattr("matrix_runner.records.store_sync.Feed.end.__defaults__", (0.05, 60.0))
    went_on: list[Said] = []
    catch_up = SharedStore.catch_up

    def meanwhile(store: SharedStore, folder: RunFolder, journal: Journal) -> int:
        monkeypatch.setattr(SharedStore, "catch_up", catch_up)
        went_on.append(call("run", "--on", "dry", "small.yaml"))
        return catch_up(store, folder, journal)

    monkeypatch.setattr(SharedStore, "catch_up", meanwhile)
    with SharedStore.open(address_of("readers.db", tmp_path)) as store:
        assert bring_up_to_date(store, tmp_path / "results") == []
        assert len([*store.trials(("cell",))]) == 8
    assert went_on[0].status == 3, went_on[0].err
    assert "lacks trials; the journal of the run has them" in went_on[0].out
    assert "8 of 8" in went_on[0].out
