"""Connections to SQLite and PostgreSQL, and their errors as messages.

Over 400 lines: a reader of an error needs the causes of both databases beside the connections.
"""

import logging
import os
import shutil
import sqlite3
import struct
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from matrix_runner.base.errors import (
    DENIED,
    FULL,
    READ_ONLY,
    UNREACHABLE,
    BadInput,
    Cause,
    Damaged,
    HarnessBroken,
    MatrixError,
)
from matrix_runner.base.extras import missing_package
from matrix_runner.base.files import check_regular
from matrix_runner.base.process import run
from matrix_runner.records.files import DAMAGED, FILE_ERRORS, UNFIT, cause_of

_STRANGE = Cause(BadInput, "{path} is not a file that matrix wrote", "move it away, or name the folder of another run")
_MADE_AGAIN = (
    "the next command makes it again from the journals of the runs below `--results`; "
    "runs without a folder are lost then"
)
NO_REMEDIES: Mapping[Cause, Cause] = {}
#: The shared store has another option in its remedies, and it is rarely the only copy of data.
OF_STORE = {
    READ_ONLY: Cause(
        BadInput, "the store {path} cannot be written", "check the permissions, or name another with `--store`"
    ),
    DENIED: Cause(BadInput, "no access to the store {path}", "check the permissions, or name another with `--store`"),
    UNREACHABLE: Cause(
        BadInput, "the store {path} cannot be opened", "check that its folder is yours, or name another with `--store`"
    ),
    UNFIT: Cause(BadInput, "the store {path} cannot be used", "name a regular file with `--store`"),
    DAMAGED: Cause(Damaged, "the store {path} is damaged", f"move it away with its `-wal` and `-shm`: {_MADE_AGAIN}"),
    _STRANGE: Cause(
        BadInput,
        "{path} is not a store, or it is damaged",
        f"name the store with `--store`; if this is it, move it away with its `-wal` and `-shm`: {_MADE_AGAIN}",
    ),
}

_IO_ERROR = Cause(HarnessBroken, "{path} has an I/O error", "look at `dmesg`: the host's own disk reports errors")
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
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_IOERR": _IO_ERROR,
}
_AWAY = Cause(HarnessBroken, "{path} does not answer", "check that the server is up and reachable")
_NOT_ALLOWED = Cause(BadInput, "{path} refuses the login", "check user and password in `--store URL`")
_TOO_MANY = Cause(HarnessBroken, "{path} has too many connections", "try again, or ask who runs the server")
_REFUSED = Cause(BadInput, "{path} refuses the connection", "correct `--store URL`, or ask who runs the server")
_NO_RIGHTS = Cause(
    BadInput,
    "{path} does not allow this to its user",
    "ask the owner of the database for the right, or name another user",
)
# Keyed by the prefix of PostgreSQL's codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRESQL = {
    "53100": FULL,
    "53": _TOO_MANY,
    "25006": READ_ONLY,
    "42501": _NO_RIGHTS,
    "28": _NOT_ALLOWED,
    "3D": Cause(BadInput, "{path}: the database does not exist", "make it (`createdb NAME`), or name another"),
    "55P03": Cause(
        HarnessBroken, "{path} is locked by another session", "find the session that locks its tables, and retry"
    ),
    "57014": Cause(HarnessBroken, "{path} takes too long to answer", "check the load of the server, and retry"),
    "57P": _AWAY,
    "08": _AWAY,
}


_CONSTRAINT = "SQLITE_CONSTRAINT"


@contextmanager
def driver_transaction(
    driver: sqlite3.Connection,
    path: Path | str,
    *,
    immediate: bool = False,
    remedies: Mapping[Cause, Cause] = NO_REMEDIES,
) -> Iterator[None]:
    """Write without SQLAlchemy, which takes longer than SQLite to write one row. Errors are those of SQLAlchemy."""
    with translate_errors(path, remedies), driver_errors():
        driver.execute("BEGIN IMMEDIATE" if immediate else "BEGIN")
        try:
            yield
            driver.execute("COMMIT")
        except BaseException:
            driver.rollback()
            raise


@contextmanager
def driver_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        raise DBAPIError.instance(None, None, problem, sqlite3.Error) from problem


