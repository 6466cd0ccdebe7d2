"""The archive of a large run: its files, their repeats, kills, and the program `sqlite3` as another reader."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.records.cell_files import Archive
from matrix_runner.records.files import ARCHIVE

CELL = "raid5/chunk=16KiB/random"
SCRIPTS = {"1-set-up.sh": "# Builds\ntrue\n", "2-tune.sh": f"# Tunes: {CELL}\ntrue\n"}


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - of this test


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ARCHIVE


def test_files_are_those_of_a_folder(path: Path) -> None:
    with Archive.open(path) as archive:
        folder = archive.put(CELL, 1, SCRIPTS, {"fio.json": "{}\r\n\udcff", "set-up.log": ""})
        assert folder == f"cells/{CELL}/trial-1"
        assert archive.of_cell(CELL) == {
            "1-set-up.sh": b"# Builds\ntrue\n",
            "2-tune.sh": f"# Tunes: {CELL}\ntrue\n".encode(),
            "trial-1/fio.json": b"{}\r\n?",
            "trial-1/set-up.log": b"",
        }
        assert archive.read(f"{folder}/fio.json") == b"{}\r\n?"
        assert archive.read(f"{folder}/profile.csv") is None
        assert archive.of_cell("raid5") == {}


def test_equal_scripts_of_different_cells_are_stored_once(path: Path) -> None:
    with Archive.open(path) as archive:
        for number in range(20):
            cell = f"raid5/chunk={number}KiB/random"
            archive.put(cell, 1, {"2-tune.sh": f"# Tunes: {cell}\ntrue\n"}, {"read-back.tsv": "same\n"})
        assert archive.of_cell("raid5/chunk=7KiB/random")["2-tune.sh"] == b"# Tunes: raid5/chunk=7KiB/random\ntrue\n"
    assert count(path, "texts") == 2


def test_a_text_with_the_sign_for_the_name_stays_as_it_is(path: Path) -> None:
    text = f"\x01 {CELL}\n"
    with Archive.open(path) as archive:
        archive.put(CELL, 1, {"2-tune.sh": text}, {"tune.log": text})
        assert set(archive.of_cell(CELL).values()) == {text.encode()}


def test_a_script_that_differs_goes_to_the_folder_of_its_trial(path: Path) -> None:
    with Archive.open(path) as archive:
        archive.put(CELL, 1, SCRIPTS, {})
        archive.put(CELL, 2, {**SCRIPTS, "1-set-up.sh": "false\n"}, {"fio.json": "{}"})
        found = dict(archive.of_cell(CELL))
    assert found["1-set-up.sh"] == b"# Builds\ntrue\n"
    assert {name for name in found if name.startswith("trial")} == {"trial-2/1-set-up.sh", "trial-2/fio.json"}


def test_a_second_attempt_replaces_outputs_and_keeps_logs(path: Path) -> None:
    with Archive.open(path) as archive:
        archive.put(CELL, 1, {}, {"lost-1.log": "gone", "fio.json": "old"})
        archive.put(CELL, 1, SCRIPTS, {"fio.json": "new"})
        found = dict(archive.of_cell(CELL))
    assert (found["trial-1/fio.json"], found["trial-1/lost-1.log"]) == (b"new", b"gone")


def test_trials_are_set_aside(path: Path) -> None:
    with Archive.open(path) as archive:
        archive.put(CELL, 1, SCRIPTS, {"fio.json": "old"})
        archive.set_aside(CELL, 1, 2)
        archive.put(CELL, 1, SCRIPTS, {"fio.json": "new"})
        found = dict(archive.of_cell(CELL))
    assert (found["trial-1/fio.json"], found["trial-1-attempt-2/fio.json"]) == (b"new", b"old")


def test_a_failed_trial_leaves_no_file_in_the_archive(path: Path) -> None:
    with Archive.open(path) as archive:
        with pytest.raises(BadInput, match="cannot name a file"):
            archive.put(CELL, 1, SCRIPTS, {"../fio.json": "x"})
        assert archive.of_cell(CELL) == {}
        archive.put(CELL, 1, SCRIPTS, {})
        assert set(archive.of_cell(CELL)) == set(SCRIPTS)
    with Archive.existing(path) as archive:
        assert archive.of_cell(CELL)["1-set-up.sh"] == b"# Builds\ntrue\n"


def test_trials_of_a_killed_process_are_there(path: Path) -> None:
    """A kill leaves the log of SQLite beside the file."""
    with Archive.open(path) as archive:
        archive.put(CELL, 1, SCRIPTS, {"fio.json": "x" * 5000})
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", path.with_name(f"killed.sqlite{suffix}"))
    with Archive.existing(path.with_name("killed.sqlite")) as archive:
        assert len(archive.of_cell(CELL)) == 3


def test_damage_is_reported(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises((HarnessBroken, BadInput), match=ARCHIVE), Archive.open(path):
        pass


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="sqlite3 is not installed: apt install sqlite3")
def test_sqlite3_extracts_the_files(path: Path, tmp_path: Path) -> None:
    texts = {"fio.json": "{}" * 4000, "set-up.log": "", "umlaut.log": "ü\n"}
    with Archive.open(path) as archive:
        archive.put(CELL, 1, SCRIPTS, texts)
        archive.put("raid5/other", 1, SCRIPTS, {})
    out = tmp_path / "out"
    out.mkdir()
    query = f"SELECT writefile(name, content) FROM contents WHERE name GLOB 'cells/{CELL}/*'"  # noqa: S608
    subprocess.run(["sqlite3", path, query], cwd=out, check=True, capture_output=True)
    found = {str(one.relative_to(out / "cells" / CELL)): one.read_text() for one in out.rglob("*") if one.is_file()}
    assert found == SCRIPTS | {f"trial-1/{name}": text for name, text in texts.items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sz = 1 << 30", "larger than 64 MiB"),
        ("sz = 3", "another size than it says"),
        ("sz = -1", "another size than it says"),
        ("sz = 'many'", "no text of matrix"),
        ("data = 'text'", "no text of matrix"),
        ("data = substr(data, 1, length(data) - 5)", "another size than it says"),
        ("named = 1, sz = 40000000, data = CAST(replace(hex(zeroblob(20000000)), '0', x'01') AS BLOB)", "64 MiB"),
    ],
)
def test_a_text_that_is_too_large_or_has_another_size_is_refused(path: Path, change: str, said: str) -> None:
    with Archive.open(path) as archive:
        archive.put(CELL, 1, {}, {"fio.json": "x" * 5000})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE texts SET {change}")  # noqa: S608 - of this test
    with Archive.existing(path) as archive, pytest.raises(HarnessBroken, match="is damaged") as caught:
        dict(archive.of_cell(CELL))
    assert said in caught.value.details


@pytest.mark.parametrize("change", ["folder = '../../../'", "folder = '/etc/'", "name = '../x.log'", "name = x'00'"])
def test_a_name_that_leads_elsewhere_is_damage(path: Path, change: str) -> None:
    with Archive.open(path) as archive:
        archive.put(CELL, 1, {}, {"set-up.log": "text"})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE files SET {change}")  # noqa: S608 - of this test
    with Archive.existing(path) as archive, pytest.raises(HarnessBroken, match="damaged"):
        archive.of_cell(CELL)


def test_a_file_without_its_text_is_damage(path: Path) -> None:
    with Archive.open(path) as archive:
        archive.put(CELL, 1, {}, {"fio.json": "{}"})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM texts")
    with Archive.existing(path) as archive, pytest.raises(HarnessBroken, match="is damaged"):
        dict(archive.of_cell(CELL))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE files SET name = x'ff'")
    with Archive.existing(path) as archive, pytest.raises(HarnessBroken, match="is damaged"):
        dict(archive.of_cell(CELL))


def test_texts_are_read_one_by_one(path: Path) -> None:
    """Each may have 64 MiB, and files share them."""
    with Archive.open(path) as archive:
        archive.put(CELL, 1, {}, {f"{number}.log": "x" * 1_000_000 for number in range(50)})
        tracemalloc.start()
        try:
            assert sum(map(len, archive.of_cell(CELL).values())) == 50_000_000
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()
