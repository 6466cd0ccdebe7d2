"""Files that are complete or missing, never partial."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runner.base.file_errors import file_errors

if TYPE_CHECKING:
    from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file durably: after a kill it has the old content or the new one."""
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
    """Write a new file that no reader uses yet; its content is on disk afterwards."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file so that a kill leaves no partial one. Not forced to disk; for one process at a time."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_temporaries(folder: Path) -> None:
    """Remove temporary files of killed writers."""
    for temporary in folder.glob(".*.new"):
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, but not the content of its files."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
