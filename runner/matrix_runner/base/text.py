"""Text made safe for a terminal, a table or other people: escapes, line breaks, and pseudonyms of names."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    re.compile(r"([?&](?=[^=&?\s]*pass)[^=&?\s]*+=)[^&\s]*", re.IGNORECASE),
    re.compile(r"(://[^:/\s]*:)(?:\S*(?=@)|(\S*+))"),  # without @, the whole word stays, and is read once
    re.compile(r"(://[^:/@\s]*:)(?!\d*(?:[/?,]|$))[^/?@\s]+(?=[/?]|$)"),
)


def wrap(text: str, width: int, measure: Callable[[str], int] = len) -> list[str]:
    """Break a line between words. A word that is longer than the line stays whole: it may be a path to copy."""
    first, *words = text.split(" ")
    lines = [first]
    for word in words:
        if lines[-1].strip() and measure(f"{lines[-1]} {word}") > width:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def without_passwords(text: str) -> str:
    """Replace passwords of URLs in a text. This may hide harmless text, too."""
    for password in _PASSWORDS:
        text = password.sub(lambda found: found[0] if found.lastindex == 2 else f"{found[1]}***", text)
    return text


#: Names that many hosts and users have: they identify no one, and texts need them.
_COMMON = frozenset({"localhost", "debian", "ubuntu", "fedora", "linux", "matrix", "root", "runner", "user", "none"})
_LONG = 5  # such a name is replaced inside of words, too
_KNOWN, _DEEPEST = "known", 100
_SYSTEM = "dev|proc|sys|usr|bin|sbin|lib|lib64|etc|run|boot"
#: What looks like a name of a kind, whether it is known or not. A pattern begins only where a word does: to read a long
#: word from each of its places to its end would take hours.
_PATTERNS = (
    ("disk", r"(?<=by-id/)[^\s\"'`,;()\[\]{}\\]+"),
    ("disk", r"\b(?:wwn-0x|naa\.|eui\.|nvme-eui\.|t10\.|0x5)[0-9a-f][\w.:-]{7,}"),
    ("disk", r"\b(?:ata|scsi|nvme|usb|mmc|virtio)-\w[\w.:+-]{0,100}_[\w.:+-]+"),
    ("disk", r"(?<=serial[ =:])[A-Za-z0-9_-]{4,}|(?<=serial number )[A-Za-z0-9_-]{4,}"),
    ("host", r"(?<=ssh:)[A-Za-z0-9][\w.@-]*|(?<=://)[^/\s\"'`]+|(?<![\w.+-])[\w.+-]++@[\w-][\w.-]*"),
    (
        "host",
        r"(?<![\w-])(?<![\w-]\.)(?:[\w-]+\.)+(?:local|lan|internal|intranet|corp|home|arpa|com|net|org|edu|gov|eu|de|uk|fr|nl)\b",
    ),
    ("uuid", r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    ("address", r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b"),
    ("address", r"\b(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3})(?::[0-9a-f]{0,4}){2,7}"),
    ("address", r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)"),
    ("path", rf"(?<![\w/.$}}~:*\\-])/(?!(?:{_SYSTEM})\b)[\w.][^\s\"'`,:;()<>|\[\]{{}}\\]+"),
)


class Pseudonyms:
    """`known`: names by their kind, such as `host`. What looks like a name is replaced, too."""

    def __init__(self, known: Mapping[str, Iterable[str]]) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self.counts = Counter[str]()  # of different names, by their kind
        named = ((kind, name) for kind, names in known.items() if kind != "path" for name in names if len(name) > 1)
        self._kinds = {_key(name): kind for kind, name in named if name.lower() not in _COMMON}
        # A pattern is only so deep.
        ends = {
            (*name[:_DEEPEST], *filter(None, [name[_DEEPEST:]])): ""
            if len(name) >= _LONG and kind != "user"
            else _as_word(name)
            for name, kind in self._kinds.items()
        }
        # Where two begin, the first in this list wins: the longer one.
        parts = [*_path_patterns(known.get("path", ())), *_PATTERNS, *([(_KNOWN, _any_of(ends))] if ends else [])]
        self._pattern = re.compile(
            "|".join(f"(?P<{kind}_{number}>{pattern})" for number, (kind, pattern) in enumerate(parts)), re.IGNORECASE
        )

    def replace(self, text: str) -> str:
        return self._pattern.sub(self._name, text)

    @property
    def summary(self) -> str:
        """Return how many names were replaced."""
        found = sorted(self.counts.items())
        texts = (f"{n} {kind}{'' if n == 1 else 'es' if kind.endswith('s') else 's'}" for kind, n in found)
        return ", ".join(texts) or "no name was found"

    def _name(self, found: re.Match[str]) -> str:
        kind = str(found.lastgroup).partition("_")[0]
        kind = self._kinds.get(_key(found[0]), "host") if kind == _KNOWN else kind
        key = kind, found[0].lower()
        if key not in self._names:
            self.counts[kind] += 1
            self._names[key] = f"{kind}-{self.counts[kind]}"
        return self._names[key]


def _key(name: str) -> str:
    return name.lower() if name.isascii() else name  # other letters can have another number of small ones


def _path_patterns(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    for place in sorted(filter(None, places), key=len, reverse=True):
        # In JSON, a backslash and a letter are the end of a line.
        yield "path", rf"{re.escape(place)}(?![\w.-])(?:[^\s\"'`,;\\]|\\(?![nrt]))*"


def _as_word(name: str) -> str:
    """Return what has to be true behind a name that counts as a whole word only."""
    return rf"(?<![A-Za-z0-9](?s:.{{{len(name)}}}))(?![A-Za-z0-9])"


def _any_of(names: Mapping[tuple[str, ...], str]) -> str:
    """Return a pattern for these names, the longest first, each with what has to be true behind it.

    They share their beginnings: with an alternative for each of a thousand names, each line takes a second.
    """
    longer = dict[str, dict[tuple[str, ...], str]]()
    for name, end in names.items():
        if name:
            longer.setdefault(name[0], {})[name[1:]] = end
    ways = [re.escape(first) + _any_of(rest) for first, rest in longer.items()]
    ways += [names[()]] if () in names else []
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
