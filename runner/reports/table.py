"""Tables and their formats: CSV, JSON, Markdown, Parquet and the terminal."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runner.base.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.reports.fit import Sheet

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


_BOOLS = {True: "true", False: "false"}


def as_csv(grid: Grid) -> bytes:
    """Return CSV (RFC 4180, UTF-8) without the notes, whose facts are in columns too."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(grid.columns)
    writer.writerows([_BOOLS[value] if value.__class__ is bool else value for value in row] for row in grid.rows)
    return text.getvalue().encode()


def as_json(grid: Grid) -> bytes:
    import orjson

    rows = [dict(zip(grid.columns, row, strict=True)) for row in grid.rows]
    return orjson.dumps({"notes": grid.notes, "rows": rows}, option=orjson.OPT_INDENT_2) + b"\n"


def as_markdown(grid: Grid) -> bytes:
    rules = ["---:" if column in grid.right else "---" for column in grid.columns]
    lines = [_line(grid.columns), _line(rules, escape=False), *(_line(row) for row in grid.rows)]
    notes = [f"{escape_markdown(note)}\n" for note in grid.notes]
    return ("\n".join([*notes, *lines]) + "\n").encode()


def as_parquet(grid: Grid) -> bytes:
    try:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise BadInput(
            "parquet needs pyarrow, which is not installed",
            resolution="`.venv/bin/pip install pyarrow`, or use --format csv",
        ) from None
    columns = list(zip(*grid.rows, strict=True)) or [() for _ in grid.columns]
    arrays = [pa.array(column) for column in columns]
    table = pa.Table.from_arrays(arrays, names=list(grid.columns), metadata={"notes": "\n".join(grid.notes)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


FORMATS: dict[str, Callable[[Grid], bytes]] = {
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
    "parquet": as_parquet,
}


def as_sheet(grid: Grid) -> Sheet:
    from runner.reports.fit import Sheet

    rows = [tuple("" if value is None else str(value) for value in row) for row in grid.rows]
    return Sheet(grid.columns, rows, right=grid.right)


def _line(values: Any, *, escape: bool = True) -> str:
    texts = ["" if value is None else str(value) for value in values]
    return f"| {' | '.join(escape_markdown(text) if escape else text for text in texts)} |"


def escape_markdown(text: str) -> str:
    """Escape the characters that end a table cell or start Markdown syntax."""
    for sign in "\\|`*_<":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
