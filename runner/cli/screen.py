"""Text for people: on a terminal, lines are broken between words."""

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

#: A line of a list with its label, `kvm       not there`: what follows stands below the text.
_LABEL = re.compile(r"\s*\S+\s{2,}")
#: Terminals that cannot move their cursor.
_DUMB = {"", "dumb", "unknown"}
#: A terminal is as wide as it is; in a pipe or a file, lines need not be folded.
_WIDE = 400
#: Sentences that are laid out anew have lines of this length there.
WIDTH = 100


def echo(text: str, *, err: bool = False, stream: TextIO | None = None) -> None:
    """Print a line; on a terminal, in as many lines as it takes."""
    to = stream or (sys.stderr if err else sys.stdout)
    click.echo(broken(text, columns_of(to)), file=to)


def broken(text: str, columns: int) -> str:
    """Break each line between words to fit, later parts below the first one's text; 0 columns: leave it alone."""
    if not columns:
        return text
    return "\n".join(part for line in text.split("\n") for part in _parts(line, columns))


def columns_of(stream: TextIO) -> int:
    """How wide the terminal is that a stream goes to; 0 if it goes to none."""
    with suppress(OSError, ValueError, AttributeError):
        if stream.isatty():
            return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns
    return 0


def moves(stream: TextIO) -> bool:
    """Whether it goes to a terminal on which a line can be drawn again."""
    return bool(columns_of(stream)) and os.environ.get("TERM", "").lower() not in _DUMB


def console_for(sheet: Sheet, stream: TextIO, columns: int) -> Console:
    """A console as wide as the terminal; without one (0 columns), as wide as the table."""
    from rich.console import Console

    from runner.reports.fit import boxed_width

    # Without a height, rich takes any dumb terminal for one of 80 columns.
    return Console(file=stream, width=columns or max(_WIDE, boxed_width(sheet)), height=25, highlight=False)


def show(sheet: Sheet, stream: TextIO) -> None:
    """Print a table: to fit a terminal, whole in a pipe or a file."""
    from runner.reports.fit import Fitted

    console_for(sheet, stream, columns_of(stream)).print(Fitted(sheet))


def _measure(line: str) -> Callable[[str], int]:
    """Some characters take two columns, or none; rich, which knows, is only loaded for them."""
    if line.isascii():
        return len
    from rich.cells import cell_len

    return cell_len


def _parts(line: str, columns: int) -> list[str]:
    measure = _measure(line)
    if measure(line) <= columns:
        return [line]
    label = _LABEL.match(line)
    hang = label.end() if label else len(line) - len(line.lstrip())
    hang = hang if hang < columns // 2 else 0
    head, text = line[:hang], line[hang:]
    first, *more = wrap(text, columns - hang, measure)
    return [head + first, *(" " * hang + part for part in more)]
