"""Folders that are made once, whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import cache, files
from matrix_runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_two_who_ask_at_once_make_it_once(tmp_path: Path) -> None:
    calls = []

    async def make(folder: Path) -> None:
        calls.append(folder)
        await asyncio.sleep(0)
        (folder / "done").touch()

    targets = await asyncio.gather(*(cache.make_once(tmp_path / "x", make) for _ in range(3)))
    assert targets == [tmp_path / "x"] * 3
    assert len(calls) == 1


async def test_leftovers_of_a_killed_build_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".x.half").mkdir()
    (tmp_path / ".x.half" / "junk").touch()
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "junk").touch()

    async def make(folder: Path) -> None:
        assert names(folder) == []
        (folder / "done").touch()

    target = await cache.make_once(tmp_path / "x", make)
    assert sorted(names(target)) == ["crc32.json", "done"]
    assert not (tmp_path / ".x.half").exists()


async def test_a_failed_build_leaves_no_files_and_can_be_repeated(tmp_path: Path) -> None:
    async def fail(folder: Path) -> None:
        (folder / "part").touch()
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        await cache.make_once(tmp_path / "x", fail)
    assert names(tmp_path) == [".x.lock"]


async def test_a_shared_lock_keeps_others_from_taking_it_alone(tmp_path: Path) -> None:
    import fcntl

    async with cache.shared_lock(tmp_path / "l"), cache.shared_lock(tmp_path / "l"):
        with files.open_lock_file(tmp_path / "l") as descriptor:
            assert not files.try_lock(descriptor, fcntl.LOCK_EX)
    with files.open_lock_file(tmp_path / "l") as descriptor:
        assert files.try_lock(descriptor, fcntl.LOCK_EX)


async def test_a_cache_of_another_user_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(HarnessBroken, match="cannot be written: Permission denied") as told:
        async with cache.exclusive_lock(tmp_path / "a.lock"):
            pass
    assert "MATRIX_CACHE" in told.value.resolution


async def test_leftovers_are_removed_and_running_builds_stay(tmp_path: Path) -> None:
    for name in ("left", "made"):
        (tmp_path / f".{name}.half").mkdir()
        (tmp_path / f".{name}.half" / "junk").touch()
    async with cache.exclusive_lock(tmp_path / ".made.lock"):
        cache.remove_partial(tmp_path)
        assert not (tmp_path / ".left.half").exists()
        assert (tmp_path / ".made.half" / "junk").exists()
    cache.remove_partial(tmp_path)
    assert not (tmp_path / ".made.half").exists()


def test_an_empty_cache_can_be_swept(tmp_path: Path) -> None:
    cache.remove_partial(tmp_path / "none")
