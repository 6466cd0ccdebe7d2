"""Tables and their formats: CSV, JSON, Markdown, Parquet, and the widest form that fits the terminal."""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from rich.cells import cell_len, chop_cells
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from matrix_runner.base.extras import missing_package
from matrix_runner.base.text import printable, printable_json, without_formula, wrap
from matrix_runner.pages.terminal_text import FAINT
from matrix_runner.statistics.ratios import Ratio
from matrix_runner.statistics.stopping import Estimate

Value = str | float | int | bool | None
HINT = "`--rows` shows more, `--format csv` all"  # note below a table that has more rows


def more_lines(left: int, hint: str = HINT) -> str:
    return f"{left:,} more line{'s' if left != 1 else ''}; {hint}"


@dataclass(frozen=True, slots=True)
class Grid:
    columns: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    notes: tuple[str, ...] = ()
    right: frozenset[str] = frozenset()  # columns that are aligned to the right

    def with_notes(self, *notes: str) -> Self:
        return replace(self, notes=(*self.notes, *filter(None, notes)))


def estimate_values(estimate: Estimate | None) -> tuple[Value, ...]:
    return (estimate.mean, *estimate.bounds, estimate.relative) if estimate else (None,) * 4


def ratio_values(ratio: Ratio | None) -> tuple[Value, ...]:
    return (ratio.ratio, *((ratio.low, ratio.high) if ratio.low else (None, None))) if ratio else (None,) * 3


BOOLS: dict[bool | None, str] = {True: "true", False: "false", None: ""}


def as_csv(grid: Grid) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(without_formula, grid.columns))
    writer.writerows(
        [BOOLS[value] if value.__class__ is bool else without_formula(value) for value in row] for row in grid.rows
    )
    return text.getvalue().encode()


def as_json(grid: Grid) -> bytes:
    import orjson

    rows = [dict(zip(grid.columns, row, strict=True)) for row in grid.rows]
    text = orjson.dumps({"notes": grid.notes, "rows": rows}, option=orjson.OPT_INDENT_2).decode()
    return printable_json(f"{text}\n").encode()


def as_markdown(grid: Grid) -> bytes:
    rules = ["---:" if column in grid.right else "---" for column in grid.columns]
    lines = [_line(grid.columns), _line(rules, escape=False), *(_line(row) for row in grid.rows)]
    notes = [f"{escape_markdown(note)}\n" for note in grid.notes]
    return ("\n".join([*notes, *lines]) + "\n").encode()


def as_parquet(grid: Grid) -> bytes:
    try:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise missing_package("--format parquet", "pyarrow", instead=", or use --format csv") from None
    columns = list(zip(*grid.rows, strict=True)) or [() for _ in grid.columns]
    table = pa.Table.from_arrays(
        [pa.array(column) for column in columns], names=list(grid.columns), metadata={"notes": "\n".join(grid.notes)}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


FORMATS: dict[str, Callable[[Grid], bytes]] = {"csv": as_csv, "json": as_json, "md": as_markdown, "parquet": as_parquet}


def _line(values: Any, *, escape: bool = True) -> str:
    texts = ["" if value is None else str(value) for value in values]
    return f"| {' | '.join(escape_markdown(text) if escape else text for text in texts)} |"


_SIGN = re.compile(r"[\\|`*_<[]")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")  # GitHub tells the user of this name
_CODE_OR_SIGN = re.compile(rf"(?<!`)`[^`]+`(?!`)|{_SIGN.pattern}")


def escape_markdown(text: str) -> str:
    """Escape signs of Markdown. Plain text between two backticks is code, as in all messages."""

    def escape(found: re.Match[str]) -> str:
        is_code = len(found[0]) > 1 and not {"|", "<", "\\"} & {*found[0]}
        return found[0] if is_code else _SIGN.sub(r"\\\g<0>", found[0])

    return _MENTION.sub("@\u200b", " ".join(_CODE_OR_SIGN.sub(escape, text).split()))


_GAP = 2
_INDENT = 2
_LEAST = 12  # columns of text are at least this wide
_PARTS = re.compile(r"[^/,|;]*[/,|;]+|[^/,|;]+")  # long words are broken after these characters


@dataclass(frozen=True)
class Sheet:
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[str] = frozenset()  # columns of figures: aligned to the right, never folded
    title: str = ""
    groups: Sequence[str] = ()  # by row: the part of its first cell that becomes the heading of rows that share it
    spare: tuple[str, ...] = ()  # columns to leave out first
    remark: str = ""  # a column that may move below its row
    usual: Collection[str] = ()  # the remarks that are left out there
    styles: Sequence[str] = ()  # by row: the style of its remark
    faint: Collection[int] = ()  # rows in grey

    def __post_init__(self) -> None:
        rows = [tuple(map(printable, row)) for row in self.rows]
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "columns", tuple(map(printable, self.columns)))
        object.__setattr__(self, "right", frozenset(map(printable, self.right)))
        object.__setattr__(self, "title", printable(self.title))
        object.__setattr__(self, "groups", list(map(printable, self.groups)))

    def column(self, name: str) -> list[str]:
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def without(self, *names: str) -> Self:
        kept = [place for place, name in enumerate(self.columns) if name not in names]
        rows = [tuple(row[place] for place in kept) for row in self.rows]
        remark = "" if self.remark in names else self.remark
        spare = tuple(one for one in self.spare if one not in names)
        return replace(self, columns=tuple(self.columns[p] for p in kept), rows=rows, remark=remark, spare=spare)

    @property
    def shared(self) -> dict[str, str]:
        found = {name: set(self.column(name)) for name in self.columns[1:]}
        several = len(self.rows) > 1
        return {name: min(texts) for name, texts in found.items() if texts == {""} or (several and len(texts) == 1)}


