"""Temporary folders that a killed process does not leave for long: the next process of its kind removes them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import open_lock_file, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = ".lock"


def remove_abandoned(kind: str) -> None:
    """Remove the folders of killed processes. A lock marks one in use."""
    for old in Path(tempfile.gettempdir()).glob(f"{_prefix(kind)}*"):
        # Others may make a folder of this name.
        with suppress(OSError, HarnessBroken):
            if old.lstat().st_uid == os.getuid():
                with open_lock_file(old / _LOCK, os.O_RDWR) as lock:
                    if try_lock(lock, fcntl.LOCK_EX):
                        shutil.rmtree(old, ignore_errors=True)


def _prefix(kind: str) -> str:
    return f"{kind}-{os.getuid()}-"


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Yield a new folder, after removing those of killed processes."""
    remove_abandoned(kind)
    young = Path(tempfile.mkdtemp(prefix=f".{_prefix(kind)}"))  # renamed once it is locked, so that no other removes it
    folder = young.with_name(young.name[1:])
    try:
        with open_lock_file(young / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            young.rename(folder)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
