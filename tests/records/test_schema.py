"""The tables and statements say nothing that only SQLite understands."""

from __future__ import annotations

import dataclasses

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from matrix_runner.records import journal_tables as schema
from matrix_runner.records.journal_tables import COLUMNS
from matrix_runner.work.fio.output import Direction
from matrix_runner.work.metrics import SIDES

POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("table", schema.tables.sorted_tables, ids=lambda table: table.name)
def test_every_table_can_be_made_in_postgresql(table: sa.Table) -> None:
    text = str(CreateTable(table).compile(dialect=POSTGRESQL))
    assert f"CREATE TABLE {table.name}" in text
    assert "DATETIME" not in text


def test_trials_can_be_read_from_postgresql() -> None:
    text = str(sa.select(*COLUMNS).compile(dialect=POSTGRESQL))
    assert "CAST(trials.notes AS TEXT)" in text


def test_every_field_of_a_direction_has_its_columns() -> None:
    fields = tuple(field.name for field in dataclasses.fields(Direction))
    assert fields == (*schema.DIRECTION, "latencies")
    assert {f"{side}_{name}" for side in SIDES for name in fields} <= set(schema.trials.c.keys())
