"""Rows that a test changed, with a right checksum again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix_runner.records.tables import CRC, IN_JOURNAL, SEALED, crc_of, data_columns, runs

if TYPE_CHECKING:
    from sqlite3 import Connection

    from sqlalchemy import Table


_ROWS = " UNION ALL ".join(f"SELECT crc FROM {table.name}" for table in SEALED)  # noqa: S608 - names of ours


def reseal(connection: Connection, table: Table) -> None:
    """Write the checksum of each row again, and the sums of a journal or of the runs of a store."""
    keys, names = ([f'"{name}"' for name in some] for some in (table.primary_key.columns.keys(), data_columns(table)))
    where = " AND ".join(f"{key} = ?" for key in keys)
    for row in connection.execute(f"SELECT {', '.join(keys + names)} FROM {table.name}").fetchall():  # noqa: S608
        key, values = row[: len(keys)], row[len(keys) :]
        connection.execute(f"UPDATE {table.name} SET {CRC} = ? WHERE {where}", (crc_of(values), *key))  # noqa: S608
    if table.metadata is IN_JOURNAL.metadata:
        connection.execute(f"UPDATE meta SET value = (SELECT sum(crc + 1) FROM ({_ROWS})) WHERE key = 'sum'")  # noqa: S608
    elif table is not runs:
        total = f"SELECT sum(crc + 1) FROM {table.name} WHERE run = runs.id"  # noqa: S608
        connection.execute(f"UPDATE runs SET {table.name}_sum = ({total})")  # noqa: S608
        reseal(connection, runs)
