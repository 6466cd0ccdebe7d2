"""Tables in little room."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from matrix_runner.base.text import wrap
from matrix_runner.pages.table import Sheet, boxed_width, divide_width, fit, fold

NAMES = ("raid5/chunk=64KiB/random/rw=randread", "raid5/chunk=64KiB/random/rw=randwrite", "raid6/chunk=64KiB/oltp")
CELLS = Sheet(
    ("cell", "rate", "±", "trials", "outcome"),
    [
        (NAMES[0], "475 IOPS", "6.7 %", "3", "measured"),
        (NAMES[1], "476 IOPS", "4 %", "3", "measured"),
        (NAMES[2], "", "", "1", "broken: the guest panicked"),
    ],
    right=frozenset(("rate", "±", "trials")),
    title="sweep on qemu",
    groups=["raid5/chunk=64KiB", "raid5/chunk=64KiB", "raid6/chunk=64KiB"],
    spare=("trials", "±"),
    remark="outcome",
    usual=("measured",),
)


def lines(sheet: Sheet, width: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    for part in fit(sheet, width):
        console.print(part)
    return file.getvalue().splitlines()


def test_a_wide_terminal_shows_the_whole_table() -> None:
    shown = lines(CELLS, boxed_width(CELLS))
    assert shown[0] == "sweep on qemu"
    assert shown[1].startswith("┏")
    assert sum("│" in line for line in shown) == len(CELLS.rows)


@pytest.mark.parametrize("width", [200, 20])
def test_a_heading_is_no_command_of_the_terminal(width: int) -> None:
    """A pivot has values of an axis as headings, and the table of jobs their names: fio files and runs of others."""
    name = "a\x1b]0;title\x07\u202e"
    sheet = Sheet(("cell", name), [("x", "1"), ("y", "2")], right=frozenset({name}))
    shown = "\n".join(lines(sheet, width))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "title" in shown


def test_one_character_less_puts_rows_below_shared_headings() -> None:
    assert lines(CELLS, boxed_width(CELLS) - 1) == [
        "sweep on qemu",
        "cell                       rate      ±  trials",
        "raid5/chunk=64KiB",
        "  random/rw=randread   475 IOPS  6.7 %       3",
        "  random/rw=randwrite  476 IOPS    4 %       3",
        "raid6/chunk=64KiB",
        "  oltp                                       1",
        "    broken: the guest panicked",
    ]


def test_the_least_important_columns_are_left_out_and_named() -> None:
    shown = lines(CELLS, 40)
    assert shown[-1] == "not shown (no room): trials"
    assert shown[1].split() == ["cell", "rate", "±"]


def test_values_shared_by_all_rows_are_shown_once() -> None:
    sheet = Sheet(("run", "machine", "note", "figure"), [("one", "qemu", "", "1"), ("two", "qemu", "", "2")])
    shown = lines(sheet, 30)
    assert shown[0] == "in every row: machine qemu"
    assert "note" not in "\n".join(shown)
    assert "qemu" not in "\n".join(shown[1:])


def test_text_before_the_figures_heads_them() -> None:
    sheet = Sheet(
        ("cell", "figure", "A", "B", "B is"),
        [(NAMES[0], "read", "1.00 MB/s", "2.00 MB/s", "faster"), (NAMES[1], "write", "1.50 MB/s", "", "unknown")],
        right=frozenset("AB"),
    )
    assert lines(sheet, 50) == [
        "          A          B  B is",
        "raid5/chunk=64KiB/random/rw=randread · figure read",
        "  1.00 MB/s  2.00 MB/s  faster",
        "raid5/chunk=64KiB/random/rw=randwrite · figure",
        "write",
        "  1.50 MB/s             unknown",
    ]


def test_very_narrow_tables_print_row_by_row() -> None:
    columns = ("guideline", "verdict", "interval", "wanted", "rests on")
    row = ("chunk-for-parity", "inconclusive", "0.960x to 1.049x", "at least 0.952x", "3 trials of 4 cells")
    sheet = Sheet(columns, [row, (*row[:1], "holds", *row[2:4], "")], right=frozenset(columns[1:]))
    assert lines(sheet, 32) == [
        "in every row: interval 0.960x to",
        "1.049x, wanted at least 0.952x",
        "chunk-for-parity",
        "  verdict inconclusive · rests",
        "  on 3 trials of 4 cells",
        "chunk-for-parity",
        "  verdict holds",
    ]


@pytest.mark.parametrize(
    ("text", "width", "folded"),
    [
        ("a few words", 6, ["a few", "words"]),
        ("raid5/chunk=64KiB/random", 14, ["raid5/", "chunk=64KiB/", "random"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("one\ntwo", 10, ["one", "two"]),
        ("", 10, [""]),
    ],
)
def test_text_is_folded_between_words_else_between_parts_else_anywhere(
    text: str, width: int, folded: list[str]
) -> None:
    assert fold(text, width) == folded


def test_a_path_is_not_broken_in_running_text() -> None:
    assert wrap("  see /a/very/long/path/of/results for it", 12) == [
        "  see",
        "/a/very/long/path/of/results",
        "for it",
    ]


def test_room_goes_to_the_columns_that_lack_most() -> None:
    assert divide_width([5, 5], [20, 8], 21) == [16, 5]
    assert divide_width([5, 5], [20, 8], 100) == [20, 8]
    assert divide_width([5, 5], [20, 8], 9) == []


@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40)), min_size=1, max_size=4),
    st.integers(20, 120),
)
def test_no_line_of_any_table_is_too_long(rows: list[tuple[str, str, str]], width: int) -> None:
    assert all(cell_len(line) <= width for line in lines(Sheet(("one", "two", "three"), rows), width))
