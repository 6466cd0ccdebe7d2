"""Schema versions of databases: migrations of older ones, and refusal of newer ones.

All steps run in one transaction, so a kill leaves either the old or the new version. There are no downgrades.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Step = Callable[[sa.Connection], None]

#: An arbitrary lock number, so that two processes do not create the tables at once.
_PREPARING = 0x6D617472


@dataclass(frozen=True, slots=True)
class Versioned:
    """A schema and its migrations. The first step leads from version 1 to 2."""

    what: str
    tables: sa.MetaData
    meta: sa.Table
    steps: tuple[Step, ...]
    stranger: str  # remedy for a foreign database
    newer: str  # remedy for a newer database

    @property
    def version(self) -> int:
        """Return the version that this program writes."""
        return len(self.steps) + 1

    def prepare(self, connection: sa.Connection, name: Path | str) -> None:
        """Create the tables, or migrate older ones. The caller opens a transaction that may write."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"select pg_advisory_xact_lock({_PREPARING})"))
        if not sa.inspect(connection).get_table_names():
            self.tables.create_all(connection)
            connection.execute(sa.insert(self.meta), {"key": "schema", "value": str(self.version)})
            return
        found = self.understood(connection, name)
        for step in self.steps[found - 1 :]:
            step(connection)
        if found < self.version:
            connection.execute(sa.update(self.meta).filter_by(key="schema").values(value=str(self.version)))

    def understood(self, connection: sa.Connection, name: Path | str) -> int:
        """Return the version of a database. Raise if it is foreign or newer."""
        if not sa.inspect(connection).has_table(self.meta.name):
            raise BadInput(f"{name} is a database, but not a {self.what} of matrix", resolution=self.stranger)
        version = int(connection.scalar(sa.select(self.meta.c.value).filter_by(key="schema")) or 0)
        if version > self.version:
            raise BadInput(
                f"{name} was written by a newer version of matrix",
                details=f"its schema is version {version}; this program reads versions up to {self.version}",
                resolution=self.newer,
            )
        if version < 1:
            raise BadInput(f"{name} is not a {self.what} of matrix", resolution=self.stranger)
        return version


def rename_columns(names: Mapping[str, str], *tables: str) -> Step:
    """Return a step that renames columns. Tables from an earlier step of the same migration have the new names."""

    def step(connection: sa.Connection) -> None:
        inspector = sa.inspect(connection)
        for table in tables:
            there = {column["name"] for column in inspector.get_columns(table)}
            for old, new in names.items():
                if old in there:
                    connection.execute(sa.text(f'ALTER TABLE {table} RENAME COLUMN "{old}" TO "{new}"'))

    return step


def rename_notes(names: Mapping[str, str]) -> Step:
    """Return a step that renames the keys of `trials.notes`, which are JSON."""

    def step(connection: sa.Connection) -> None:
        trials = sa.table("trials", sa.column("notes", sa.JSON))
        text = sa.cast(trials.c.notes, sa.Text)
        renamed: sa.ColumnElement[str] = text
        for old, new in names.items():
            renamed = sa.func.replace(renamed, f'"{old}":', f'"{new}":')  # a quote inside a text has a backslash
        changed = sa.cast(renamed, sa.JSON) if connection.dialect.name == "postgresql" else renamed
        among = sa.or_(*(text.contains(f'"{old}":') for old in names))
        connection.execute(sa.update(trials).where(among).values({"notes": changed}))

    return step
