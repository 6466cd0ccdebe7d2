"""How databases are opened: the one place that knows what SQLite and PostgreSQL each want."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

#: Seconds. A server that is gone must not hold a run up for long.
_CONNECT = 5
#: Seconds between two looks whether a file that another process makes is made.
_GLANCE = 0.01
_POSTGRESQL = {
    "connect_timeout": _CONNECT,
    "tcp_user_timeout": _CONNECT * 1000,
    "application_name": "matrix",
    "options": f"-c lock_timeout={_CONNECT * 1000} -c statement_timeout=60000",
}


def sqlite_engine(path: Path, *, busy_ms: int, durable: bool) -> sa.Engine:
    """A file of ours. `durable`: what is committed outlives a host that loses power; else the last of it may not."""
    engine = _engine(sa.URL.create("sqlite", database=str(path)), poolclass=sa.NullPool if durable else sa.StaticPool)

    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are ours to begin; the driver would begin them late
        connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
        into_wal(connection, busy_ms / 1000)
        for pragma in (
            # In WAL mode anything less than FULL may lose the last transactions when the host loses power.
            f"synchronous = {'FULL' if durable else 'NORMAL'}",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    sa.event.listen(engine, "connect", configure)
    sa.event.listen(engine, "begin", _begin)
    return engine


def into_wal(connection: Any, patience: float) -> None:
    """Have the file keep a log. Of several who make it at the same moment, some are told at once: they try again."""
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


def sqlite_reader(path: Path) -> sa.Engine:
    """A file that may not be written, not even beside itself, where SQLite wants to keep its log.

    Where there is a log already (of a process that is at it, or was killed), what stands in it is read too.
    """
    log, shared = (path.with_name(f"{path.name}-{name}") for name in ("wal", "shm"))
    unchanging = {} if log.exists() and (log.stat().st_size or shared.exists()) else {"immutable": "1"}
    url = sa.URL.create(
        "sqlite",
        database=f"file:{quote(os.fsencode(path.absolute()))}",
        query={"mode": "ro", "uri": "true", **unchanging},
    )
    return _engine(url, poolclass=sa.StaticPool)


def memory_engine() -> sa.Engine:
    """A database that is gone with its engine."""
    return _engine(sa.URL.create("sqlite"), poolclass=sa.StaticPool)


def postgresql_engine(url: sa.URL) -> sa.Engine:
    """A server. What the URL says itself counts more than what we would."""
    ours = {name: value for name, value in _POSTGRESQL.items() if name not in url.query}
    return _engine(url.set(drivername="postgresql+psycopg"), pool_size=1, pool_pre_ping=True, connect_args=ours)


def upsert(engine: sa.Engine, table: sa.Table, columns: Collection[str]) -> Any:
    """An insert which, where the key exists, replaces only the named columns; without any, leaves the row as it is."""
    if engine.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:  # slow to import, and most never have a server
        from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
    statement: Any = insert(table)
    key = list(table.primary_key)
    if not columns:
        return statement.on_conflict_do_nothing(index_elements=key)
    return statement.on_conflict_do_update(
        index_elements=key, set_={name: statement.excluded[name] for name in columns}
    )


def _engine(url: sa.URL, **how: Any) -> sa.Engine:
    return sa.create_engine(
        url,
        json_serializer=lambda value: orjson.dumps(value).decode(),
        json_deserializer=orjson.loads,
        **how,
    )


def _begin(connection: sa.Connection) -> None:
    """A transaction that reads before it writes must take the write lock first, or it may find it cannot have it."""
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
