"""Digests of the files of a cached folder, by which damage is found before a file is used."""

import errno
import json
import os
import stat
import threading
import zlib
from contextlib import suppress
from pathlib import Path

DIGESTS = "crc32.json"
#: The bytes that are read at a time, and their digest in a hole of a file.
PIECE = 2**20
_HOLE = zlib.crc32(bytes(PIECE))
#: Folders without damage, with the state of their files at that time.
_sound: dict[Path, object] = {}
_checking = threading.Lock()


def write_digests(folder: Path) -> None:
    digests = {name: {"size": path.stat().st_size, "crc32": _digest(path)} for name, path in _files(folder)}
    (folder / DIGESTS).write_text(json.dumps(digests, indent=1))


def _files(folder: Path) -> list[tuple[str, Path]]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return [(str(path.relative_to(folder)), path) for path in found]


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
        found = [(name, path.stat()) for name, path in _files(folder)]
        return [(name, one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found]
    return []


def _read_digests(folder: Path) -> dict[str, tuple[int, int]]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        listed = json.loads((folder / DIGESTS).read_text())
        return {name: (int(one["size"]), int(one["crc32"])) for name, one in listed.items()}
    return {}


def _size_flaw(path: Path, size: int) -> str:
    with suppress(OSError, ValueError):  # a damaged name may have a NUL
        found = path.stat()
        return "" if stat.S_ISREG(found.st_mode) and found.st_size == size else "size differs"
    return "missing"


def _flaw(path: Path, size: int, digest: int) -> str:
    if flaw := _size_flaw(path, size):
        return flaw
    try:
        return "" if _digest(path) == digest else "digest differs"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _digest(path: Path) -> int:
    """Return the CRC of the CRCs of all pieces. Holes, as in the memory of a machine, are not read."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        pieces = (_digest_piece(file.fileno(), start, min(start + PIECE, size)) for start in range(0, size, PIECE))
        return zlib.crc32(b"".join(piece.to_bytes(4) for piece in pieces))


def _digest_piece(descriptor: int, start: int, end: int) -> int:
    if end - start == PIECE and _is_hole(descriptor, start, end):
        return _HOLE
    return zlib.crc32(os.pread(descriptor, end - start, start))


def _is_hole(descriptor: int, start: int, end: int) -> bool:
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA) >= end
    except OSError as error:
        if error.errno != errno.ENXIO:  # it means that there is no data behind `start`
            raise
        return True
