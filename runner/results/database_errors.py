"""What a database or a file system says when it cannot, in words a user can act on."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy.exc import DBAPIError, OperationalError

from runner.base.errors import BadInput, HarnessBroken, MatrixError

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Trouble(NamedTuple):
    kind: type[MatrixError]
    brief: str
    resolution: str


_FULL = _Trouble(
    HarnessBroken, "the disk that holds {path} is full", "make room and run the same command again: it continues"
)
_READ_ONLY = _Trouble(
    BadInput, "{path} cannot be written", "check the permissions, or choose another place with `--results DIR`"
)
_UNREACHABLE = _Trouble(
    BadInput, "{path} cannot be opened", "check that its folder exists and is yours, or use `--results DIR`"
)
_DAMAGED = _Trouble(
    HarnessBroken,
    "{path} is damaged",
    "keep a copy; `sqlite3 FILE .recover` saves what can be saved; `matrix run --fresh` starts anew",
)

_STRANGE = _Trouble(
    BadInput, "{path} is not a journal of ours", "move it away, or name the folder of a run that has one"
)
_AGAIN = (
    "delete it, or move it away: the next command makes it anew from the journals of the runs below `--results`; "
    "runs whose folders are gone are in it alone"
)
#: The same of the shared store, which is named by another option, and is rarely the only copy of anything.
_OF_STORE = {
    _READ_ONLY: _Trouble(
        BadInput, "the store {path} cannot be written", "check the permissions, or name another with `--store`"
    ),
    _UNREACHABLE: _Trouble(
        BadInput, "the store {path} cannot be opened", "check that its folder is yours, or name another with `--store`"
    ),
    _DAMAGED: _Trouble(HarnessBroken, "the store {path} is damaged", _AGAIN),
    _STRANGE: _Trouble(BadInput, "the store {path} is damaged, or never was a store", _AGAIN),
}

# Keyed by the beginning of SQLite's own result code names: https://www.sqlite.org/rescode.html
_SQLITE = {
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_PERM": _READ_ONLY,
    "SQLITE_CANTOPEN": _UNREACHABLE,
    "SQLITE_BUSY": _Trouble(
        HarnessBroken, "{path} is locked by another program", "close what has it open (a database browser?) and retry"
    ),
    "SQLITE_LOCKED": _Trouble(HarnessBroken, "{path} is locked", "close what has it open and retry"),
    "SQLITE_NOTADB": _STRANGE,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_IOERR": _Trouble(
        HarnessBroken, "{path} could not be read or written", "look at `dmesg`: the host's own disk reports errors"
    ),
}
_AWAY = _Trouble(HarnessBroken, "{path} does not answer", "see whether the server is up and can be reached from here")
_NOT_ALLOWED = _Trouble(BadInput, "{path} does not let us in", "check user, password and rights in `--store URL`")
# Keyed by the beginning of PostgreSQL's own codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRESQL = {
    "53100": _FULL,
    "53": _Trouble(HarnessBroken, "{path} has no room for another connection", "try again, or ask who runs the server"),
    "25006": _READ_ONLY,
    "42501": _NOT_ALLOWED,
    "28": _NOT_ALLOWED,
    "3D": _Trouble(BadInput, "{path}: there is no such database", "make it (`createdb NAME`), or name another"),
    "55P03": _Trouble(HarnessBroken, "{path} is locked by somebody else", "see who keeps its tables locked, and retry"),
    "57014": _Trouble(HarnessBroken, "{path} takes too long to answer", "see what keeps the server busy, and retry"),
    "57P": _AWAY,
    "08": _AWAY,
}
_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
    errno.ENOENT: _UNREACHABLE,
    errno.ENOTDIR: _UNREACHABLE,
}


def damaged(path: Path | str, details: str) -> MatrixError:
    """The error for a journal whose content contradicts itself."""
    return _error(_DAMAGED, path, details)


@contextmanager
def named(path: Path | str, *, store: bool = False) -> Iterator[None]:
    """Turn what goes wrong with `path` inside the block into one of our errors; what is not about it passes through.

    `store`: it is the shared store.
    """
    try:
        yield
    except DBAPIError as problem:
        code, trouble = _of_database(problem)
        if trouble is None:
            raise
        trouble = _OF_STORE.get(trouble, trouble) if store else trouble
        raise _error(trouble, path, f"{problem.orig} ({code})" if code else str(problem.orig).strip()) from problem
    except OSError as problem:
        trouble = _ERRNO.get(problem.errno or 0)
        if trouble is None:
            raise
        trouble = _OF_STORE.get(trouble, trouble) if store else trouble
        raise _error(trouble, path, str(problem)) from problem


def _of_database(problem: DBAPIError) -> tuple[str, _Trouble | None]:
    """The code by which the database calls it, and what it means to us."""
    if name := getattr(problem.orig, "sqlite_errorname", ""):
        return name, next((trouble for prefix, trouble in _SQLITE.items() if name.startswith(prefix)), None)
    code = getattr(problem.orig, "sqlstate", None) or ""
    known = next((trouble for prefix, trouble in _POSTGRESQL.items() if code and code.startswith(prefix)), None)
    if known is None and not code and isinstance(problem, OperationalError):
        return "", _refused(str(problem.orig))  # there was nobody who could have given a code
    return code, known


def _refused(said: str) -> _Trouble:
    """Why there is no connection. The server gives a code for it too, but the library keeps it to itself."""
    if "authentication failed" in said or "no password supplied" in said or "pg_hba.conf" in said:
        return _NOT_ALLOWED
    if 'database "' in said and "does not exist" in said:
        return _POSTGRESQL["3D"]
    return _AWAY


def _error(trouble: _Trouble, path: Path | str, details: str) -> MatrixError:
    # A disk that is full is no matter of the one file at which it came to light.
    shown = f"{Path(path).parent}/" if trouble is _FULL and "://" not in str(path) else path
    return trouble.kind(trouble.brief.format(path=shown), details=details, resolution=trouble.resolution)
