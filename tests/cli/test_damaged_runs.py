"""A damaged run, in its folder or in the store, is named and left out: the other runs are answered, and the exit is 3."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records import tables
from matrix_runner.records.run_folder import run_folders
from matrix_runner.records.tables import IN_JOURNAL
from tests.records import past
from tests.support.matrices import SMALL
from tests.support.sealing import reseal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

COMMANDS = (
    ("results",),
    ("history", "--only", "layout=raid5", "--runs", "run-*"),
    ("compare", "run-1", "run-3"),
)
ROWS = (
    "UPDATE trials SET outcome = 'meazured' WHERE {run}cell = 'c1'",
    "UPDATE trials SET seconds = -1, read_bw = -1 WHERE {run}cell = 'c1'",
    "UPDATE trials SET read_bw = 'fast' WHERE {run}cell = 'c1'",
    "UPDATE trials SET reason = CAST(x'ff' AS TEXT) WHERE {run}cell = 'c1'",
    "UPDATE trials SET cell = 'c7' WHERE {run}cell = 'c1' AND round = 1",
    "UPDATE cells SET name = CAST(x'ff' AS TEXT) WHERE {run}id = 'c1'",
    "UPDATE cells SET axes = '[1]' WHERE {run}id = 'c1'",
    "DELETE FROM trials WHERE {run}cell = 'c1' AND round = 1",
    "DELETE FROM trials WHERE {run}1",
)
RUNS = (
    "UPDATE runs SET confidence = 2.0 WHERE id = 'run2'",
    "UPDATE runs SET until = -1 WHERE id = 'run2'",
    "UPDATE runs SET host = CAST(x'ff' AS TEXT) WHERE id = 'run2'",
    "UPDATE runs SET environment = '[1]' WHERE id = 'run2'",
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        past.recorded(tmp_path / "results", past.TRIALS, number)
    return tmp_path / "results"


def change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


def check_left_out(call: Call) -> None:
    for command in COMMANDS:
        said = call(*command)
        assert said.status == 3, (command, said)
        assert "damaged: run-2 is left out: " in said.err or "damaged: run2 is left out: " in said.err
        assert "\n→ " in said.err
        assert "Traceback" not in said.err
        assert "raid5/chunk=64KiB/seq" in said.out
        assert "run-2" not in said.out


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (b'"confidence": 0.95', b'"confidence": 2.0'),
        (b'"confidence": 0.95', b'"confidence": 1e-320'),
        (b'"least": 2', b'"least": -2'),
        (b'"matrix": "sweep"', b'"matrix": "sw\xffep"'),
        (b'"matrix": "sweep"', b'"matrix": 7'),
        (b'"finds": {}', b'"finds": {"seq": {"x": "y"}}'),
        (b'"stacks": {}', b'"stacks": {"a": {"capacity": 1, "boxes": [["a", 1, "disks", 1, [[0, ""]]]]}}'),
        (b'"stacks": {}', b'"stacks": {"a": {"capacity": 1, "boxes": [["a", 1, "disks", 1, [[-1, ""]]]]}}'),
        (b'"id": "run2"', b'"id": "run1"'),
        (b'"id": "run2"', b'"id": "run9"'),
    ],
)
def test_a_manifest_with_an_impossible_value(results: Path, call: Call, text: bytes, other: bytes) -> None:
    manifest = results / "run-2" / "manifest.json"
    before = manifest.read_bytes()
    assert text in before
    manifest.write_bytes(before.replace(text, other))
    check_left_out(call)


def test_a_run_whose_manifest_got_another_id_does_not_count_twice(results: Path, call: Call) -> None:
    assert call("results").status == 0
    manifest = results / "run-2" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"id": "run2"', b'"id": "run9"'))
    check_left_out(call)
    assert 'someone edited it: write "id": "run2" again' in call("results").err
    manifest.write_bytes(manifest.read_bytes().replace(b'"id": "run9"', b'"id": "run2"'))
    said = call("results", "--format", "csv")
    assert (said.status, said.out.count("run-2")) == (0, 2), "one line for each cell"


@pytest.mark.parametrize("statement", ROWS)
def test_a_journal_with_an_impossible_row(results: Path, call: Call, statement: str) -> None:
    change(results / "run-2" / "journal.sqlite", statement.format(run=""))
    check_left_out(call)


@pytest.mark.parametrize("statement", [*ROWS, *RUNS])
def test_the_store_refuses_what_the_journal_refuses(results: Path, call: Call, statement: str) -> None:
    assert call("results").status == 0
    change(results / "store.db", statement.format(run="run = 'run2' AND "))
    for command in COMMANDS:
        said = call(*command)
        assert said.status == 3, (command, said)
        assert " is left out: the store results/store.db is damaged" in said.err
        assert "raid5/chunk=64KiB/seq" in said.out


@pytest.mark.parametrize(
    "change",
    [
        *("confidence = 2.0", "until = -1", "least = -7", "planned = -1", "started = 'x'", "started = 7"),
        *(
            "environment = '[1]'",
            "environment = '{\"a\": 1}'",
            "environment = '{'",
            'environment = \'{"practical": "2"}\'',
        ),
        *("tags = '[1]'", "tags = '{}'"),
    ],
)
def test_a_checksum_does_not_excuse_a_run_that_no_manifest_has(results: Path, call: Call, change: str) -> None:
    """Another program can write a right one, into a store that several hosts share."""
    assert call("results").status == 0
    with closing(sqlite3.connect(results / "store.db")) as connection, connection:
        connection.execute(f"UPDATE runs SET {change} WHERE id = 'run2'")  # noqa: S608
        reseal(connection, tables.runs)
    for command in (*COMMANDS, ("summary", "run-1"), ("site", "--to", "pages")):
        said = call(*command)
        assert said.status == 3, (command, said)
        assert "run-2 is left out: the store results/store.db is damaged" in said.err
        assert "Traceback" not in said.err


@pytest.mark.parametrize("statement", ["DELETE FROM latencies", "DELETE FROM jobs", "DELETE FROM cells"])
def test_deleted_rows_beside_trials_are_damage(results: Path, call: Call, statement: str) -> None:
    one = past.TRIALS[0]
    assert one.figures
    jobs = dict.fromkeys(("log", "data"), one.figures)
    past.recorded(results, [replace(one, figures=replace(one.figures, jobs=jobs)), *past.TRIALS[1:]], 4)
    asked = ("results", "run-*", "--metric", "read_lat_p99", "--metric", "data.read_bw")
    assert call(*asked).status == 0
    change(results / "store.db", f"{statement} WHERE run = 'run4'")
    said = call(*asked)
    assert said.status == 3
    assert "run-4 is left out: the store results/store.db is damaged" in said.err


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_run_that_lost_all_its_trials_in_the_store_is_named(results: Path, call: Call, has_folder: bool) -> None:
    assert call("results").status == 0
    change(results / "store.db", "DELETE FROM trials WHERE run = 'run2'")
    if not has_folder:
        rmtree(results / "run-2")
    for command in (("runs",), ("history", "--only", "layout=raid5")):
        said = call(*command)
        assert (said.status, "run-2 is left out: the store results/store.db is damaged" in said.err) == (3, True)


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_run_that_lost_all_its_rows_in_the_store_is_named(results: Path, call: Call, has_folder: bool) -> None:
    whole = call("results")
    for table in ("cells", "trials", "jobs", "latencies"):
        change(results / "store.db", f"DELETE FROM {table} WHERE run = 'run2'")  # noqa: S608
    change(results / "store.db", "DELETE FROM runs WHERE id = 'run2'")
    if has_folder:
        assert call("results") == whole, "its journal has them"
        return
    rmtree(results / "run-2")
    for command in (("runs",), *COMMANDS):
        said = call(*command)
        assert (said.status, "run-2 is left out: the store results/store.db is damaged" in said.err) == (3, True)
    assert call("runs", "rm", "--yes", "run-3").status == 0
    past.recorded(results, past.TRIALS, 2)
    rmtree(results / "run-1")
    said = call("results")
    assert (said.status, said.err) == (0, ""), "neither a removed run nor one without a folder is damage"


@pytest.mark.parametrize(
    "statement", ["DELETE FROM trials", "DELETE FROM trials WHERE round = 2", "DELETE FROM latencies"]
)
def test_a_run_that_never_finished_and_has_no_folder_lost_rows(results: Path, call: Call, statement: str) -> None:
    past.recorded(results, past.TRIALS, 4, finished=False)
    asked = ("results", "run-*", "--metric", "read_lat_p99")
    assert call(*asked).status == 0
    rmtree(results / "run-4")
    assert call(*asked).status == 0
    change(results / "store.db", statement)
    said = call(*asked)
    assert (said.status, "run-4 is left out: the store results/store.db is damaged" in said.err) == (3, True)


def test_lost_rows_of_the_store_come_from_the_journal_when_its_run_changes(results: Path, call: Call) -> None:
    whole = call("results", "--metric", "read_lat_p99")
    change(results / "store.db", "DELETE FROM latencies WHERE run = 'run3'")
    assert call("results", "run-3", "--metric", "read_lat_p99").status == 3
    assert call("runs", "tag", "run-3", "good").status == 0
    assert call("results", "--metric", "read_lat_p99") == whole


def test_a_resumed_run_does_not_measure_a_deleted_trial_again(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (run,) = run_folders(tmp_path / "results")
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished": true', '"finished": false'))
    change(run / "journal.sqlite", "DELETE FROM trials WHERE id = 3")
    said = call("run", "--on", "dry", "--quiet", "small.yaml")
    assert (said.status, "rows are missing" in said.err) == (3, True)
    assert "`matrix salvage" in said.err


@pytest.mark.parametrize("number", [4 * 10**12, 9 * 10**18])
def test_a_run_with_an_impossible_round_is_not_continued(call: Call, tmp_path: Path, number: int) -> None:
    """It looked at each round up to the last one."""
    (tmp_path / "small.yaml").write_text(SMALL)
    assert call("run", "--on", "dry", "--quiet", "small.yaml").status == 0
    (run,) = run_folders(tmp_path / "results")
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished": true', '"finished": false'))
    with closing(sqlite3.connect(run / "journal.sqlite")) as connection, connection:
        connection.execute("UPDATE trials SET round = ? WHERE id = 1", (number,))
        reseal(connection, IN_JOURNAL.trials)
    said = call("run", "--on", "dry", "--quiet", "small.yaml")
    assert (said.status, f"a trial is of round {number:,}" in said.err) == (3, True)


def test_an_answer_without_damage_ends_with_0(results: Path, call: Call) -> None:
    said = call("results")
    assert (said.status, said.err) == (0, "")
    assert results.is_dir()


@pytest.mark.parametrize(
    ("column", "value"), [("read_bw", "'fast'"), ("read_lat_p99", "x'ff'"), ("attempts", "1.5"), ("reason", "x'ff'")]
)
def test_a_checksum_does_not_excuse_a_value_of_another_kind(results: Path, call: Call, column: str, value: str) -> None:
    """Another program can write a right one: a report refuses its row as all other commands do."""
    with closing(sqlite3.connect(results / "run-2" / "journal.sqlite")) as connection, connection:
        connection.execute(f"UPDATE trials SET {column} = {value} WHERE cell = 'c1'")  # noqa: S608
        reseal(connection, IN_JOURNAL.trials)
    said = call("report", "run-2")
    assert said.status == 3
    assert f"{column} in trials is of the kind " in said.err
    check_left_out(call)


@pytest.mark.parametrize("place", ["journal", "store"])
@pytest.mark.parametrize(
    ("table", "change", "named"),
    [
        ("trials", "read_bw = 9e999 WHERE cell = 'c1'", "read_bw in trials is inf"),
        ("trials", "read_lat_p99 = -1 WHERE cell = 'c1'", "read_lat_p99 in trials is -1.0"),
        ("trials", "iowait = 1e-40 WHERE cell = 'c1'", "iowait in trials is 1e-40"),
        ("trials", "attempts = 9223372036854775807 WHERE round = 1", "attempts in trials is 9223372036854775807"),
        ("trials", "round = -1 WHERE round = 1", "round in trials is -1"),
        ("cells", "position = -1 WHERE id = 'c1'", "position in cells is -1"),
        ("trials", "reason = printf('%.2000000c', 'x') WHERE cell = 'c1'", "reason in trials has 2,000,000 characters"),
        ("trials", "host = printf('%.2000000c', 'x') WHERE cell = 'c1'", "host in trials has 2,000,000 characters"),
    ],
)
def test_a_checksum_does_not_excuse_a_value_that_is_none_of_ours(
    results: Path, call: Call, place: str, table: str, change: str, named: str
) -> None:
    """The checksum takes an infinite number for a null. Such a rate ended report, summary and site with a traceback.

    A report of a reason of 50 MB took more than 1.8 GB of memory.
    """
    assert call("results").status == 0
    database = results / ("store.db" if place == "store" else "run-2/journal.sqlite")
    both = tables.IN_STORE if place == "store" else IN_JOURNAL
    with closing(sqlite3.connect(database)) as connection, connection:
        of_run = "run = 'run2'" if place == "store" else "true"
        connection.execute(f"UPDATE {table} SET {change} AND {of_run}")  # noqa: S608
        reseal(connection, both.metadata.tables[table])
    if place == "journal":
        (results / "store.db").unlink()
    said = call("results")
    assert said.status == 3
    assert "run-2 is left out: " in said.err
    assert named in said.err
    assert "raid5/chunk=64KiB/seq" in said.out