def as_sheet(grid: Grid, faint: Collection[int] = ()) -> Sheet:
    rows = [tuple("" if value is None else str(value) for value in row) for row in grid.rows]
    return Sheet(grid.columns, rows, right=grid.right, faint=faint)


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
        style |= dict.fromkeys(sheet.columns, FAINT) if number in sheet.faint else {}
        cells = zip(sheet.columns, row, strict=True)
        table.add_row(*(Text(text, style=style.get(name, "")) for name, text in cells))
    return table


def with_headings(sheet: Sheet) -> Sheet:
    leading = next((number for number, name in enumerate(sheet.columns) if name in sheet.right), 0)
    names = sheet.columns[:leading]
    headings = [" · ".join((row[0], *_name_values(names[1:], row[1:leading]))) for row in sheet.rows]
    return replace(sheet.without(*names), groups=headings) if names else sheet


def _name_values(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    return [f"{name} {text}".replace("\n", ", ") for name, text in zip(names, texts, strict=True) if text]


def plain_width(sheet: Sheet) -> int:
    widths = _widths(_without_side_lines(sheet))
    return sum(widths) + _GAP * (len(widths) - 1)


def plain_widths(sheet: Sheet, width: int) -> list[int]:
    bare = _without_side_lines(sheet)
    most = _widths(bare)
    least = list(most)
    for place, name in enumerate(bare.columns):
        if name not in bare.right:
            words = " ".join((name, *bare.column(name))).split()
            parts = [cell_len(part) for word in words for part in _PARTS.findall(word)]
            least[place] = min(most[place], max(_LEAST, *parts))
    return divide_width(least, most, width - _GAP * (len(most) - 1))


def divide_width(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    widths = list(least)
    if sum(widths) > room:
        return []
    for _ in range(min(room, sum(most)) - sum(widths)):
        lacks = [wanted - has for wanted, has in zip(most, widths, strict=True)]
        widths[lacks.index(max(lacks))] += 1
    return widths


def plain(sheet: Sheet, widths: Sequence[int], width: int) -> Iterator[Text]:
    bare = _without_side_lines(sheet)
    names = [fold(name, size) for name, size in zip(bare.columns, widths, strict=True)]
    right = [name in bare.right for name in bare.columns]
    yield from (Text(line, style="bold") for line in _align(names, widths, right))
    heading = None
    for number, row in enumerate(bare.rows):
        if bare.groups and bare.groups[number] != heading:
            heading = bare.groups[number]
            yield from (Text(line, style="bold") for line in fold(heading, width))
        cells = [fold(text, size) for text, size in zip(row, widths, strict=True)]
        yield from (Text(line, style=FAINT * (number in sheet.faint)) for line in _align(cells, widths, right))
        yield from _remark(sheet, number, width)


def records(sheet: Sheet, width: int) -> Iterator[Text]:
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


def _widths(sheet: Sheet) -> list[int]:
    texts = [[name, *sheet.column(name)] for name in sheet.columns]
    return [max(cell_len(line) for text in column for line in text.splitlines() or [""]) for column in texts]


def _without_side_lines(sheet: Sheet) -> Sheet:
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
    if not sheet.remark or (text := sheet.column(sheet.remark)[number]) in {"", *sheet.usual}:
        return
    style = sheet.styles[number] if sheet.styles else ""
    indent = 2 * _INDENT
    yield from (Text(" " * indent + line, style=style) for line in fold(text, width - indent))


def _align(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    for number in range(max(map(len, cells), default=0)):
        line = []
        for cell, size, to_right in zip(cells, widths, right, strict=True):
            text = cell[number] if number < len(cell) else ""
            space = " " * (size - cell_len(text))
            line.append(space + text if to_right else text + space)
        yield (" " * _GAP).join(line).rstrip()