def driver_sql(statement: Any, columns: Collection[str] | None = None) -> str:
    """Return the text of a statement for the driver of SQLite, with a named parameter for each column."""
    from sqlalchemy.dialects import sqlite

    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named"), column_keys=columns))


@contextmanager
def translate_errors(path: Path | str, remedies: Mapping[Cause, Cause] = NO_REMEDIES) -> Iterator[None]:
    """Turn database errors of the block into a MatrixError about `path`. `remedies`: causes with other advice."""
    try:
        yield
    except (DBAPIError, *FILE_ERRORS) as problem:
        cause, details = cause_of(problem), str(problem)
        if isinstance(problem, DBAPIError):
            cause, details = _database_cause(problem)
        if cause is _IO_ERROR and _is_full(Path(path)):
            cause = FULL
        if cause is None:
            raise
        raise remedies.get(cause, cause).error(path, details) from problem


_SHARED_MEMORY = 32 * 1024  # bytes of the file `-shm`, the least that SQLite needs to open a database


def _is_full(path: Path) -> bool:
    """Check the disk: SQLite reports SQLITE_FULL for its database and its log alone."""
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < _SHARED_MEMORY
    return False


def _database_cause(problem: DBAPIError) -> tuple[Cause | None, str]:
    text = str(problem.orig)
    code = getattr(problem.orig, "sqlite_errorname", "") or getattr(problem.orig, "sqlstate", None) or ""
    if code:
        causes = _SQLITE if code.startswith("SQLITE_") else _POSTGRESQL
        known = next((cause for prefix, cause in causes.items() if code.startswith(prefix)), None)
        # Other errors of SQLite about statements that work on a whole file: its tables are not ours, or its values.
        is_damage = known is None and isinstance(problem.orig, sqlite3.Error) and not code.startswith(_CONSTRAINT)
        return DAMAGED if is_damage else known, f"{text} ({code})"
    if isinstance(problem.orig, sqlite3.Error):  # a text that is not UTF-8
        return DAMAGED, text.strip()
    return _connection_cause(text) if isinstance(problem, OperationalError) else None, text.strip()


#: Words of a server that refuses a connection. The first that fits counts. What is `_AWAY` may soon be back.
_SIGNS = {
    "too many": _TOO_MANY,
    "connection slots": _TOO_MANY,
    "the database system is": _AWAY,
    "terminating connection": _AWAY,
    "due to timeout": _AWAY,
    "permission denied": _NO_RIGHTS,
    "authentication failed": _NOT_ALLOWED,
    "no password supplied": _NOT_ALLOWED,
    "pg_hba.conf": _NOT_ALLOWED,
    'role "': _NOT_ALLOWED,
}


def _connection_cause(text: str) -> Cause:
    """Guess the cause from the text. The server sends a code, but the library does not pass it on."""
    found = next((cause for sign, cause in _SIGNS.items() if sign in text), None)
    if found is None and 'database "' in text and "does not exist" in text:
        return _POSTGRESQL["3D"]
    return found or (_REFUSED if "FATAL:" in text else _AWAY)


_CONNECT = 5  # seconds. An unreachable server must not delay a run for long.
LOST_COMMITS = "its log (the file `-wal`) has commits that cannot be read"
_LOG_HEAD, _FRAME_HEAD = 32, 24  # bytes in the log of SQLite
_LOG_SIGN = b"\x37\x7f\x06"
_GLANCE = 0.01  # seconds between checks for a file that another process is creating
_CONNECTION = {
    "connect_timeout": _CONNECT,
    "tcp_user_timeout": _CONNECT * 1000,
    "application_name": "matrix",
    "options": f"-c lock_timeout={_CONNECT * 1000} -c statement_timeout=60000",
}


def _check_regular(path: Path) -> None:
    """Refuse pipes and devices in place of a file of SQLite: it would wait for ever."""
    for file in (path, *(path.with_name(f"{path.name}-{name}") for name in ("wal", "shm", "journal"))):
        with suppress(FileNotFoundError, NotADirectoryError):
            check_regular(file, file.stat())


def _check_objects(
    connection: sqlite3.Connection, path: Path, tables: Collection[str], remedies: Mapping[Cause, Cause]
) -> None:
    """Refuse what can lose trials or run for ever: triggers, and views in place of tables."""
    query = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    for kind, name in connection.execute(query):
        if kind == "trigger" or name.lower() in tables:  # SQLite ignores the case of names
            raise remedies.get(_STRANGE, _STRANGE).error(path, f"it has a {kind} named {name}")


