"""Text output for people: lines broken between words, help, tables, and standard output that may fail."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from io import TextIOBase
from typing import TYPE_CHECKING, TextIO

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import printable, printable_json, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matrix_runner.pages.table import Sheet


def confirm_removal(question: str, what: str) -> None:
    if not sys.stdin.isatty():
        raise BadInput(f"there is no terminal to ask on before {what} are removed", resolution="add `--yes`")
    click.confirm(question, abort=True, err=True)


class Ending:
    """How a command begins, and what decides its exit code beside it: a damaged run was left out of its answer."""

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        self.begin = begin  # is called before the first work that an interrupt has to end in order
        self.is_damaged = False


_PATIENCE = 1.0  # seconds


class SlowStart:
    """Shows what a command does, on a terminal, if the command shows nothing in its first second."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def begin(self, activity: str) -> None:
        self.end()
        if columns_of(sys.stderr):
            self._timer = threading.Timer(_PATIENCE, self._show, (f"{activity} …",))
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        timer, self._timer = self._timer, None
        if timer:
            timer.cancel()

    def _show(self, text: str) -> None:
        with suppress(OSError):
            echo(text, err=True)


slow_start = SlowStart()


class RunOutput(TextIOBase):
    """Writes to standard output until a write fails, then drops all text. `error` is the first failure."""

    def __init__(self) -> None:
        # Keep the stream: sys.stdout may be replaced later by a writer to this object, an endless recursion.
        self._stream = sys.stdout
        self._is_terminal = self._stream is not None and self._stream.isatty()  # asked once, not for each line
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
        return self._is_terminal

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        slow_start.end()
        if self.error is None and self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError as error:
                self.error = error
                abandon(sys.stdout)
                note = f"matrix: standard output failed ({error.strerror}); the run continues without it"
                with suppress(OSError):
                    click.echo(note, err=True)
        return len(text)


def abandon(*streams: TextIO) -> None:
    """Send further output to /dev/null: otherwise Python would fail once more at exit, with a traceback."""
    for stream in streams:
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


#: The label of a list line, `kvm       not there`: continuation lines align with the text after it.
_LABEL = re.compile(r"\s*\S+\s{2,}")
_DUMB = {"", "dumb", "unknown"}  # terminals that cannot move their cursor
_WIDE = 400  # the width of tables in a pipe or a file, which need no folding
WIDTH = 100  # the width of reflowed sentences in a pipe or a file


def echo(text: str, *, err: bool = False, stream: TextIO | None = None, bold: bool = False) -> None:
    """Print text with lines that fit the terminal. All text goes through here or `echo_whole`: see `printable`."""
    slow_start.end()
    to = stream or (sys.stderr if err else sys.stdout)
    wrapped = wrap_text(printable(text), columns_of(to))
    _print(click.style(wrapped, bold=True) if bold else wrapped, to)


def echo_whole(text: str, *, newline: bool = True, err: bool = False) -> None:
    """Print text as it is, for people who copy it and for programs."""
    slow_start.end()
    _print(printable(text), sys.stderr if err else sys.stdout, newline=newline)


def _print(text: str, to: TextIO, *, newline: bool = True) -> None:
    """Print text. If standard error has no room or its terminal is closed, the exit status still says how it ended."""
    try:
        click.echo(text, file=to, nl=newline)
    except OSError as error:
        if to is not sys.stderr or error.errno == errno.EPIPE:
            raise
        abandon(to)


MOST_NOTES = 50


def first_notes(notes: Sequence[str]) -> list[str]:
    """Return at most `MOST_NOTES` notes, and one that counts the others."""
    hidden = len(notes) - MOST_NOTES
    more = [f"{hidden:,} more note{'s' if hidden > 1 else ''}"] if hidden > 0 else []
    return [*notes[:MOST_NOTES], *more]


def show_notes(notes: Sequence[str]) -> None:
    for note in first_notes(notes):
        echo(f"note: {note}", err=True)


