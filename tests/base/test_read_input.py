"""Only regular files of limited size are read; nothing blocks."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from matrix_runner.base.errors import UnfitFile
from matrix_runner.base.files import MIB, read_input


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"a" * MIB)
    (tmp_path / "link").symlink_to("m")
    assert read_input(tmp_path / "link") == b"a" * MIB


def test_a_larger_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"a" * (MIB + 1))
    with pytest.raises(UnfitFile, match="larger than 1 MiB"):
        read_input(tmp_path / "m")
    assert len(read_input(tmp_path / "m", 2 * MIB)) == MIB + 1


@pytest.mark.timeout(10)
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    with pytest.raises(UnfitFile, match="it is a pipe"):
        read_input(tmp_path / "m")


@pytest.mark.timeout(10)
def test_devices_folders_and_sockets_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        for path, kind in ((Path("/dev/zero"), "a device"), (tmp_path, "a folder"), (tmp_path / "s", "a socket")):
            with pytest.raises(UnfitFile, match=kind):
                read_input(path)
