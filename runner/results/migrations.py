"""Versions of a schema: an older database is brought up to date with all that is in it, one from the future refused.

Every step is one plain function in one transaction with all others, so a kill leaves either the old version or the
new one. There is no way back down: an older program says that it does not know the version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Any number that no other program is likely to lock by: two that make the tables at once would trip over each other.
_PREPARING = 0x6D617472


@dataclass(frozen=True, slots=True)
class Versioned:
    """A schema, and how every older version becomes the next: the first step leads from version 1 to 2."""

    what: str
    tables: sa.MetaData
    meta: sa.Table
    steps: tuple[Callable[[sa.Connection], None], ...]
    stranger: str  # what to do about a database that is not ours
    newer: str  # what to do about one from the future

    @property
    def version(self) -> int:
        """The one that this program writes."""
        return len(self.steps) + 1

    def prepare(self, connection: sa.Connection, name: Path | str) -> None:
        """Make the tables where there are none, bring older ones up to date. In a transaction that may write."""
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
        """The version that a database has; refused if it is not ours, or comes from the future."""
        if not sa.inspect(connection).has_table(self.meta.name):
            raise BadInput(f"{name} is a database, but not a {self.what} of ours", resolution=self.stranger)
        version = int(connection.scalar(sa.select(self.meta.c.value).filter_by(key="schema")) or 0)
        if version > self.version:
            raise BadInput(
                f"{name} was written by a newer version of matrix",
                details=f"its schema is version {version}; this program knows versions up to {self.version}",
                resolution=self.newer,
            )
        if version < 1:
            raise BadInput(f"{name} is not a {self.what} of ours", resolution=self.stranger)
        return version
