"""Names of hosts, disks, users, addresses and paths in texts, replaced by the same pseudonym wherever they occur."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Names that many hosts and users have: they identify no one, and texts need them.
_COMMON = frozenset({"localhost", "debian", "ubuntu", "fedora", "linux", "matrix", "root", "runner", "user", "none"})
_LONG = 5  # such a name is replaced inside of words, too
_SYSTEM = "dev|proc|sys|usr|bin|sbin|lib|lib64|etc|run|boot"
#: What looks like a name of a kind, whether it is known or not.
_PATTERNS = (
    ("disk", r"(?<=by-id/)[^\s\"'`,;()\[\]{}\\]+"),
    ("disk", r"\b(?:wwn-0x|naa\.|eui\.|nvme-eui\.|t10\.|0x5)[0-9a-f][\w.:-]{7,}"),
    ("disk", r"\b(?:ata|scsi|nvme|usb|mmc|virtio)-\w[\w.:+-]*_[\w.:+-]+"),
    ("disk", r"(?<=serial[ =:])[A-Za-z0-9_-]{4,}|(?<=serial number )[A-Za-z0-9_-]{4,}"),
    ("host", r"(?<=ssh:)[A-Za-z0-9][\w.@-]*|(?<=://)[^/\s\"'`]+|\b[\w.+-]+@[\w-][\w.-]*"),
    ("host", r"\b(?:[\w-]+\.)+(?:local|lan|internal|intranet|corp|home|arpa|com|net|org|edu|gov|eu|de|uk|fr|nl)\b"),
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
        # Where two begin, the first in this list wins: the longer one.
        paths = {"path": known.get("path", ())}
        parts = [*_known_patterns(paths), *_PATTERNS, *_known_patterns({**known, "path": ()})]
        self._pattern = re.compile(
            "|".join(f"(?P<{kind}_{number}>{pattern})" for number, (kind, pattern) in enumerate(parts)), re.IGNORECASE
        )

    def replace(self, text: str) -> str:
        return self._pattern.sub(self._name, text)

    @property
    def counts(self) -> Counter[str]:
        """Return the number of different names of each kind."""
        return Counter(kind for kind, _ in self._names)

    @property
    def summary(self) -> str:
        """Return how many names were replaced."""
        found = sorted(self.counts.items())
        texts = (f"{n} {kind}{'' if n == 1 else 'es' if kind.endswith('s') else 's'}" for kind, n in found)
        return ", ".join(texts) or "no name was found"

    def _name(self, found: re.Match[str]) -> str:
        kind = str(found.lastgroup).partition("_")[0]
        key = kind, found[0].lower()
        if key not in self._names:
            self._names[key] = f"{kind}-{self.counts[kind] + 1}"
        return self._names[key]


def _known_patterns(known: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    named = {name: kind for kind, names in known.items() for name in names if name and name.lower() not in _COMMON}
    for name in sorted(named, key=len, reverse=True):
        kind, text = named[name], re.escape(name)
        if kind == "path":
            yield kind, rf"{text}(?![\w.-])[^\s\"'`,;]*"
        elif len(name) >= _LONG and kind != "user":
            yield kind, text
        elif len(name) > 1:
            yield kind, rf"(?<![A-Za-z0-9]){text}(?![A-Za-z0-9])"
