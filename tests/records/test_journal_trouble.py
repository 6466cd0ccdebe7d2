"""Every way a journal can fail a user, done for real."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import orjson
import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken, MatrixError
from matrix_runner.records import journal as journal_module
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import LONGEST, CellRow, Outcome, Trial
from matrix_runner.records.rows import cell_of, readings_of
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

root = os.geteuid() == 0
CELL = CellRow("c1", "single/seqread", {})


def trial(round_number: int, reason: str = "") -> Trial:
    return Trial("c1", round_number, Outcome.BROKEN, reason=reason)


def filled(path: Path, count: int = 3) -> None:
    with Journal.open(path) as journal:
        journal.add_cells([CELL])
        for round_number in range(count):
            journal.record(trial(round_number))


def complete(problem: MatrixError, path: Path) -> bool:
    """Whether an error tells a stranger what, where, on which evidence, and what to do."""
    return str(path) in problem.brief and bool(problem.details) and bool(problem.resolution)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"this is not a database, but it is long enough to look at" * 50)
    with pytest.raises(BadInput, match="not a file that matrix wrote") as caught:
        Journal.open(path)
    assert complete(caught.value, path)
    assert path.read_bytes().startswith(b"this is not")


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table bookmarks (url text)")
    with pytest.raises(BadInput, match="not a journal of matrix"):
        Journal.open(path)


def test_an_empty_file_left_by_a_kill_becomes_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()
    filled(path)
    with Journal.open(path) as journal:
        assert len(journal.recorded_identities()) == 3


def test_a_journal_from_the_future(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update meta set value = '99' where key = 'version'")
    with pytest.raises(BadInput, match="newer version") as caught:
        Journal.open(path)
    assert "99" in caught.value.details
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from trials").fetchone() == (3,)


def test_a_damaged_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    filled(path, 200)
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 6] = b"\xa5" * (4096 * 4)
    path.write_bytes(content)
    with pytest.raises(HarnessBroken, match="damaged") as caught:
        Journal.open(path)
    assert complete(caught.value, path)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "journal.sqlite"
    with pytest.raises(BadInput, match="cannot be opened") as caught:
        Journal.open(path)
    assert complete(caught.value, path)


def test_a_journal_that_another_program_keeps_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_BUSY_MS", 1)
    path = tmp_path / "journal.sqlite"
    filled(path)
    with Journal.open(path) as journal, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(HarnessBroken, match="locked by another program") as caught:
            journal.record(trial(7))
        assert complete(caught.value, path)
        assert len(journal.recorded_identities()) == 3, "reading goes on beside a writer"
        other.execute("rollback")
        journal.record(trial(7))
        assert len(journal.recorded_identities()) == 4


@pytest.mark.skipif(not root, reason="needs a small file system of its own, hence root")
def test_a_full_disk_loses_no_acknowledged_trial(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "512k") as disk:
        path = disk / "journal.sqlite"
        kept: set[tuple[str, int]] = set()
        with Journal.open(path) as journal:
            journal.add_cells([CELL])
            with pytest.raises(HarnessBroken, match="is full") as caught:
                record_until_it_fails(journal, kept)
            assert complete(caught.value, disk)
            assert caught.value.brief == f"the disk that holds {disk}/ is full"
            assert journal.recorded_identities() == kept
        with Journal.open(path) as journal:
            assert len(kept) > 10
            assert journal.recorded_identities() == kept


@pytest.mark.skipif(not root, reason="needs a small file system of its own, hence root")
def test_a_disk_without_room_for_the_shared_memory_of_a_reader_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "512k") as disk:
        path = disk / "journal.sqlite"
        filled(path)
        (disk / "filler").write_bytes(b"x" * shutil.disk_usage(disk).free)
        with pytest.raises(HarnessBroken, match="is full") as caught:
            Journal.existing(path)
        assert complete(caught.value, disk)
        assert "SQLITE_IOERR" in caught.value.details


def record_until_it_fails(journal: Journal, kept: set[tuple[str, int]]) -> None:
    for round_number in range(10_000):
        journal.record(trial(round_number, "x" * 1000))
        kept.add(("c1", round_number))


_AS_NOBODY = """
import os, sys
from pathlib import Path
# Everything is imported before the change of user: the packages need not be readable to everyone.
import sqlalchemy.dialects.sqlite
from matrix_runner.base.errors import BadInput
from matrix_runner.records.journal import Journal
Journal.open(Path(sys.argv[1]).parent.with_suffix(".warm")).close()
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Journal.open(Path(sys.argv[1]))
except BadInput as problem:
    print(problem.brief, "|", problem.resolution)
