"""Tables that fit a terminal: the widest form that there is room for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from runner.reports.terminal_text import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_GAP = 2
_INDENT = 2
#: Columns of text are at least this wide.
_LEAST = 12
#: Long words are broken after these characters.
_PARTS = re.compile(r"[^/,|;]*[/,|;]+|[^/,|;]+")


@dataclass(frozen=True)
class Sheet:
    """A table of text, with hints how to shrink it."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    #: Columns of figures: aligned to the right, never folded.
    right: frozenset[str] = frozenset()
    title: str = ""
    #: By row: the part of its first cell that becomes the heading of rows that share it.
    groups: Sequence[str] = ()
    #: Columns to leave out first.
    spare: tuple[str, ...] = ()
    #: A column that may move below its row; the usual text is then left out.
    remark: str = ""
    usual: str = ""
    #: By row: the style of its remark.
    styles: Sequence[str] = ()

    def column(self, name: str) -> list[str]:
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def without(self, *names: str) -> Sheet:
        kept = [place for place, name in enumerate(self.columns) if name not in names]
        rows = [tuple(row[place] for place in kept) for row in self.rows]
        remark = "" if self.remark in names else self.remark
        spare = tuple(one for one in self.spare if one not in names)
        return replace(self, columns=tuple(self.columns[p] for p in kept), rows=rows, remark=remark, spare=spare)

    @property
    def shared(self) -> dict[str, str]:
        """Return the columns, except the first, that are empty or have the same text in several rows."""
        found = {name: set(self.column(name)) for name in self.columns[1:]}
        several = len(self.rows) > 1
        return {name: min(texts) for name, texts in found.items() if texts == {""} or (several and len(texts) == 1)}


class Fitted:
    """A sheet that rich prints in the widest form that fits."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from fit(self.sheet, options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        most = boxed_width(self.sheet)
        return Measurement(min(most, options.max_width), min(most, options.max_width))


def fit(sheet: Sheet, width: int) -> Iterator[RenderableType]:
    """Yield the table with boxes if it fits; else without shared columns, then without boxes, then row by row."""
    yield from (Text(line, style="bold") for line in wrap(sheet.title, width, cell_len) if line)
    if boxed_width(sheet) <= width:
        yield boxed_table(sheet)
        return
    if shared := sheet.shared:
        sheet = sheet.without(*shared)
        if shared_text := ", ".join(f"{name} {text}" for name, text in shared.items() if text):
            yield from map(Text, wrap(f"in every row: {shared_text}", width, cell_len))
    if boxed_width(sheet) <= width:
        yield boxed_table(sheet)
        return
    narrower = [sheet.without(*sheet.spare[:count]) for count in range(len(sheet.spare) + 1)]
    best = next((one for one in (*narrower, with_headings(sheet)) if plain_width(one) <= width), sheet)
    foldable = not sheet.right.intersection(sheet.columns)
    if (best is not sheet or foldable) and (widths := plain_widths(best, width)):
        yield from plain(best, widths, width)
        if left_out := [name for name in sheet.spare if name not in best.columns]:
            yield Text(f"not shown (no room): {', '.join(left_out)}")
    else:
        yield from records(sheet, width)


def boxed_width(sheet: Sheet) -> int:
    return sum(_widths(sheet)) + 3 * len(sheet.columns) + 1


def boxed_table(sheet: Sheet) -> Table:
    table = Table(show_lines=any("\n" in text for row in sheet.rows for text in row))
    for name in sheet.columns:
        table.add_column(Text(name), justify="right" if name in sheet.right else "left", no_wrap=True)
    for number, row in enumerate(sheet.rows):
        style = {sheet.remark: sheet.styles[number]} if sheet.styles else {}
        cells = zip(sheet.columns, row, strict=True)
        table.add_row(*(Text(text, style=style.get(name, "")) for name, text in cells))
    return table


def with_headings(sheet: Sheet) -> Sheet:
    """Turn the text columns before the first figure into headings of rows."""
    leading = next((number for number, name in enumerate(sheet.columns) if name in sheet.right), 0)
    names = sheet.columns[:leading]
    headings = [" · ".join((row[0], *_name_values(names[1:], row[1:leading]))) for row in sheet.rows]
    return replace(sheet.without(*names), groups=headings) if names else sheet


def _name_values(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    return [f"{name} {text}".replace("\n", ", ") for name, text in zip(names, texts, strict=True) if text]


def plain_width(sheet: Sheet) -> int:
    """Return the width without boxes and without folds."""
    widths = _widths(_without_side_lines(sheet))
    return sum(widths) + _GAP * (len(widths) - 1)


def plain_widths(sheet: Sheet, width: int) -> list[int]:
    """Return the width of each column without boxes; empty if they do not fit."""
    bare = _without_side_lines(sheet)
    most = _widths(bare)
    least = [
        size if name in bare.right else min(size, max(_LEAST, *map(_longest_word, (name, *bare.column(name)))))
        for name, size in zip(bare.columns, most, strict=True)
    ]
    return divide_width(least, most, width - _GAP * (len(most) - 1))


def divide_width(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Divide the width: the minimum for each column, then the rest to those that lack most."""
    widths = list(least)
    if sum(widths) > room:
        return []
    for _ in range(min(room, sum(most)) - sum(widths)):
        lacks = [wanted - has for wanted, has in zip(most, widths, strict=True)]
        widths[lacks.index(max(lacks))] += 1
    return widths


