"""Tables and their formats: CSV, JSON, Markdown, Parquet and the terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = str | float | int | bool | None
#: Note below a table that has more rows.
HINT = "`--rows` shows more, `--format csv` all"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with named columns. Each format shows `notes`, such as that figures are synthetic."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    notes: tuple[str, ...] = ()
    #: Columns that are aligned to the right.
    right: frozenset[str] = frozenset()

    def with_notes(self, *notes: str) -> Grid:
        """Add notes; skip empty ones."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))
