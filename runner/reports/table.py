"""A table as a value: what every answer is, before it is written in one format or another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = str | float | int | bool | None
#: Where the rest of a table is that a command cut off.
HINT = "`--rows` shows more, `--format csv` all"


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under names. `notes` belong to it wherever it is shown: above all that figures are synthetic."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    notes: tuple[str, ...] = ()
    #: Columns of numbers as people read them, which stand to the right.
    right: frozenset[str] = frozenset()

    def with_notes(self, *notes: str) -> Grid:
        """It, with more to be said; what is empty is not."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))
