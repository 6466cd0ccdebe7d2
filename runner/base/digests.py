"""Digests of the files of a cached folder, by which damage is found before a file is used."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

DIGESTS = "digests.json"
#: The bytes that one thread reads at a time, and their digest in a hole of a file.
PIECE = 2**20
_HOLE = hashlib.sha256(bytes(PIECE)).digest()
#: Folders without damage, with the state of their files at that time.
_sound: dict[Path, object] = {}
_checking = threading.Lock()


def write_digests(folder: Path) -> None:
    digests = {path.name: {"size": path.stat().st_size, "sha256": _digest(path)} for path in sorted(folder.iterdir())}
    (folder / DIGESTS).write_text(json.dumps(digests, indent=1))


def is_complete(folder: Path) -> bool:
    """Return whether each file has its size. This reads no content."""
    known = _read_digests(folder)
    return bool(known) and not any(_size_flaw(folder / name, size) for name, (size, _) in known.items())


def find_damage(folder: Path) -> list[str] | None:
    """Return the damaged files of a folder; None if it is missing.

    Whole files are read on the first call of a process, after `forget_checks`, and if a file has changed.
    """
    with _checking:
        state = _state(folder)
        if not state:
            return None
        if _sound.get(folder) == state:
            return []
        known = _read_digests(folder)
        flaws = {name: _flaw(folder / name, *wanted) for name, wanted in known.items()} or {DIGESTS: "unreadable"}
        damage = [f"{name} ({flaw})" for name, flaw in flaws.items() if flaw]
        if not damage:
            _sound[folder] = state
        return damage


def forget_checks() -> None:
    """Let the next use of each folder read whole files again, because a guest failed, and damage may be the cause."""
    _sound.clear()


def _state(folder: Path) -> list[tuple[object, ...]]:
    with suppress(OSError):
        found = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
        return [(name, one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found]
    return []


def _read_digests(folder: Path) -> dict[str, tuple[int, str]]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        listed = json.loads((folder / DIGESTS).read_text())
        return {name: (int(one["size"]), str(one["sha256"])) for name, one in listed.items()}
    return {}


def _size_flaw(path: Path, size: int) -> str:
    with suppress(OSError, ValueError):  # a damaged name may have a NUL
        found = path.stat()
        return "" if stat.S_ISREG(found.st_mode) and found.st_size == size else "size differs"
    return "missing"


def _flaw(path: Path, size: int, digest: str) -> str:
    if flaw := _size_flaw(path, size):
        return flaw
    try:
        return "" if _digest(path) == digest else "digest differs"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _digest(path: Path) -> str:
    """Return the digest of the digests of all pieces. Holes, as in the memory of a machine, are not read."""
    with path.open("rb") as file, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        size = os.fstat(file.fileno()).st_size
        pieces = pool.map(partial(_digest_piece, file.fileno(), size), range(0, size, PIECE))
        return hashlib.sha256(b"".join(pieces)).hexdigest()


def _digest_piece(descriptor: int, size: int, start: int) -> bytes:
    end = min(start + PIECE, size)
    if end - start == PIECE and _is_hole(descriptor, start, end):
        return _HOLE
    return hashlib.sha256(os.pread(descriptor, end - start, start)).digest()


def _is_hole(descriptor: int, start: int, end: int) -> bool:
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA) >= end
    except OSError as error:
        if error.errno != errno.ENXIO:  # it means that there is no data behind `start`
            raise
        return True
