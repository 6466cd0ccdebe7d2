"""Connections to SQLite and PostgreSQL, with the settings that each needs."""

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

#: Seconds. An unreachable server must not delay a run for long.
_CONNECT = 5
#: Seconds between checks for a file that another process is creating.
_GLANCE = 0.01
_POSTGRESQL = {
    "connect_timeout": _CONNECT,
    "tcp_user_timeout": _CONNECT * 1000,
    "application_name": "matrix",
    "options": f"-c lock_timeout={_CONNECT * 1000} -c statement_timeout=60000",
}


def sqlite_engine(path: Path, *, busy_ms: int, durable: bool) -> sa.Engine:
    """Open a file for writing.

    With `durable`, commits survive a power loss of the host; without, the last may be lost.
    """
    engine = _engine(sa.URL.create("sqlite", database=str(path)), poolclass=sa.NullPool if durable else sa.StaticPool)

    def configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, because the driver begins them late
        connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
        switch_to_wal(connection, busy_ms / 1000)
        for pragma in (
            # In WAL mode, less than FULL may lose the last transactions at a power loss.
            f"synchronous = {'FULL' if durable else 'NORMAL'}",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    sa.event.listen(engine, "connect", configure)
    sa.event.listen(engine, "begin", _begin)
    return engine


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


def sqlite_reader(path: Path) -> sa.Engine:
    """Open a file read-only, without a log beside it.

    If a log exists (another process writes, or was killed), read its content, too.
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
    return _engine(sa.URL.create("sqlite"), poolclass=sa.StaticPool)


def postgresql_engine(url: sa.URL) -> sa.Engine:
    """Connect to a server. Parameters in the URL take precedence over our defaults."""
    ours = {name: value for name, value in _POSTGRESQL.items() if name not in url.query}
    return _engine(url.set(drivername="postgresql+psycopg"), pool_size=1, pool_pre_ping=True, connect_args=ours)


def upsert(engine: sa.Engine, table: sa.Table, columns: Collection[str]) -> Any:
    """Return an insert that replaces only the named columns of an existing row. Without columns, it keeps the row."""
    if engine.dialect.name == "sqlite":
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
    return sa.create_engine(
        url,
        json_serializer=lambda value: orjson.dumps(value).decode(),
        json_deserializer=orjson.loads,
        **how,
    )


def _begin(connection: sa.Connection) -> None:
    """Take the write lock at the start: a transaction that reads first may fail to get it later."""
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
