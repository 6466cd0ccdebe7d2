"""A journal as text of SQL, also without its figures."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from matrix_runner.base.errors import Damaged
from matrix_runner.records.tables import FIGURES, LATENCIES, REBUILD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIGURES = frozenset((*REBUILD, *FIGURES, *LATENCIES))


def sql_lines(journal: Path, *, figures: bool) -> Iterator[str]:
    """Yield the statements that make a copy of the journal. A process may be writing to it."""
    try:
        # An empty name: a temporary file, which SQLite removes.
        where = f"{journal.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(where, uri=True)) as source, closing(sqlite3.connect("")) as copy:
            source.backup(copy)
            if not figures:
                _remove_figures(copy)
            yield from copy.iterdump()
    except (sqlite3.Error, UnicodeDecodeError) as problem:
        remedy = "`matrix salvage RUN` writes what can be read of it into a new run"
        raise Damaged(f"{journal} cannot be read", details=str(problem), resolution=remedy) from problem


def _remove_figures(copy: sqlite3.Connection) -> None:
    columns = [row[1] for row in copy.execute("PRAGMA table_info(trials)") if row[1] in _FIGURES]
    copy.execute(f"UPDATE trials SET {', '.join(f'{name} = NULL' for name in columns)}")  # noqa: S608 - names of ours
    copy.execute("DELETE FROM jobs")
