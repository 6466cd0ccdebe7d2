"""What is wrong with a text that is no YAML, in words for whoever wrote it.

A parser tells what it expected of its own grammar, at the place where it gave up, which is often lines below the
mistake. The commonest mistakes are told here at the place where they were made, and with what would be right; of all
others the parser's words are all there is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError


class _Mistake(NamedTuple):
    """What the parser says, and what is meant. `{here}`: where it gave up; `{begun}`: where what it was in begins."""

    said: str
    meant: str
    #: The place to show is where it begins.
    where_begun: bool = False


_MISTAKES = (
    _Mistake(
        r"^while parsing a flow .* got ':' in the same line$",
        "a second `key:` without a comma before it, or in one text: that wants quotes, or braces around it",
    ),
    _Mistake(
        r"^while parsing a flow .* expected ',' or '(?P<what>.)'",
        "is not closed: `{what}` or a comma is missing before {here}",
        where_begun=True,
    ),
    _Mistake(
        r"^while parsing a block .* found '(<block (mapping|sequence) start>|-|\?)'",
        "neither deeper than its neighbours nor in their column: what it stands in begins at {begun}",
    ),
    _Mistake(r"found '<stream end>'", "the file ends here, within brackets"),
    _Mistake(r"found '(?P<what>[]}])'", "`{what}` closes nothing"),
    _Mistake(
        r"^while parsing a block .* found '<scalar>'",
        "there is an end before this: put quotes around the whole of a text that has any of its own",
    ),
    _Mistake(r"^expected '<document start>', but found \('<block", "not in the column in which the first line begins"),
    _Mistake(r"found character '\\t'", "a tab, where YAML wants spaces"),
    _Mistake(r"quoted scalar found unexpected end", "this quotation mark is never closed", where_begun=True),
    _Mistake(
        r"mapping values are not allowed here",
        "a second `key:` in one text: it wants a line of its own in the column of its neighbours, or braces around it "
        "({{level: 5}}), or quotes around the whole",
    ),
    _Mistake(r"could not find expected ':'", "`:` is missing behind this key", where_begun=True),
    _Mistake(
        r"found undefined alias '(?P<what>.*)'",
        "`*{what}` stands for what is called `&{what}` above, and nothing is: a text with `*` in front wants quotes",
    ),
    _Mistake(r"found character '(?P<what>.)' that cannot start", "no text begins with `{what}` without quotes"),
)


def told(error: MarkedYAMLError) -> tuple[str, Any]:
    """What is wrong, and the mark of the place where it is."""
    said = " ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    if mark and error.context_mark and mark.line == error.context_mark.line:
        said += " in the same line"
    for mistake in _MISTAKES:
        if found := re.search(mistake.said, said, re.DOTALL):
            words = mistake.meant.format(**found.groupdict(), here=_line(mark), begun=_line(error.context_mark))
            return words, error.context_mark if mistake.where_begun else mark
    return said.removesuffix(" in the same line"), mark


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
