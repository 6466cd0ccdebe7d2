"""Files that are either there in full or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runner.base.file_errors import file_errors

if TYPE_CHECKING:
    from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Put a file in place, durably: readers see the old content or the new one, whenever anything is killed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    with file_errors(path):
        try:
            write_durably(temporary, content)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that nobody looks at yet; when this returns, what is in it is on disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place so that no kill leaves a part of it. Not forced to disk; one process at a time."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Remove what writers that were killed left half-written."""
    for temporary in folder.glob(".*.new"):
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; what they name is not touched."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
