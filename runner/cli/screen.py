"""Text output for people, with lines broken between words on a terminal."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from runner.reports.terminal_text import wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rich.console import Console

    from runner.reports.fit import Sheet

#: The label of a list line, `kvm       not there`: continuation lines align with the text after it.
_LABEL = re.compile(r"\s*\S+\s{2,}")
#: Terminals that cannot move their cursor.
_DUMB = {"", "dumb", "unknown"}
#: The width of tables in a pipe or a file, which need no folding.
_WIDE = 400
#: The width of reflowed sentences in a pipe or a file.
WIDTH = 100


def echo(text: str, *, err: bool = False, stream: TextIO | None = None) -> None:
    """Print a text; on a terminal, break long lines."""
    to = stream or (sys.stderr if err else sys.stdout)
    click.echo(wrap_text(text, columns_of(to)), file=to)


def wrap_text(text: str, columns: int) -> str:
    """Break lines between words, with a hanging indent; 0 columns: no change."""
    if not columns:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrap_line(line, columns))


def columns_of(stream: TextIO) -> int:
    """Return the width of the terminal behind a stream; 0 if it is no terminal."""
    with suppress(OSError, ValueError, AttributeError):
        if stream.isatty():
            return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns
    return 0


def is_live_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can redraw a line."""
    return bool(columns_of(stream)) and os.environ.get("TERM", "").lower() not in _DUMB


def console_for(sheet: Sheet, stream: TextIO, columns: int) -> Console:
    """Return a console as wide as the terminal; without a terminal (0 columns), as wide as the table."""
    from rich.console import Console

    from runner.reports.fit import boxed_width

    # Without a height, rich assumes 80 columns on a dumb terminal.
    return Console(file=stream, width=columns or max(_WIDE, boxed_width(sheet)), height=25, highlight=False)


def print_sheet(sheet: Sheet, stream: TextIO) -> None:
    """Print a table: fitted to a terminal, complete in a pipe or a file."""
    from runner.reports.fit import Fitted

    console_for(sheet, stream, columns_of(stream)).print(Fitted(sheet))


def _width_function(line: str) -> Callable[[str], int]:
    """Return the width function for a line. Only wide or combining characters need rich, which is slow to import."""
    if line.isascii():
        return len
    from rich.cells import cell_len

    return cell_len


def _wrap_line(line: str, columns: int) -> list[str]:
    measure = _width_function(line)
    if measure(line) <= columns:
        return [line]
    label = _LABEL.match(line)
    hang = label.end() if label else len(line) - len(line.lstrip())
    hang = hang if hang < columns // 2 else 0
    head, text = line[:hang], line[hang:]
    first, *more = wrap(text, columns - hang, measure)
    return [head + first, *(" " * hang + part for part in more)]