"""


@pytest.mark.parametrize("existing", [False, True])
def test_a_folder_one_may_not_write(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "journal.sqlite"
    if existing:
        filled(path)
        path.chmod(0o444)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    tmp_path.chmod(0o555)
    try:
        done = subprocess.run([sys.executable, "-c", _AS_NOBODY, path], capture_output=True, text=True, check=True)
    finally:
        tmp_path.chmod(0o755)
    assert str(path) in done.stdout
    assert "--results DIR" in done.stdout


@pytest.mark.parametrize("row", [("d", b"{}"), ("d", b"[[1, 2, 3]]"), ("d", "{"), (7, "[]"), ("d", '[["a", "b"]]')])
def test_damaged_readings_are_refused(row: tuple[object, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the kind that means damage
        readings_of(row)


_LONG = "x" * (LONGEST + 1)


@pytest.mark.parametrize(
    "row",
    [
        (7, "name", {}, 1),
        ("c1", None, {}, 1),
        ("c1", "name", {}, "first"),
        ("c1", "name", None, 1),
        ("c1", "name", ["md"], 1),
        ("c1", "name", {"md.level": 5}, 1),
        ("c1", "name", {"md.level": None}, 1),
        ("c1", "name", {"md.level": ["5"]}, 1),
        (_LONG, "name", {}, 1),
        ("c1", _LONG, {}, 1),
        ("c1", "name", {_LONG: "5"}, 1),
        ("c1", "name", {"md.level": _LONG}, 1),
    ],
)
def test_damaged_cells_are_refused(row: tuple[object, ...]) -> None:
    id_, name, axes, position = row
    with pytest.raises(ValueError, match="cell"):
        cell_of((id_, name, orjson.dumps(axes).decode(), position))


def test_equal_values_of_cells_are_one_object() -> None:
    one, other = (cell_of((id_, "name", '{"md.chunk": "64KiB"}', None)) for id_ in ("c1", "c2"))
    assert one.axes == other.axes == {"md.chunk": "64KiB"}
    assert one.axes["md.chunk"] is other.axes["md.chunk"]


@pytest.mark.parametrize("open_journal", [Journal.existing, Journal.open])
def test_each_reader_refuses_a_log_that_lost_commits(tmp_path: Path, open_journal: Callable[[Path], Journal]) -> None:
    """SQLite removes a log as its last writer closes; a later reader would then miss commits without a word."""
    filled(tmp_path / "killed.sqlite")
    path, log = tmp_path / "journal.sqlite", tmp_path / "journal.sqlite-wal"
    with Journal.open(tmp_path / "killed.sqlite") as journal:
        journal.record(trial(8))
        shutil.copyfile(tmp_path / "killed.sqlite", path)
        shutil.copyfile(tmp_path / "killed.sqlite-wal", log)
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    for _ in range(2):
        with pytest.raises(HarnessBroken, match="is damaged") as caught:
            open_journal(path)
        assert "commits that cannot be read" in caught.value.details
        assert log.read_bytes() == content


_CUT_OFF = """
import os, resource, sys
from pathlib import Path
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial

path, missing = Path(sys.argv[1]), int(sys.argv[2])
log, sizes = Path(f"{path}-wal"), []
journal = Journal.open(path)
for number in range(10, 12):
    journal.record(Trial("c1", number, Outcome.BROKEN))
    sizes.append(log.stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (2 * sizes[1] - sizes[0] - missing, resource.RLIM_INFINITY))
try:
    journal.record(Trial("c1", 12, Outcome.BROKEN))
except HarnessBroken:
    os._exit(0)  # as if killed: its log stays
"""


@pytest.mark.parametrize("missing", [1, 100, 4096, 4097, 5000])
def test_a_commit_without_room_is_none_of_those_that_were_lost(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "journal.sqlite"
    filled(path)
    subprocess.run([sys.executable, "-c", _CUT_OFF, str(path), str(missing)], check=True)
    with Journal.open(path) as journal:
        assert [one.round for one in journal.trials()] == [0, 1, 2, 10, 11]


_WRITER = """
import os, sys
from pathlib import Path
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow

path, kind = Path(sys.argv[1]), sys.argv[2]
journal = Journal.open(path)
journal.add_cells([CellRow("c1", "single/seqread", {})])
if kind == "resume":
    print("open", flush=True)
    sys.stdin.read()
os._exit(0)  # without closing the journal, so its log stays
"""


def test_a_journal_that_a_killed_run_left_stays_locked_while_others_read_it(tmp_path: Path) -> None:
    """A reader that takes the writer for gone cuts the file `-shm`, which the writer has mapped: it dies of SIGBUS."""
    path, shared = tmp_path / "journal.sqlite", tmp_path / "journal.sqlite-shm"
    subprocess.run([sys.executable, "-c", _WRITER, str(path), "killed"], check=True)
    writer = [sys.executable, "-c", _WRITER, str(path), "resume"]
    with subprocess.Popen(writer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as resumed:
        assert resumed.stdout
        assert resumed.stdout.readline() == "open\n"
        locks = subprocess.run(["lslocks", "-n", "-p", str(resumed.pid), "-o", "INODE"], capture_output=True, text=True)
        assert str(shared.stat().st_ino) in locks.stdout.split()
        resumed.communicate("")
