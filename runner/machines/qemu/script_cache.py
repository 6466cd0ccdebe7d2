"""What a guest's standing shell knows by heart: texts that come again and again are functions of it.

An emulated processor takes longer to read some of them than to do what they say. What comes only once is not worth it,
and what did not go well may not even be a whole text, so it takes two good ends to be learnt. Pure.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Most texts: each function makes every fork a little slower.
MOST = 64
#: Comments at the start of a script differ between cells; the rest may be equal.
_HEAD = re.compile(r"(?:#.*\n)+")


class ByHeart:
    def __init__(self) -> None:
        self._once: set[str] = set()
        self._names: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def words(self, text: str) -> str:
        """Return one word for the shell to evaluate instead of a text."""
        return self._names.get(_bare(text)) or quote(text)

    def worth(self, went_well: Iterable[str]) -> dict[str, str]:
        """Return definitions of texts that came for the second time; each prints its name once defined."""
        found: dict[str, str] = {}
        for text in map(_bare, went_well):
            if text in self._once and text not in self._names and len(self._names) + len(found) < MOST:
                name = f"matrix_text_{len(self._names) + len(found)}"
                found[name] = f"{name}() {{\n{text}\n}}\ndeclare -F {name}\n"
                self._texts[name] = text
            self._once.add(text)
        return found

    def learnt(self, name: str) -> None:
        self._names[self._texts[name]] = name


def _bare(text: str) -> str:
    return _HEAD.sub("", text, count=1) if text.startswith("#") else text
