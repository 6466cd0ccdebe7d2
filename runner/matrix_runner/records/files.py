"""Files of a run folder: names, errors as ours, its lock, and tear-down scripts of stacks that may be up."""

import fcntl
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import orjson

from matrix_runner.base.errors import ERRNO, BadInput, Cause, Damaged, UnfitFile
from matrix_runner.base.files import (
    open_lock_file,
    read_signature,
    remove_temporaries,
    sign_lock,
    try_lock,
    write_atomically,
)
from matrix_runner.statistics.percentile import DamagedHistogram

CELLS = "cells"  # the folder of cells in a run
ARCHIVE = "cells.sqlite"  # what a large run has instead
_PART = re.compile(r"[A-Za-z0-9._=,+@%-]{1,255}")


def parts_of(name: str) -> list[str]:
    """Split a name into path parts. Refuse one that leads elsewhere or needs quotes in a shell."""
    parts = name.split("/")
    for part in parts:
        if not _PART.fullmatch(part) or part in {".", ".."}:
            raise BadInput(
                f"{name!r} cannot name a folder or a file",
                resolution="names are parts of letters, digits and ._=,+@%- (1 to 255 each), joined by /",
            )
    return parts


def is_file_of_trial(name: str) -> bool:
    """Return whether a worker may name a file so: not like a folder of trials, or a file that is being written."""
    return len(name) <= 128 and bool(_PART.fullmatch(name)) and not name.startswith((".", "trial-"))


def check_file_name(name: str, what: str = "a file of a trial") -> str:
    if "/" in name:
        raise BadInput(f"{name!r} cannot name {what}", resolution="leave out the slashes: it is one name")
    return parts_of(name)[0]


class LazyFiles(Mapping[str, bytes]):
    """Files by their paths, read one by one: together they may not fit into memory."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], bytes]) -> None:
        self._paths, self._read = dict.fromkeys(paths), read

    def __getitem__(self, path: str) -> bytes:
        if path not in self._paths:
            raise KeyError(path)
        return self._read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


OF = ": "  # in the keys of an environment
#: Runs and databases from before version 1 are read by this commit and by those before it.
LAST_COMMIT = "aad239b9"


def split_owner(name: str) -> tuple[str | None, str]:
    """Split a key of an environment after the kernel or the host that it is of; None: it is of the whole run."""
    owner, of, fact = name.partition(OF)
    return (owner, fact) if of else (None, name)


DAMAGED = Cause(
    Damaged,
    "{path} is damaged",
    "`matrix salvage RUN` writes what can be read into a new run; `matrix run --fresh` starts again",
)
#: Salvage reads journals only.
_DAMAGED_FILE = Cause(Damaged, "{path} is damaged", "move it away, or restore it from a backup")
UNFIT = Cause(BadInput, "{path} cannot be read", "put a regular file there; matrix writes no other kind")
FILE_ERRORS = (OSError, UnicodeDecodeError, orjson.JSONDecodeError)


def cause_of(problem: Exception) -> Cause | None:
    if isinstance(problem, UnfitFile) and not problem.path.is_file():
        return UNFIT  # its content may belong to others
    if isinstance(problem, OSError) and not isinstance(problem, UnfitFile):
        return ERRNO.get(problem.errno or 0)
    return DAMAGED


@contextmanager
def histogram_errors(journal: Path) -> Iterator[None]:
    """Turn the error of a damaged histogram into one about its journal."""
    try:
        yield
    except DamagedHistogram as problem:
        raise DAMAGED.error(journal, str(problem)) from problem


@contextmanager
def recorded_file_errors(path: Path | str) -> Iterator[None]:
    """Turn errors of the block into a MatrixError about `path`: of its reading, and of texts in it."""
    try:
        yield
    except FILE_ERRORS as problem:
        cause = cause_of(problem)
        if cause:
            found = problem.path if isinstance(problem, UnfitFile) else path
            raise (_DAMAGED_FILE if cause is DAMAGED else cause).error(found, str(problem)) from problem
        raise


# Tear-down scripts of stacks that may be up, in a folder that outlives its process; and the lock of such a folder.
#
# The outcome of a cell: record.py.

LOCK = ".lock"  # the lock of the process that runs, with its process id and host
_TRIES, _INSTANT = 20, 0.005  # retries: an observer may take the lock of a killed run for an instant to test it
STANDING = "standing"  # the folder of tear-down scripts of stacks that may be up


class InUse(BadInput):
    pass


class Standing:
    """The scripts below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def standing(self) -> Path:
        return self.folder / STANDING

    def keep_tear_down(self, stack: str, tear_down: str) -> None:
        """Save the tear-down script of a stack before it is built, because it may outlive its process."""
        with recorded_file_errors(self.standing):
            self.standing.mkdir(exist_ok=True)
        write_atomically(self.standing / f"{stack}.sh", tear_down.encode())

    def forget_tear_down(self, stack: str) -> None:
        (self.standing / f"{stack}.sh").unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self.standing, ignore_errors=True)


def parse_signature(signature: str) -> tuple[str, str]:
    """Return the process id and the host of the holder of a lock."""
    pid, _, host = signature.partition(" on ")
    return pid, host


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, or raise InUse. The kernel releases it at any end of the process."""
    lock = folder / LOCK
    with ExitStack() as stack:
        with recorded_file_errors(lock):
            descriptor = stack.enter_context(open_lock_file(lock))
        if not _locks(descriptor):
            signature = read_signature(descriptor)
            raise InUse(
                f"{folder} is in use by {f'process {signature}' if signature else 'another process'}",
                resolution="wait for it to end, stop it, or start another run with `--fresh`",
            )
        with recorded_file_errors(lock):
            sign_lock(descriptor, f"{os.getpid()} on {socket.gethostname()}")
            remove_temporaries(folder)
        try:
            yield
        finally:
            with suppress(OSError):  # a signature without a lock counts as none
                sign_lock(descriptor, "")


def _locks(descriptor: int) -> bool:
    for _ in range(_TRIES):
        if try_lock(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(_INSTANT)
    return False
