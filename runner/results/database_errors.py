"""Errors of databases as messages with a cause and a remedy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, OperationalError

from runner.base.errors import ERRNO, FULL, READ_ONLY, UNREACHABLE, BadInput, Cause, HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.base.errors import MatrixError


_DAMAGED = Cause(
    HarnessBroken,
    "{path} is damaged",
    "keep a copy; `sqlite3 FILE .recover` saves the readable part; `matrix run --fresh` starts a new run",
)

_STRANGE = Cause(
    BadInput, "{path} is not a journal of matrix", "move it away, or name the folder of a run that has one"
)
_AGAIN = (
    "delete it, or move it away: the next command rebuilds it from the journals of the runs below `--results`; "
    "runs without a folder are lost then"
)
#: The shared store has another option in its remedies, and it is rarely the only copy of data.
_OF_STORE = {
    READ_ONLY: Cause(
        BadInput, "the store {path} cannot be written", "check the permissions, or name another with `--store`"
    ),
    UNREACHABLE: Cause(
        BadInput, "the store {path} cannot be opened", "check that its folder is yours, or name another with `--store`"
    ),
    _DAMAGED: Cause(HarnessBroken, "the store {path} is damaged", _AGAIN),
    _STRANGE: Cause(BadInput, "the store {path} is damaged, or is not a store", _AGAIN),
}

# Keyed by the prefix of SQLite's result code names: https://www.sqlite.org/rescode.html
_SQLITE = {
    "SQLITE_FULL": FULL,
    "SQLITE_READONLY": READ_ONLY,
    "SQLITE_PERM": READ_ONLY,
    "SQLITE_CANTOPEN": UNREACHABLE,
    "SQLITE_BUSY": Cause(
        HarnessBroken,
        "{path} is locked by another program",
        "close the program that has it open (a database browser?) and retry",
    ),
    "SQLITE_LOCKED": Cause(HarnessBroken, "{path} is locked", "close the program that has it open and retry"),
    "SQLITE_NOTADB": _STRANGE,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_IOERR": Cause(
        HarnessBroken, "{path} has an I/O error", "look at `dmesg`: the host's own disk reports errors"
    ),
}
_AWAY = Cause(HarnessBroken, "{path} does not answer", "check that the server is up and reachable")
_NOT_ALLOWED = Cause(BadInput, "{path} refuses the login", "check user, password and rights in `--store URL`")
# Keyed by the prefix of PostgreSQL's codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRESQL = {
    "53100": FULL,
    "53": Cause(HarnessBroken, "{path} has too many connections", "try again, or ask who runs the server"),
    "25006": READ_ONLY,
    "42501": _NOT_ALLOWED,
    "28": _NOT_ALLOWED,
    "3D": Cause(BadInput, "{path}: the database does not exist", "make it (`createdb NAME`), or name another"),
    "55P03": Cause(
        HarnessBroken, "{path} is locked by another session", "find the session that locks its tables, and retry"
    ),
    "57014": Cause(HarnessBroken, "{path} takes too long to answer", "check the load of the server, and retry"),
    "57P": _AWAY,
    "08": _AWAY,
}


def damage_error(path: Path | str, details: str) -> MatrixError:
    """Return the error for a journal whose content contradicts itself."""
    return _DAMAGED.error(path, details)


@contextmanager
def translate_errors(path: Path | str, *, store: bool = False) -> Iterator[None]:
    """Turn database errors of the block into a MatrixError about `path`. Other errors pass through."""
    try:
        yield
    except DBAPIError as problem:
        code, trouble = _of_database(problem)
        if trouble is None:
            raise
        trouble = _OF_STORE.get(trouble, trouble) if store else trouble
        raise trouble.error(path, f"{problem.orig} ({code})" if code else str(problem.orig).strip()) from problem
    except OSError as problem:
        trouble = ERRNO.get(problem.errno or 0)
        if trouble is None:
            raise
        trouble = _OF_STORE.get(trouble, trouble) if store else trouble
        raise trouble.error(path, str(problem)) from problem


def _of_database(problem: DBAPIError) -> tuple[str, Cause | None]:
    """Return the error code of the database, and its cause."""
    if name := getattr(problem.orig, "sqlite_errorname", ""):
        return name, next((trouble for prefix, trouble in _SQLITE.items() if name.startswith(prefix)), None)
    code = getattr(problem.orig, "sqlstate", None) or ""
    known = next((trouble for prefix, trouble in _POSTGRESQL.items() if code and code.startswith(prefix)), None)
    if known is None and not code and isinstance(problem, OperationalError):
        return "", _refused(str(problem.orig))  # no server answered, so there is no code
    return code, known


def _refused(said: str) -> Cause:
    """Guess the cause from the text. The server sends a code, but the library does not pass it on."""
    if "authentication failed" in said or "no password supplied" in said or "pg_hba.conf" in said:
        return _NOT_ALLOWED
    if 'database "' in said and "does not exist" in said:
        return _POSTGRESQL["3D"]
    return _AWAY
