"""Text from files, guests and command lines made safe for a terminal."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

#: Control characters except newline and tab, marks that change the direction of text, line separators, and halves of
#: surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    """Write characters that a terminal would obey as escapes, like `\\x1b`."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def printable_json(text: str) -> str:
    """Do the same inside the strings of a JSON document, which stays the same document."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def strip_illegal(text: str) -> str:
    """Remove terminal colours and characters that XML cannot hold."""
    if text.isprintable():  # true for most texts, and much faster
        return text
    return _ILLEGAL.sub("", _COLOURS.sub("", text))


def lines_of(text: str, *, keepends: bool = False) -> list[str]:
    """Cut the output of a program into lines. str.splitlines() also cuts inside names, for example at U+2028."""
    found = list(StringIO(text, newline=""))
    return found if keepends else [line.rstrip("\r\n") for line in found]


#: Beginnings of a formula. A number with a sign is none.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def of_planned(done: int, planned: int, most: str = "") -> str:
    """Return the number of trials, and of how many: beyond its plan, the plan of a race or a search says nothing."""
    return f"{done:,} of {most}{planned:,}" if planned and done <= planned else f"{done:,}"


def without_formula(value: Any) -> Any:
    """Put `'` before a text that a spreadsheet would compute. Anyone may have chosen the names in a file of fio."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


#: Places of passwords in a URL: in the query; between colon and last @; in place of the port if @ is missing.
_PASSWORDS = (
    re.compile(r"([?&][^=&?\s]*pass[^=&?\s]*=)[^&\s]*", re.IGNORECASE),
    re.compile(r"(://[^:/\s]*:)\S*(?=@)"),
    re.compile(r"(://[^:/@\s]*:)(?!\d*(?:[/?,]|$))[^/?@\s]+(?=[/?]|$)"),
)


def without_passwords(text: str) -> str:
    """Replace passwords of URLs in a text. This may hide harmless text, too."""
    for password in _PASSWORDS:
        text = password.sub(r"\1***", text)
    return text
