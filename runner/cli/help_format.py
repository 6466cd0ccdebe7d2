"""Help that fits the terminal: examples keep their comments beside them, or have them below."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from runner.reports.terminal_text import wrap

_COMMENT = re.compile(r"(?<=\S)\s{2,}(?=\S)")
_BELOW = 6
#: Up to this width, names of options get no more than so many columns beside their explanations.
_NARROW, _NAMES = 70, 18

if TYPE_CHECKING:
    from collections.abc import Iterable


class Formatter(click.HelpFormatter):
    """Fits what a text marks as its own lines (`\\b`), too: indented lines are examples, others are sentences."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Give explanations more room than names where there is little."""
        super().write_dl(rows, col_max if self.width > _NARROW else _NAMES, col_spacing)

    def write_text(self, text: str) -> None:
        """Write paragraphs, and examples among them."""
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write("\n")
            if not paragraph.startswith("\b\n"):
                super().write_text(paragraph)
                continue
            lines = paragraph.removeprefix("\b\n").rstrip().split("\n")
            examples = [line for line in lines if line.startswith(" ")]
            super().write_text(" ".join(line for line in lines if line not in examples))
            self.write("".join(f"{line}\n" for line in fitted(examples, self.width, self.current_indent)))


class Context(click.Context):
    """A context whose help is written by our formatter."""

    formatter_class = Formatter


def fitted(examples: list[str], width: int, indent: int) -> list[str]:
    """Examples as they are if all fit; else each comment below its command."""
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
    """Let a command, and those below it, use our formatter."""
    command.context_class = Context
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        with_fitting_help(below)
    return command
