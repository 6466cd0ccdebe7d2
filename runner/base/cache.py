"""Folders that are costly to make: made once, whole or not at all, whoever asks and whenever it is killed."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

PATIENCE = 0.1
_HALF = ".half"


def cache_dir() -> Path:
    """Where what can be made again is kept; `MATRIX_CACHE` overrules."""
    chosen = os.environ.get("MATRIX_CACHE")
    return Path(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("matrix"))


def sha256(path: Path) -> str:
    """Content hash of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor for locking."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Take a lock if that needs no waiting."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True


def locked(path: Path) -> AbstractAsyncContextManager[None]:
    """Hold a lock alone; the kernel gives it back whatever becomes of us."""
    return _held(path, fcntl.LOCK_EX)


def shared(path: Path) -> AbstractAsyncContextManager[None]:
    """Hold a lock together with all others who only want that nobody holds it alone."""
    return _held(path, fcntl.LOCK_SH)


@asynccontextmanager
async def _held(path: Path, kind: int) -> AsyncIterator[None]:
    """Waiting leaves the event loop free."""
    with ExitStack() as stack:
        with _writable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = stack.enter_context(opened(path))
        while not try_lock(descriptor, kind):  # noqa: ASYNC110 - another process has it; no event tells when it lets go
            await asyncio.sleep(PATIENCE)
        yield


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        raise HarnessBroken(
            f"{folder} cannot be written: {error.strerror}",
            resolution="make it yours, or have $MATRIX_CACHE name a folder that is",
        ) from None


def in_use(folder: Path) -> Path:
    """The lock that everybody shares who uses such a folder."""
    return folder.with_name(f".{folder.name}.use")


def forget(folder: Path) -> None:
    """Remove such a folder unless somebody uses it."""
    with opened(in_use(folder)) as descriptor:
        if try_lock(descriptor, fcntl.LOCK_EX):
            shutil.rmtree(folder, ignore_errors=True)


def sweep(home: Path) -> None:
    """Remove what builds that were killed left half-made; never what somebody is at work on."""
    for half in home.glob(f".*{_HALF}"):
        # In a cache that is somebody else's it stays.
        with suppress(OSError), opened(_lock(home / half.name.removeprefix(".").removesuffix(_HALF))) as descriptor:
            if try_lock(descriptor, fcntl.LOCK_EX):
                shutil.rmtree(half, ignore_errors=True)


def _lock(target: Path) -> Path:
    """The lock of whoever makes it."""
    return target.with_name(f".{target.name}.lock")


async def made(target: Path, whole: Callable[[Path], bool], make: Callable[[Path], Awaitable[None]]) -> Path:
    """The folder `target`, made by `make` unless it is there and `whole`. Two who ask at once make it once."""
    if whole(target):
        return target
    async with locked(_lock(target)):
        if not whole(target):
            half = target.with_name(f".{target.name}{_HALF}")
            # Left by a build that was killed: we hold the lock, so nobody is at work on them.
            shutil.rmtree(half, ignore_errors=True)
            shutil.rmtree(target, ignore_errors=True)
            half.mkdir()
            try:
                await make(half)
                half.rename(target)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return target