def sqlite_engine(
    path: Path,
    tables: Collection[str],
    *,
    busy_ms: int,
    durable: bool,
    remedies: Mapping[Cause, Cause] = NO_REMEDIES,
) -> sa.Engine:
    """Open a file with these tables for writing. Only with `durable`, all commits survive a power loss of the host."""
    engine = _engine(sa.URL.create("sqlite", database=str(path)), poolclass=sa.NullPool if durable else sa.StaticPool)

    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, because the driver begins them late
        connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
        _check_objects(connection, path, tables, remedies)
        known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not known or known >= {*tables}:  # the mode is kept in the file, and this may be one of another program
            switch_to_wal(connection, busy_ms / 1000)
        # In WAL mode, less than FULL may lose the last transactions at a power loss.
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = ON")

    sa.event.listen(engine, "do_connect", lambda *_: _check_regular(path))
    sa.event.listen(engine, "connect", configure)
    sa.event.listen(engine, "begin", _begin)
    return engine


def has_lost_commits(path: Path) -> bool:
    """Whether the log has commits that SQLite does not read: a changed bit is the end of the log for it.

    The caller has a lock for writing. A log from before the last boot may end with commits that a power loss cut off.
    The last page of a commit that failed on a full disk is incomplete.
    """
    log, shared = (path.with_name(f"{path.name}-{name}") for name in ("wal", "shm"))
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    if not (log.exists() and shared.exists() and log.stat().st_mtime > boot):
        return False
    with log.open("rb") as file:
        size, head = os.fstat(file.fileno()).st_size, file.read(_LOG_HEAD)
        page, salts = int.from_bytes(head[8:12], "big"), (head[16:20], head[20:24])
        if len(head) == _LOG_HEAD and not _is_log_head(head):
            return True
        file.seek(_LOG_HEAD + _known_frames(shared) * (_FRAME_HEAD + page))
        while len(frame := file.read(_FRAME_HEAD)) == _FRAME_HEAD:
            is_commit = file.seek(page, os.SEEK_CUR) <= size and frame[4:8] != bytes(4)
            if is_commit and (frame[8:12] == salts[0] or frame[12:16] == salts[1]):
                return True
    return False


def _known_frames(shared: Path) -> int:
    """Return how many frames of its log SQLite knows.

    Another program reads the file: if this process closed it, it would lose SQLite's own locks on it, and the next
    reader would cut the file while it is mapped (SIGBUS).
    """
    done = run(["od", "-An", "-tu4", "-j16", "-N4", "--", str(shared)])
    return int(done.stdout) if done.returncode == 0 else 0


def _is_log_head(head: bytes) -> bool:
    """Check its sign and its checksum, which is right for zeros: https://www.sqlite.org/fileformat2.html#checksum_algorithm."""
    order = ">" if head[3] & 1 else "<"
    first = second = 0
    for one, other in struct.iter_unpack(f"{order}II", head[:24]):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return head.startswith(_LOG_SIGN) and struct.pack(">II", first, second) == head[24:]


def switch_to_wal(connection: Any, patience: float) -> None:
    """Switch to WAL mode. If several processes do so at once, SQLite fails some of them at once, so retry."""
    until = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_GLANCE)
        else:
            return


def sqlite_reader(path: Path, tables: Collection[str], remedies: Mapping[Cause, Cause] = NO_REMEDIES) -> sa.Engine:
    """Open a file read-only, with the content of a log beside it, but without creating one."""
    log, shared = (path.with_name(f"{path.name}-{name}") for name in ("wal", "shm"))
    unchanging = {} if log.exists() and (log.stat().st_size or shared.exists()) else {"immutable": "1"}
    url = sa.URL.create(
        "sqlite",
        database=f"file:{quote(os.fsencode(path.absolute()))}",
        query={"mode": "ro", "uri": "true", **unchanging},
    )
    engine = _engine(url, poolclass=sa.StaticPool)
    sa.event.listen(engine, "do_connect", lambda *_: _check_regular(path))
    sa.event.listen(engine, "connect", lambda connection, _: _check_objects(connection, path, tables, remedies))
    return engine


