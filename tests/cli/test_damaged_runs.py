"""A damaged run, in its folder or in the store, is named and left out: the other runs are answered, and the exit is 3."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.tables import IN_JOURNAL, crc_of, data_columns
from tests.records import past

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


def test_an_answer_without_damage_ends_with_0(results: Path, call: Call) -> None:
    said = call("results")
    assert (said.status, said.err) == (0, "")
    assert results.is_dir()


@pytest.mark.parametrize(
    ("column", "value"), [("read_bw", "'fast'"), ("read_lat_p99", "x'ff'"), ("attempts", "1.5"), ("reason", "x'ff'")]
)
def test_a_checksum_does_not_excuse_a_value_of_another_kind(results: Path, call: Call, column: str, value: str) -> None:
    """Another program can write a right one: a report refuses its row as all other commands do."""
    journal, names = results / "run-2" / "journal.sqlite", data_columns(IN_JOURNAL.trials)
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute(f"UPDATE trials SET {column} = {value} WHERE cell = 'c1'")  # noqa: S608
        rows = connection.execute(f"SELECT id, {', '.join(names)} FROM trials").fetchall()  # noqa: S608
        seals = [(crc_of(row[1:]), row[0]) for row in rows]
        connection.executemany("UPDATE trials SET crc = ? WHERE id = ?", seals)
    said = call("report", "run-2")
    assert said.status == 3
    assert f"{column} in trials is of the kind " in said.err
    check_left_out(call)