def plain(sheet: Sheet, widths: Sequence[int], width: int) -> Iterator[Text]:
    """Yield rows without boxes, below shared headings, with remarks below their rows."""
    bare = _without_side_lines(sheet)
    names = [fold(name, size) for name, size in zip(bare.columns, widths, strict=True)]
    yield from (Text(line, style="bold") for line in _align(names, widths, _rights(bare)))
    heading = None
    for number, row in enumerate(bare.rows):
        if bare.groups and bare.groups[number] != heading:
            heading = bare.groups[number]
            yield from (Text(line, style="bold") for line in fold(heading, width))
        cells = [fold(text, size) for text, size in zip(row, widths, strict=True)]
        yield from map(Text, _align(cells, widths, _rights(bare)))
        yield from _remark(sheet, number, width)


def records(sheet: Sheet, width: int) -> Iterator[Text]:
    """Yield each row as a heading, then its figures with their names."""
    bare = sheet.without(sheet.remark)
    for number, row in enumerate(bare.rows):
        yield from (Text(line, style="bold") for line in fold(row[0], width))
        figures = " · ".join(_name_values(bare.columns[1:], row[1:]))
        yield from (Text(" " * _INDENT + line) for line in fold(figures, width - _INDENT) if line)
        yield from _remark(sheet, number, width)


def fold(text: str, width: int) -> list[str]:
    """Break text into lines: between words, else after characters such as `/`, else anywhere."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        for line in wrap(paragraph, width, cell_len):
            lines += _break_word(line, width) if cell_len(line) > width else [line]
    return lines


def _break_word(word: str, width: int) -> Iterator[str]:
    line = ""
    for part in _PARTS.findall(word):
        if line and cell_len(line) + cell_len(part) > width:
            yield line
            line = ""
        *full, line = chop_cells(line + part, max(width, 2)) or [""]
        yield from full
    yield line


def _longest_word(text: str) -> int:
    return max((cell_len(part) for word in text.split() for part in _PARTS.findall(word)), default=0)


def _widths(sheet: Sheet) -> list[int]:
    texts = [[name, *sheet.column(name)] for name in sheet.columns]
    return [max(cell_len(line) for text in column for line in text.splitlines() or [""]) for column in texts]


def _without_side_lines(sheet: Sheet) -> Sheet:
    """Remove the headings and remarks, which have their own lines."""
    if sheet.remark:
        sheet = sheet.without(sheet.remark)
    if not sheet.groups:
        return sheet
    rows = [
        (" " * _INDENT + row[0].removeprefix(group).removeprefix("/"), *row[1:]) if group else row
        for group, row in zip(sheet.groups, sheet.rows, strict=True)
    ]
    return replace(sheet, rows=rows)


def _remark(sheet: Sheet, number: int, width: int) -> Iterator[Text]:
    if not sheet.remark or (text := sheet.column(sheet.remark)[number]) in {"", sheet.usual}:
        return
    style = sheet.styles[number] if sheet.styles else ""
    indent = 2 * _INDENT
    yield from (Text(" " * indent + line, style=style) for line in fold(text, width - indent))


def _rights(sheet: Sheet) -> list[bool]:
    return [name in sheet.right for name in sheet.columns]


def _align(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of one row; each cell has one or more lines."""
    for number in range(max(map(len, cells), default=0)):
        line = [cell[number] if number < len(cell) else "" for cell in cells]
        padded = [
            " " * (size - cell_len(text)) + text if to_right else text + " " * (size - cell_len(text))
            for text, size, to_right in zip(line, widths, right, strict=True)
        ]
        yield (" " * _GAP).join(padded).rstrip()
