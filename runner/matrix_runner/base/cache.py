"""The cache: folders that are made once, whatever number of processes needs them, and removed when none does."""

import asyncio
import errno
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import platformdirs

from matrix_runner.base.digests import find_damage, write_digests
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import open_lock_file, try_lock

POLL = 0.1
_PARTIAL = ".half"


def cache_dir() -> Path:
    chosen = os.environ.get("MATRIX_CACHE")
    return Path(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("matrix"))


def cache_entries() -> list[Path]:
    """Return the folders of the cache. A virtual environment of `bootstrap` is the program itself."""
    return sorted(entry for entry in cache_dir().glob("*/") if not entry.name.startswith("venv-"))


@contextmanager
def lock_cache() -> Iterator[None]:
    with ExitStack() as stack:
        for lock in cache_dir().rglob("*"):
            if lock.name.endswith((".lock", ".use")) or lock.name == "lock":
                descriptor = stack.enter_context(open_lock_file(lock, os.O_RDWR))
                if not try_lock(descriptor, fcntl.LOCK_EX):
                    raise BadInput(
                        f"a running command uses {lock.parent}",
                        resolution="wait for it, or stop it, and run the same command again",
                    )
        yield


def exclusive_lock(path: Path) -> AbstractAsyncContextManager[None]:
    return _hold_lock(path, fcntl.LOCK_EX)


def shared_lock(path: Path) -> AbstractAsyncContextManager[None]:
    """Hold a lock together with other users, so that no process holds it alone."""
    return _hold_lock(path, fcntl.LOCK_SH)


@asynccontextmanager
async def _hold_lock(path: Path, kind: int) -> AsyncIterator[None]:
    """Wait without blocking the event loop."""
    with ExitStack() as stack:
        with _explain_unwritable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = stack.enter_context(open_lock_file(path))
        while not try_lock(descriptor, kind):  # noqa: ASYNC110 - another process has it, and no event reports its release
            await asyncio.sleep(POLL)
        yield


@contextmanager
def _explain_unwritable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        raise HarnessBroken(
            f"{folder} cannot be written: {error.strerror}",
            resolution="make it writable, or set $MATRIX_CACHE to another folder",
        ) from None


def use_lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.use")


def remove_unused(folder: Path) -> None:
    with open_lock_file(use_lock(folder)) as descriptor:
        if try_lock(descriptor, fcntl.LOCK_EX):
            shutil.rmtree(folder, ignore_errors=True)


def remove_partial(home: Path) -> None:
    """Remove partial folders of killed builds, but not those that are being built."""
    for half in home.glob(f".*{_PARTIAL}"):
        # Errors are ignored: in a cache of another user it stays.
        with (
            suppress(OSError, HarnessBroken),
            open_lock_file(_build_lock(home / half.name.removeprefix(".").removesuffix(_PARTIAL))) as descriptor,
        ):
            if try_lock(descriptor, fcntl.LOCK_EX):
                shutil.rmtree(half, ignore_errors=True)


def prune(home: Path, folders: Iterable[Path], most: int) -> None:
    """Remove partial folders below `home`, and the oldest of some folders above a number. Those in use stay."""
    remove_partial(home)
    found = []
    for folder in folders:
        with suppress(OSError):  # another process may remove it meanwhile
            found.append((folder.stat().st_mtime, folder))
    for _, folder in sorted(found, reverse=True)[most:]:
        remove_unused(folder)


def _build_lock(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


async def make_once(
    target: Path,
    make: Callable[[Path], Awaitable[None]],
    what: str = "",
    notice: Callable[[str], None] = lambda _: None,
) -> Path:
    """Return the folder `target`; make it if it is missing or damaged. Concurrent callers make it once.

    `notice` is called before damaged files are replaced; `what` is their name for users.
    """
    if await asyncio.to_thread(find_damage, target) == []:
        return target
    async with exclusive_lock(_build_lock(target)):
        damage = await asyncio.to_thread(find_damage, target)
        if damage:
            notice(f"{what} was damaged: {', '.join(damage)}; it is rebuilt")
        if damage != []:
            await _replace(target, make)
    return target


async def _replace(target: Path, make: Callable[[Path], Awaitable[None]]) -> None:
    """Make a folder beside `target`, then replace it. Running machines keep the old files, which are never written."""
    half = target.with_name(f".{target.name}{_PARTIAL}")
    # Left by a killed build: we hold the lock, so no other build is active.
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        await make(half)
        await asyncio.to_thread(write_digests, half)
        shutil.rmtree(target, ignore_errors=True)
        half.rename(target)
    finally:
        shutil.rmtree(half, ignore_errors=True)
