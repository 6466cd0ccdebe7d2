"""Help texts that fit the terminal."""

import re
from collections.abc import Iterable

import click

from matrix_runner.pages.terminal_text import wrap

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
