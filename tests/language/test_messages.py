"""Quoted lines: a window around the column, without characters that a terminal obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.findings import Place
from matrix_runner.base.text import printable
from matrix_runner.language.yaml_source import LONGEST, MOST_LINES, WINDOW, Source, format_error, quote


@pytest.mark.parametrize("column", [1, 2, 99, 150, 5_000, 99_999, 100_001])
def test_a_long_line_is_cut_around_its_column(column: int) -> None:
    line = "".join(chr(ord("a") + at % 26) for at in range(100_000))
    shown, caret = quote(line, column).split("\n")
    assert max(map(len, (shown, caret))) <= 4 + WINDOW + 1
    at = caret.index("^")
    assert shown[at : at + 1] == line[column - 1 : column]
    assert ("…" in shown[:at]) == (column > 111)
    assert shown.endswith("…") == (column < 99_000)


def test_a_short_line_is_quoted_whole() -> None:
    assert quote("a: b", 4) == "    a: b\n       ^"


def test_the_caret_counts_escapes() -> None:
    assert quote('\x1b[31m"\u202e": 1', 6) == '    \\x1b[31m"\\u202e": 1\n            ^'


@given(st.text(max_size=400), st.integers(1, 500))
def test_a_quote_is_two_printable_lines_within_the_window(line: str, column: int) -> None:
    shown = quote(line.replace("\n", " "), column)
    assert shown == printable(shown)
    assert [len(one) <= 4 + WINDOW + 1 for one in shown.split("\n")] == [True, True]


def test_an_error_has_five_short_lines_at_most() -> None:
    error = format_error(
        Source("m.yaml", "a", None, None), Place("m.yaml", 1, 1), "\n".join("x" * 1000 for _ in range(9))
    )
    lines = error.split("\n")
    assert len(lines) == MOST_LINES + 2
    assert max(map(len, lines)) < LONGEST + 20