def json_text(document: object, *, indent: bool = False) -> str:
    import orjson

    return printable_json(
        orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)).decode()
    )


def wrap_text(text: str, columns: int) -> str:
    if not columns:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrap_line(line, columns))


def columns_of(stream: TextIO) -> int:
    with suppress(OSError, ValueError, AttributeError):
        if stream.isatty():
            return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns
    return 0


def is_live_terminal(stream: TextIO) -> bool:
    return bool(columns_of(stream)) and os.environ.get("TERM", "").lower() not in _DUMB


def sheet_text(sheet: Sheet, stream: TextIO, columns: int) -> str:
    """Return a table as wide as the terminal; without a terminal (0 columns), as wide as its content."""
    from rich.console import Console

    from matrix_runner.pages.table import boxed_width, fit

    # Without a height, rich assumes 80 columns on a dumb terminal.
    console = Console(file=stream, width=columns or max(_WIDE, boxed_width(sheet)), height=25, highlight=False)
    # Captured, because rich exits with 1 on a closed pipe.
    with console.capture() as captured:
        for part in fit(sheet, console.width):
            console.print(part)
    return captured.get()


def print_sheet(sheet: Sheet, stream: TextIO, pipe: int = 0) -> None:
    """Print a table. `pipe`: its width without a terminal; 0 for that of its content, which needs no folding."""
    slow_start.end()
    click.echo(sheet_text(sheet, stream, columns_of(stream) or pipe), nl=False, file=stream)


def _wrap_line(line: str, columns: int) -> list[str]:
    measure: Callable[[str], int] = len
    if not line.isascii():  # only wide or combining characters need rich, which is slow to import
        from rich.cells import cell_len as measure
    if measure(line) <= columns:
        return [line]
    label = _LABEL.match(line)
    hang = label.end() if label else len(line) - len(line.lstrip())
    hang = hang if hang < columns // 2 else 0
    head, text = line[:hang], line[hang:]
    first, *more = wrap(text, columns - hang, measure)
    return [head + first, *(" " * hang + part for part in more)]


_COMMENT = re.compile(r"(?<=\S)\s{2,}(?=\S)")
_BELOW = 6
_NARROW, _NAMES = 70, 18  # up to this width of the terminal, option names get at most this many columns


class Formatter(click.HelpFormatter):
    """Also folds paragraphs after `\\b`: indented lines are examples, other lines are sentences."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width > _NARROW else _NAMES, col_spacing)

    def write_text(self, text: str) -> None:
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write("\n")
            if not paragraph.startswith("\b\n"):
                super().write_text(paragraph)
                continue
            lines = paragraph.removeprefix("\b\n").rstrip().split("\n")
            examples = [line for line in lines if line.startswith(" ")]
            super().write_text(" ".join(line for line in lines if line not in examples))
            self.write("".join(f"{line}\n" for line in fit_examples(examples, self.width, self.current_indent)))


class Context(click.Context):
    formatter_class = Formatter


def fit_examples(examples: list[str], width: int, indent: int) -> list[str]:
    space = " " * indent
    if all(len(line) + indent <= width for line in examples):
        return [space + line for line in examples]
    lines: list[str] = []
    for example in examples:
        command, *comment = _COMMENT.split(example.strip(), maxsplit=1)
        first, *more = wrap(command, width - indent - _BELOW)
        lines += [f"{space}  {first}", *(f"{space}    {part}" for part in more)]
        if more:
            lines[-len(more) - 1 : -1] = [f"{line} \\" for line in lines[-len(more) - 1 : -1]]
        for text in comment:
            lines += [" " * (indent + _BELOW) + part for part in wrap(text, width - indent - _BELOW)]
    return lines


def with_fitting_help(command: click.Command) -> click.Command:
    command.context_class = Context
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        with_fitting_help(below)
    return command
