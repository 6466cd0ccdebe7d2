"""The checksum of a row: made when it is written, checked when it is read. One flipped bit is no other figure."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any
from zlib import crc32

import orjson
import sqlalchemy as sa

from matrix_runner.records.tables import CRC, data_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FETCHED = 1000  # rows at once, so few that the cache of a processor has all of them


def crc_of(table: sa.Table, values: Sequence[Any]) -> int:
    """Return the checksum of the values of `data_columns`. A null in a column of a later version does not change it."""
    end, least = len(values), _first_columns(table)
    while end > least and values[end - 1] is None:
        end -= 1
    return crc32(orjson.dumps(values[:end], default=_of_bytes))  # bytes are the only other kind


def _of_bytes(value: bytes) -> object:
    """Return what no other value is: one flipped bit makes empty bytes of the number 0, whose checksum is 0, too."""
    return crc32(value) or []


@cache
def _first_columns(table: sa.Table) -> int:
    return len(data_columns(table, 1))


def sealed(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as a database gives it back, with its checksum."""
    known = {name: value if (value := row[name]) is None else as_stored(value) for name, as_stored in _stored(table)}
    return known | {CRC: crc_of(table, [*map(_as_read, known.values())])}


def _as_read(value: Any) -> Any:
    if value.__class__ in {dict, list}:
        return orjson.dumps(value).decode()
    return int(value) if value.__class__ is bool else value


@cache
def _stored(table: sa.Table) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((name, _conversion(table.c[name])) for name in data_columns(table))


def _conversion(column: sa.Column[Any]) -> Callable[[Any], Any]:
    if isinstance(column.type, sa.Float):
        return lambda value: float(value) + 0.0  # SQLite keeps no sign of 0
    return int if isinstance(column.type, sa.Integer) else bool if isinstance(column.type, sa.Boolean) else _unchanged


def _unchanged(value: Any) -> Any:
    return value


def check_rows(
    connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool], version: float = inf
) -> None:
    """Raise ValueError if a row is not the one that was written. `version`: that of the database, if it is older."""
    cursor: Any = connection.execute(sa.select(*raw_columns(table, version)).where(*where)).cursor
    while rows := cursor.fetchmany(_FETCHED):
        for row in rows:
            if not is_sound(table, row):
                raise ValueError(f"a row of {table.name} has another checksum: {row[0]!r:.60}, {row[1]!r:.60}")


def is_sound(table: sa.Table, row: Sequence[Any]) -> bool:
    """Check the values of `raw_columns`."""
    try:
        return bool(crc_of(table, row[:-1]) == row[-1])
    except TypeError:
        return False


@cache
def raw_columns(table: sa.Table, version: float = inf) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns as SQLite and PostgreSQL have them, without conversion."""
    return (*(raw_column(table.c[name]) for name in data_columns(table, version)), table.c[CRC])


def raw_column(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    kind = sa.Text if isinstance(column.type, sa.JSON) else sa.Integer if isinstance(column.type, sa.Boolean) else None
    return sa.cast(column, kind) if kind else column
