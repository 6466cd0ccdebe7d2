"""Lock files: regular, with one name, opened without following links, and never truncated."""

from __future__ import annotations

import fcntl
import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import open_lock_file, read_signature, sign_lock
from matrix_runner.hosts.agent.agent import lock_disk
from matrix_runner.hosts.disk_ledger import add_written
from matrix_runner.hosts.operations import LocalOperations
from matrix_runner.records.observe import find_holder
from matrix_runner.records.run_folder import create
from tests.support.begun_runs import manifest

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNER = Path(__file__).parents[2] / "runner" / "matrix_runner"
PRECIOUS = "precious\n" * 100


def symbolic_link(lock: Path, other: Path) -> None:
    lock.symlink_to(other)


def hard_link(lock: Path, other: Path) -> None:
    lock.hardlink_to(other)


def pipe(lock: Path, other: Path) -> None:
    os.mkfifo(lock)


def dangling_link(lock: Path, other: Path) -> None:
    lock.symlink_to(other.with_name("new"))


@pytest.mark.parametrize("place", [symbolic_link, hard_link, pipe, dangling_link])
def test_an_unfit_lock_file_is_refused_and_left_alone(tmp_path: Path, place: Callable[[Path, Path], None]) -> None:
    other = tmp_path / "other"
    other.write_text(PRECIOUS)
    run = create(tmp_path / "results", manifest())
    (tmp_path / "locks").mkdir()
    for lock in (tmp_path / "lock", run.path / ".lock", run.path / ".feeding", tmp_path / ".wear.lock"):
        place(lock, other)
    users: tuple[Callable[[], object], ...] = (
        lambda: open_lock_file(tmp_path / "lock").__enter__(),
        lambda: run.locked().__enter__(),
        lambda: run.feeding(wait=False).__enter__(),
        lambda: find_holder(run.path),
        lambda: add_written(tmp_path, [("a", 1)], date(2026, 1, 1)),
    )
    for use in users:
        with pytest.raises(HarnessBroken, match=r"cannot be locked: it is a (symbolic link|pipe|file with several)"):
            use()
    assert other.read_text() == PRECIOUS
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("place", [symbolic_link, hard_link, pipe])
def test_an_unfit_lock_of_a_disk_is_refused_and_left_alone(tmp_path: Path, place: Callable[[Path, Path], None]) -> None:
    other, locks = tmp_path / "other", tmp_path / "locks"
    other.write_text(PRECIOUS)
    locks.mkdir()
    place(locks / "disk-a", other)
    with pytest.raises(HarnessBroken, match=r"Too many levels of symbolic links|not a regular file with one name"):
        LocalOperations(locks).lock("a", "me")
    assert other.read_text() == PRECIOUS


def test_a_lock_file_is_not_truncated(tmp_path: Path) -> None:
    run = create(tmp_path / "results", manifest())
    locks = run.path / ".lock", tmp_path / "disk-a"
    for path in locks:
        path.write_text(PRECIOUS)
    with run.locked():
        lock = lock_disk(str(tmp_path), "a", "me")
        assert isinstance(lock, int)
        os.close(lock)
    for path in locks:
        text = path.read_text()
        assert len(text) == len(PRECIOUS)
        assert text[512:] == PRECIOUS[512:]


def test_a_signature_replaces_a_longer_one(tmp_path: Path) -> None:
    with open_lock_file(tmp_path / "lock") as lock:
        for text in ("4711 on " + "x" * 300, "1 on lab", ""):
            sign_lock(lock, text)
            assert read_signature(lock) == text[:255]


def test_a_lock_is_not_inherited(tmp_path: Path) -> None:
    with open_lock_file(tmp_path / "lock") as lock:
        assert fcntl.fcntl(lock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_every_lock_is_opened_by_one_function() -> None:
    """Except locks of folders, and those of the agent, which is a single file on other hosts."""
    allowed = {"base/files.py", "hosts/agent/agent.py", "records/run_folder.py", "records/versions.py"}
    for path in RUNNER.rglob("*.py"):
        if str(path.relative_to(RUNNER)) not in allowed and "flock(" in (text := path.read_text(encoding="utf-8")):
            assert "open_lock_file(" in text, path
