"""Lines of programs."""

import pytest

from matrix_runner.base.text import lines_of, without_formula


@pytest.mark.parametrize("inside", [*"\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"])
def test_only_newlines_cut_the_output_of_a_program(inside: str) -> None:
    text = f"a{inside}b\nc\r\nd\re\n\nf"
    assert lines_of(text) == [f"a{inside}b", "c", "d", "e", "", "f"]
    assert "".join(lines_of(text, keepends=True)) == text


def test_a_final_newline_begins_no_line() -> None:
    assert lines_of("") == []
    assert lines_of("a\n") == ["a"]


@pytest.mark.parametrize("formula", ["=1+1", "@x", "+x", "-x", "-1+1", "\t=1", "\r=1", "=", "+1\n", "-inf()"])
def test_a_spreadsheet_computes_no_text(formula: str) -> None:
    assert without_formula(formula) == f"'{formula}"


@pytest.mark.parametrize("harmless", ["", "x=1", "-1", "+2.5e-3", "-.5", "a-b", -1, -2.5, None, True])
def test_numbers_and_other_texts_stay(harmless: object) -> None:
    assert without_formula(harmless) is harmless
