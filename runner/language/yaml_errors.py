"""Messages for invalid YAML: plain words for common mistakes, the parser's words for all others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError


class _Mistake(NamedTuple):
    """A pattern in the parser's message, and our message. `{here}`: where the parser stopped."""

    said: str
    meant: str
    #: Show the beginning of the construct, not its end.
    where_begun: bool = False


_MISTAKES = (
    _Mistake(
        r"^while parsing a flow .* got ':' in the same line$",
        "a second `key:` in one value: a comma is missing before it, or braces around it, or quotes around the text",
    ),
    _Mistake(
        r"^while parsing a flow .* expected ',' or '(?P<what>.)'",
        "is not closed: `{what}` or a comma is missing before {here}",
        where_begun=True,
    ),
    _Mistake(
        r"^while parsing a block .* found '(<block (mapping|sequence) start>)'",
        "wrong indentation: this begins in column {column}, and its neighbours begin in column {neighbours}, like line "
        "{first}; give them one indentation",
    ),
    _Mistake(
        r"^while parsing a block mapping .* found '-'",
        "a list item (`- `) among keys, which begin in line {first}; indent it to make it part of the key above",
    ),
    _Mistake(
        r"^while parsing a block .* found '\?'",
        "a key among list items (`- `), which begin in line {first}; indent it to make it part of the item above",
    ),
    _Mistake(r"found '<stream end>'", "the file ends here, within brackets"),
    _Mistake(r"found '(?P<what>[]}])'", "`{what}` has no opening bracket"),
    _Mistake(
        r"^while parsing a block .* found '<scalar>'",
        "the text in quotes ends before this: put quotes around the whole",
    ),
    _Mistake(
        r"^expected '<document start>', but found \('<block", "this line does not begin in the column of the first line"
    ),
    _Mistake(r"found character '\\t'", "a tab; indent with spaces"),
    _Mistake(r"quoted scalar found unexpected end", "this quotation mark is never closed", where_begun=True),
    _Mistake(
        r"mapping values are not allowed here",
        "a second `key:` in one value: put braces around it ({{level: 5}}) or quotes around the text; if the line "
        "above ends with a value, remove that",
    ),
    _Mistake(r"could not find expected ':'", "`:` is missing after this key", where_begun=True),
    _Mistake(
        r"found undefined alias '(?P<what>.*)'",
        "`*{what}` refers to `&{what}`, which is not defined above; put a text that begins with `*` in quotes",
    ),
    _Mistake(r"found character '(?P<what>.)' that cannot start", "a text that begins with `{what}` needs quotes"),
)


def told(error: MarkedYAMLError) -> tuple[str, Any]:
    """Return the message, and the mark of its place."""
    said = " ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    if mark and error.context_mark and mark.line == error.context_mark.line:
        said += " in the same line"
    for mistake in _MISTAKES:
        if found := re.search(mistake.said, said, re.DOTALL):
            words = mistake.meant.format(**found.groupdict(), here=_line(mark), **_indentation(error))
            return words, error.context_mark if mistake.where_begun else mark
    return said.removesuffix(" in the same line"), mark


def _indentation(error: MarkedYAMLError) -> dict[str, int]:
    """Return the column of the mistake, and the column and first line of the block around it."""
    mark, begun = error.problem_mark, error.context_mark
    if not (mark and begun):
        return {}
    return {"column": mark.column + 1, "neighbours": begun.column + 1, "first": begun.line + 1}


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
