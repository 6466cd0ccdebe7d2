"""Temporary folders that a killed process does not leave for long: the next process of its kind removes them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = ".lock"


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Yield a new folder, after removing those of killed processes. A lock marks one in use."""
    prefix = f"{kind}-{os.getuid()}-"
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError), (old / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
    young = Path(tempfile.mkdtemp(prefix=f".{prefix}"))  # renamed once it is locked, so that no other removes it
    folder = young.with_name(young.name[1:])
    try:
        with (young / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            young.rename(folder)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
