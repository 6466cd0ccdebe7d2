"""Tear-down scripts of stacks that may be up, in a folder that outlives its process; and the lock of such a folder.

The outcome of a cell: record.py.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import (
    open_lock_file,
    read_signature,
    remove_temporaries,
    sign_lock,
    try_lock,
    write_atomically,
)
from matrix_runner.records.files import recorded_file_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
