"""What is told of a text that is no YAML: the place where the mistake was made, and what would be right."""

from __future__ import annotations

import pytest

from matrix_runner.language.yaml_source import UnreadableError, compose

MISTAKES = {
    "a: {b: 1\nc: 2\n": "1:4 is not closed: `}` or a comma is missing before line 2, column 2",
    "a: [1, 2\nb: 3\n": "1:4 is not closed: `]` or a comma is missing before line 2, column 2",
    "a: [{b: 1}, {c: 2]\n": "1:13 is not closed: `}` or a comma is missing before line 1, column 18",
    "a: {b: 1": "1:4 is not closed: `}` or a comma is missing before line 1, column 9",
    "a:\n  - b: 1\n   c: 2\n": "3:4 wrong indentation: this begins in column 4, and its neighbours begin in column 3, like "
    "line 2; give them one indentation",
    "a: 1\n- b\n": "2:1 a list item (`- `) among keys, which begin in line 1; indent it to make it part of the key above",
    "- a\nb: 1\n": "2:1 a key among list items (`- `), which begin in line 1; indent it to make it part of the item above",
    "a: {b: c, d: e: f}\n": "1:15 a second `key:` in one value: a comma is missing before it, or braces around it, or "
    "quotes around the text",
    "bs: [4KiB], [8KiB]\n": "1:11 while parsing a block mapping expected <block end>, but found ','",
    "a: }\n": "1:4 `}` has no opening bracket",
    "a: {b: 1}}\n": "1:10 `}` has no opening bracket",
    "a: 'b' c\n": "1:8 the text in quotes ends before this: put quotes around the whole",
    " a: 1\nb: 2\n": "2:1 this line does not begin in the column of the first line",
    "a:\n\tb: 1\n": "2:1 a tab; indent with spaces",
    'a: "x\nb: 1\n': "1:4 this quotation mark is never closed",
    "- a: b: 5\n": "1:7 a second `key:` in one value: put braces around it ({level: 5}) or quotes around the text; "
    "if the line above ends with a value, remove that",
    "a: 1\nb\nc: 2\n": "2:1 `:` is missing after this key",
    "a: *.csv\n": "1:4 `*.csv` refers to `&.csv`, which is not defined above; put a text that begins with `*` in quotes",
    "a: @b\n": "1:4 a text that begins with `@` needs quotes",
    'a: "b\\q"\n': "1:7 while scanning a double-quoted scalar found unknown escape character 'q'",
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_reported_at_its_place(text: str, told: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        compose("m.yaml", text)
    place = caught.value.place
    assert f"{place.line}:{place.column} {caught.value.message}" == told
