"""Rows that a test changed, with a right checksum again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix_runner.records.tables import CRC, crc_of, data_columns

if TYPE_CHECKING:
    from sqlite3 import Connection

    from sqlalchemy import Table


def reseal(connection: Connection, table: Table) -> None:
    names = ", ".join(f'"{name}"' for name in data_columns(table))
    for number, *values in connection.execute(f"SELECT rowid, {names} FROM {table.name}").fetchall():  # noqa: S608
        connection.execute(f"UPDATE {table.name} SET {CRC} = ? WHERE rowid = ?", (crc_of(values), number))  # noqa: S608