def memory_engine() -> sa.Engine:
    return _engine(sa.URL.create("sqlite"), poolclass=sa.StaticPool)


def memory_copy(source: sa.Connection) -> sa.Engine:
    """Copy a database that cannot be written, so that it can be converted to the version of this program."""
    driver = cast("sqlite3.Connection", source.connection.driver_connection)
    engine = memory_engine()
    sa.event.listen(engine, "connect", lambda connection, _: driver.backup(connection))
    return engine


def postgresql_engine(url: sa.URL) -> sa.Engine:
    ours = {name: value for name, value in _CONNECTION.items() if name not in url.query}
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # a lost connection is our own message
    try:
        return _engine(url.set(drivername="postgresql+psycopg"), pool_size=1, pool_pre_ping=True, connect_args=ours)
    except ModuleNotFoundError as missing:
        raise missing_package("a store in PostgreSQL", "psycopg", details=str(missing)) from missing


@lru_cache  # to build one takes longer than to run it
def upsert(dialect: str, table: sa.Table, *columns: str) -> Any:
    """Return an insert that replaces only the named columns of an existing row. Without columns, it keeps the row."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:  # slow to import, and rarely needed
        from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
    statement: Any = insert(table)
    key = list(table.primary_key)
    if not columns:
        return statement.on_conflict_do_nothing(index_elements=key)
    return statement.on_conflict_do_update(
        index_elements=key, set_={name: statement.excluded[name] for name in columns}
    )


def _engine(url: sa.URL, **how: Any) -> sa.Engine:
    serialize = {"json_serializer": lambda value: orjson.dumps(value).decode(), "json_deserializer": orjson.loads}
    engine = sa.create_engine(url, **serialize, **how)
    if engine.dialect.name == "sqlite":  # sorts in memory: temporary files need a folder with room, even for reading
        sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA temp_store = MEMORY"))
    return engine


def _begin(connection: sa.Connection) -> None:
    """Take the write lock at the start: a transaction that reads first may fail to get it later."""
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


class Database:
    """What all databases have: a name for messages, and errors as ours. `remedies`: causes with other advice."""

    def __init__(self, engine: sa.Engine, name: Path | str, remedies: Mapping[Cause, Cause] = NO_REMEDIES) -> None:
        self._engine, self._name, self._remedies = engine, name, remedies
        self._log_keeper: sqlite3.Connection | None = None

    def _transaction(self, *, immediate: bool = False) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def _rows(self, query: sa.Executable) -> Sequence[tuple[Any, ...]]:
        """Fetch all rows at once: an open cursor would block the checkpoint of the log."""
        with self._checked(), self._transaction() as connection:
            return cast("Sequence[tuple[Any, ...]]", connection.execute(query).all())

    def _plain_rows(self, query: sa.Executable) -> Sequence[tuple[Any, ...]]:
        """Fetch rows from the driver without conversion, which would take most of the time for 100,000 rows."""
        with self._checked(), self._transaction() as connection:
            return cast("Sequence[tuple[Any, ...]]", connection.execute(query).cursor.fetchall())

    def _check_structure(self, connection: sa.Connection, file: Path | None) -> None:
        """Raise if the structure of the file has changed, or the log lost its end."""
        if file and has_lost_commits(file):
            # The last connection that can write would remove the log, and the next reader miss commits without a word.
            self._log_keeper = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
            self._log_keeper.execute("SELECT count(*) FROM sqlite_master").fetchall()
            raise self._damage(LOST_COMMITS)
        if connection.dialect.name == "sqlite":
            verdict = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
            if verdict != "ok":
                raise self._damage(str(verdict))

    def _damage(self, details: str) -> MatrixError:
        return self._remedies.get(DAMAGED, DAMAGED).error(self._name, details)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Report values that this program did not write: a flipped bit leaves the structure of a file intact."""
        try:
            yield
        except (ValueError, TypeError) as problem:
            raise self._damage(str(problem)) from problem

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with translate_errors(self._name, self._remedies), driver_errors():
            yield

    def close(self) -> None:
        self._engine.dispose()
        if self._log_keeper:
            self._log_keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def keys(**types: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, primary_key=True) for name, kind in types.items()]


def required(**types: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name, kind in types.items()]


def optional(**types: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name, kind in types.items()]
