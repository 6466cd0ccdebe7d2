from __future__ import annotations

import os
import signal
import stat
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import MIB, copy_data, remove_temporaries, write_atomically, write_output

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"", b"three" * 100_000):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_or_a_pipe_stays_and_gets_the_content(tmp_path: Path) -> None:
    """Root's `--html /dev/stdout` must not put a file in the place of the device."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, b"page")
    assert os.read(reading, 10) == b"page"
    os.close(reading)
    assert pipe.is_fifo()
    link.symlink_to("/dev/full")
    with pytest.raises(HarnessBroken, match="full"):
        write_output(link, b"page")
    assert link.is_symlink()
    write_output(tmp_path / "file", b"page")
    assert (tmp_path / "file").read_bytes() == b"page"


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere/file cannot be opened") as caught:
        write_atomically(tmp_path / "nowhere" / "file", b"x")
    assert caught.value.resolution


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_writer_that_is_killed_never_leaves_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    write_atomically(path, contents[0])
    for _ in range(10):
        kill_a_writer(path, contents)
        assert path.read_bytes() in contents
    remove_temporaries(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def kill_a_writer(path: Path, contents: list[bytes]) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            while True:
                for content in contents:
                    write_atomically(path, content)
                    os.write(write, b".")
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as written:
        written.read(1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_link_in_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    """In a folder that others may write, they could let it lead to any file of this user."""
    (tmp_path / "mine").write_text("precious")
    (tmp_path / f".out.{os.getpid()}.new").symlink_to(tmp_path / "mine")
    write_atomically(tmp_path / "out", b"new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"mine": "precious", "out": "new"}


@pytest.mark.parametrize("pieces", [{}, {0: b"head"}, {1 << 20: b"middle"}, {0: b"x" * 70_000, (1 << 30) - 4: b"tail"}])
def test_a_copy_has_the_data_and_the_holes_of_its_source(pieces: dict[int, bytes], tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        for at, piece in pieces.items():
            file.seek(at)
            file.write(piece)
        file.truncate(1 << 30)
    copy_data(source, target)
    assert target.stat().st_size == 1 << 30
    assert target.stat().st_blocks * 512 < MIB
    with target.open("rb") as file:
        for at, piece in pieces.items():
            file.seek(at)
            assert file.read(len(piece)) == piece
