"""The tables and statements say nothing that only SQLite understands."""

from __future__ import annotations

import dataclasses

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from matrix_runner.records.tables import DIRECTION, IN_JOURNAL, IN_STORE, LATENCIES, raw_columns
from matrix_runner.work.fio.output import Direction
from matrix_runner.work.metrics import SIDES

POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "table",
    [*IN_JOURNAL.metadata.sorted_tables, *IN_STORE.metadata.sorted_tables],
    ids=lambda table: f"{table.name}-{len(table.columns)}",
)
def test_every_table_can_be_made_in_postgresql(table: sa.Table) -> None:
    text = str(CreateTable(table).compile(dialect=POSTGRESQL))
    assert f"CREATE TABLE {table.name}" in text
    assert "DATETIME" not in text


def test_trials_can_be_read_from_postgresql() -> None:
    text = str(sa.select(*raw_columns(IN_STORE.trials)).compile(dialect=POSTGRESQL))
    assert "CAST(trials.notes AS TEXT)" in text


@pytest.mark.parametrize("name", ["cells", "trials", "jobs", "readings", "meta"])
def test_a_journal_is_a_store_of_one_run(name: str) -> None:
    """Histograms of trials have a table of their own in a store."""
    ours, shared = ({*getattr(tables, name).c.keys()} for tables in (IN_JOURNAL, IN_STORE))
    assert shared - ours == ({"run"} if name in {"cells", "trials", "jobs"} else set())
    assert ours - shared == ({"id", *LATENCIES} if name == "trials" else set())


def test_every_field_of_a_direction_has_its_columns() -> None:
    fields = tuple(field.name for field in dataclasses.fields(Direction))
    assert fields == (*DIRECTION, "latencies")
    assert {f"{side}_{name}" for side in SIDES for name in fields} <= set(IN_JOURNAL.trials.c.keys())
