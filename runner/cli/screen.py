"""Text output for people: lines broken between words, the progress line, and standard output that may fail."""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import suppress
from io import TextIOBase
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn
from rich.text import Text
from rich.theme import Theme

from runner.reports.terminal_text import GOOD, wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rich.progress import Task

    from runner.reports.table import Sheet

#: The terminal widths from which the bar, and the figures of the last trial, have room.
_FOR_BAR, _FOR_FIGURES = 80, 140
_BAR = 16
#: The spinner and the space after it.
_SPINNER = 2
_THEME = Theme({"progress.spinner": GOOD})


def progress_bar(stream: TextIO) -> Progress:
    console = Console(file=stream, theme=_THEME, highlight=False)
    # No redirection: `RunOutput` writes to sys.stdout, which must not lead back to this console.
    # Not expanded: a padded line would wrap and leave remains when the terminal becomes narrower.
    return Progress(
        SpinnerColumn(), _Line(console), transient=True, console=console, redirect_stdout=False, redirect_stderr=False
    )


class _Line(ProgressColumn):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def render(self, task: Task) -> Text:
        room = self._console.width - _SPINNER
        parts = [_count(task), _elapsed(task), task.fields["left"]]
        if self._console.width >= _FOR_BAR:
            parts.insert(1, _bar(task))
        line = " ".join(filter(None, parts))
        line = f"{line} {shorten(task.description, max(0, room - len(line) - 1))}"
        text = Text(line[:room], no_wrap=True)
        if self._console.width >= _FOR_FIGURES and task.fields["last"]:
            text.append(f"  {task.fields['last']}"[: room - len(text)], style=GOOD)
        return text


def _count(task: Task) -> str:
    total = "?" if task.total is None else str(int(task.total))
    return f"{int(task.completed):{len(total)}}/{total}"


def _bar(task: Task) -> str:
    done = int(_BAR * task.percentage / 100) if task.total else 0
    return "━" * done + "─" * (_BAR - done)


def _elapsed(task: Task) -> str:
    seconds = int(task.elapsed or 0)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def shorten(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: max(width - tail - 1, 0)]}…{text[len(text) - tail :]}"


class RunOutput(TextIOBase):
    """Writes to standard output until a write fails, then drops all text. `error` is the first failure."""

    def __init__(self) -> None:
        # Keep the stream: sys.stdout may be replaced later by a writer to this object, an endless recursion.
        self._stream = sys.stdout
        self.error: OSError | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def has_failed(self) -> bool:
        """Return whether output was lost. A reader that closes the pipe is no failure."""
        return self.error is not None and self.error.errno != errno.EPIPE

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        if self.error is None and self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError as error:
                self._stop(error)
        return len(text)

    def _stop(self, error: OSError) -> None:
        self.error = error
        abandon_stdout()
        with suppress(OSError):
            click.echo(f"matrix: standard output failed ({error.strerror}); the run continues without it", err=True)


def abandon_stdout() -> None:
    """Send further output to /dev/null: otherwise Python would fail once more at exit, with a traceback."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


#: The label of a list line, `kvm       not there`: continuation lines align with the text after it.
_LABEL = re.compile(r"\s*\S+\s{2,}")
#: Terminals that cannot move their cursor.
_DUMB = {"", "dumb", "unknown"}
#: The width of tables in a pipe or a file, which need no folding.
_WIDE = 400
#: The width of reflowed sentences in a pipe or a file.
WIDTH = 100


def echo(text: str, *, err: bool = False, stream: TextIO | None = None) -> None:
    to = stream or (sys.stderr if err else sys.stdout)
    click.echo(wrap_text(text, columns_of(to)), file=to)


def wrap_text(text: str, columns: int) -> str:
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
    return bool(columns_of(stream)) and os.environ.get("TERM", "").lower() not in _DUMB


def console_for(sheet: Sheet, stream: TextIO, columns: int) -> Console:
    """Return a console as wide as the terminal; without a terminal (0 columns), as wide as the table."""
    from rich.console import Console

    from runner.reports.table import boxed_width

    # Without a height, rich assumes 80 columns on a dumb terminal.
    return Console(file=stream, width=columns or max(_WIDE, boxed_width(sheet)), height=25, highlight=False)


def print_sheet(sheet: Sheet, stream: TextIO) -> None:
    from runner.reports.table import Fitted

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
