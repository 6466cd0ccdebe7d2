"""The line that shows how far a run is, in exactly one line of any terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text
from rich.theme import Theme

from runner.reports.styles import GOOD

if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import ConsoleOptions, RenderResult
    from rich.progress import Task

#: From so many columns on there is room for a bar, and for the latest figures.
_FOR_BAR, _FOR_FIGURES = 80, 110
_BAR = 16
_THEME = Theme({"progress.elapsed": "none", "progress.download": "none", "progress.spinner": GOOD})


def progress_bar(stream: TextIO) -> Progress:
    """Make the line; its tasks have the fields `left` and `last`. What is being done gives way where it is narrow."""
    console = Console(file=stream, theme=_THEME, highlight=False)
    columns: list[ProgressColumn] = [SpinnerColumn(), MofNCompleteColumn(table_column=Column(no_wrap=True))]
    if console.width >= _FOR_BAR:
        columns.append(_Bar())
    columns += [TimeElapsedColumn(Column(no_wrap=True)), TextColumn("{task.fields[left]}"), _Doing(Column(ratio=1))]
    if console.width >= _FOR_FIGURES:
        columns.append(TextColumn("{task.fields[last]}", style=GOOD))
    # One console, one writer: `Voice` writes to sys.stdout, so nothing may send sys.stdout back to the console.
    return Progress(
        *columns, transient=True, console=console, expand=True, redirect_stdout=False, redirect_stderr=False
    )


class _Bar(ProgressColumn):
    """Heavy for what is done, light for the rest: readable without colour."""

    def render(self, task: Task) -> Text:
        done = int(_BAR * task.percentage / 100) if task.total else 0
        return Text("━" * done + "─" * (_BAR - done), no_wrap=True)


class _Doing(ProgressColumn):
    """What is being done: shortened in its middle, as both ends tell cells apart."""

    def render(self, task: Task) -> _Middle:
        return _Middle(task.description)


class _Middle:
    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(middle(self.text, options.max_width), no_wrap=True, overflow="crop")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)


def middle(text: str, width: int) -> str:
    """Text of at most this width, its middle left out if need be."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: max(width - tail - 1, 0)]}…{text[len(text) - tail :]}"
