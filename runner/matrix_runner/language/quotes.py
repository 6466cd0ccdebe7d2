"""Errors as a few short lines: place, message, and the part of the line around its column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix_runner.base.text import printable, shorten

if TYPE_CHECKING:
    from matrix_runner.base.findings import Place
    from matrix_runner.language.yaml_source import Source

#: The most characters of a quoted line, and how many of them come before its column.
WINDOW, BEFORE = 160, 110
LONGEST, MOST_LINES = 400, 3  # of a message


def format_error(source: Source, place: Place, message: str) -> str:
    shown = "\n".join(shorten(line, LONGEST) for line in message.split("\n")[:MOST_LINES])
    file = shorten(place.file, LONGEST)
    return f"{file}:{place.line}:{place.column}: {shown}\n{quote(source.line(place), place.column)}"


def quote(line: str, column: int) -> str:
    """Quote at most `WINDOW` characters of a line, with a caret under its column (from 1)."""
    at = min(column - 1, len(line))
    before, after = _visible(line[max(at - WINDOW - 1, 0) : at]), _visible(line[at : at + WINDOW + 1])
    kept = max(BEFORE, WINDOW - len(after))
    before = before if len(before) <= kept else f"…{before[1 - kept :]}"
    return f"    {before}{shorten(after, WINDOW - len(before))}\n    {' ' * len(before)}^"


def _visible(text: str) -> str:
    return printable(text.replace("\t", " "))
