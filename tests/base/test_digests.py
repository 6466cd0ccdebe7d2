"""Damage to the files of a cached folder."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base import digests
from matrix_runner.base.digests import DIGESTS, PIECE, find_damage, forget_checks, is_complete, write_digests
from tests.support.damage import flip

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 5 * PIECE + 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file of many bytes, and one with data before, between and after holes."""
    (tmp_path / "full").write_bytes(os.urandom(2 * PIECE + 1))
    with (tmp_path / "holes").open("wb") as file:
        for start in (PIECE + 5, 3 * PIECE):
            file.seek(start)
            file.write(b"data")
        file.truncate(SIZE)
    write_digests(tmp_path)
    assert find_damage(tmp_path) == []
    forget_checks()
    return tmp_path


@given(position=st.integers(0, SIZE - 1))
def test_no_flipped_byte_is_missed(tmp_path_factory: pytest.TempPathFactory, position: int) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    with (folder / "holes").open("wb") as file:
        file.truncate(SIZE)
    write_digests(folder)
    flip(folder / "holes", position)
    assert find_damage(folder) == ["holes (digest differs)"]


@pytest.mark.parametrize("name", ["full", "holes"])
def test_a_file_that_is_cut_short_emptied_or_gone(folder: Path, name: str) -> None:
    with (folder / name).open("rb+") as file:
        file.truncate(PIECE)
    assert (find_damage(folder), is_complete(folder)) == ([f"{name} (size differs)"], False)
    (folder / name).unlink()
    assert (find_damage(folder), is_complete(folder)) == ([f"{name} (missing)"], False)
    (folder / name).mkdir()
    assert find_damage(folder) == [f"{name} (size differs)"]


def test_a_copy_without_holes_has_no_damage(folder: Path) -> None:
    content = (folder / "holes").read_bytes()
    (folder / "holes").write_bytes(content)
    assert find_damage(folder) == []


def test_flipped_bits_of_the_digests_are_found_or_harmless(folder: Path) -> None:
    whole = (folder / DIGESTS).read_bytes()
    for position in range(0, len(whole), 7):
        (folder / DIGESTS).write_bytes(whole)
        flip(folder / DIGESTS, position)
        found = find_damage(folder)
        assert found or json.loads((folder / DIGESTS).read_bytes()) == json.loads(whole)
    for content in (b"", b"{}", b"[]", b"null", b'{"full": 1}', b'{"\\u0000": {"size": 1, "crc32": 0}}'):
        (folder / DIGESTS).write_bytes(content)
        assert find_damage(folder)


def test_files_are_read_once_and_again_after_a_change_or_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    digest = digests._digest

    def noted(path: Path) -> int:
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(digests, "_digest", noted)
    for _ in range(3):
        assert find_damage(folder) == []
    assert read == ["full", "holes"]
    known = (folder / "full").stat()
    flip(folder / "full", 9)
    os.utime(folder / "full", ns=(known.st_atime_ns, known.st_mtime_ns))  # as a failing disk does it
    assert find_damage(folder) == []
    forget_checks()
    assert find_damage(folder) == ["full (digest differs)"]
    flip(folder / "full", 9)
    assert find_damage(folder) == []
    flip(folder / "holes", PIECE)
    assert find_damage(folder) == ["holes (digest differs)"], "a change shows by itself"


def test_a_missing_or_empty_folder_is_no_damage(tmp_path: Path) -> None:
    assert find_damage(tmp_path / "none") is None
    assert find_damage(tmp_path) is None
