"""The progress line of a run, exactly one line on any terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn
from rich.text import Text
from rich.theme import Theme

from runner.reports.terminal_text import GOOD

if TYPE_CHECKING:
    from typing import TextIO

    from rich.progress import Task

#: The terminal widths from which the bar, and the figures of the last trial, have room.
_FOR_BAR, _FOR_FIGURES = 80, 140
_BAR = 16
#: The spinner and the space after it.
_SPINNER = 2
_THEME = Theme({"progress.spinner": GOOD})


def progress_bar(stream: TextIO) -> Progress:
    """Return the progress line; its tasks have the fields `left` and `last`."""
    console = Console(file=stream, theme=_THEME, highlight=False)
    # No redirection: `RunOutput` writes to sys.stdout, which must not lead back to this console.
    # Not expanded: a padded line would wrap and leave remains when the terminal becomes narrower.
    return Progress(
        SpinnerColumn(), _Line(console), transient=True, console=console, redirect_stdout=False, redirect_stderr=False
    )


class _Line(ProgressColumn):
    """Trials, times and the current cell; the cell is shortened to fit."""

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
    """Draw heavy lines for done trials and light ones for the rest: readable without colour."""
    done = int(_BAR * task.percentage / 100) if task.total else 0
    return "━" * done + "─" * (_BAR - done)


def _elapsed(task: Task) -> str:
    seconds = int(task.elapsed or 0)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def shorten(text: str, width: int) -> str:
    """Cut the middle out of a text that is wider than this."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: max(width - tail - 1, 0)]}…{text[len(text) - tail :]}"
