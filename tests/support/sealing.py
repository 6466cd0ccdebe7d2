"""Rows that a test changed, with a right checksum again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix_runner.records.tables import CRC, IN_JOURNAL, crc_of, data_columns

if TYPE_CHECKING:
    from sqlite3 import Connection

    from sqlalchemy import Table


_ROWS = "SELECT crc FROM trials UNION ALL SELECT crc FROM jobs"


def reseal(connection: Connection, table: Table) -> None:
    """Write the checksum of each row again; for a journal, also the sum of its trials and jobs."""
    names = ", ".join(f'"{name}"' for name in data_columns(table))
    for number, *values in connection.execute(f"SELECT rowid, {names} FROM {table.name}").fetchall():  # noqa: S608
        connection.execute(f"UPDATE {table.name} SET {CRC} = ? WHERE rowid = ?", (crc_of(values), number))  # noqa: S608
    if table.metadata is IN_JOURNAL.metadata:
        connection.execute(f"UPDATE meta SET value = (SELECT sum(crc + 1) FROM ({_ROWS})) WHERE key = 'sum'")  # noqa: S608
