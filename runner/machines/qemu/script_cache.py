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

#: So many texts at most: every one makes each fork a little slower.
MOST = 64
#: What a script begins with says what it is for, and may differ where nothing else does.
_HEAD = re.compile(r"(?:#.*\n)+")


class ByHeart:
    """What one shell knows."""

    def __init__(self) -> None:
        self._once: set[str] = set()
        self._names: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def words(self, text: str) -> str:
        """What the shell is to evaluate for a text to be run, as one word."""
        return self._names.get(_bare(text)) or quote(text)

    def worth(self, went_well: Iterable[str]) -> dict[str, str]:
        """Which texts came for the second time: definitions that tell their names if all is well, by these."""
        found: dict[str, str] = {}
        for text in map(_bare, went_well):
            if text in self._once and text not in self._names and len(self._names) + len(found) < MOST:
                name = f"matrix_text_{len(self._names) + len(found)}"
                found[name] = f"{name}() {{\n{text}\n}}\ndeclare -F {name}\n"
                self._texts[name] = text
            self._once.add(text)
        return found

    def learnt(self, name: str) -> None:
        """The shell has told that it knows it."""
        self._names[self._texts[name]] = name


def _bare(text: str) -> str:
    return _HEAD.sub("", text, count=1) if text.startswith("#") else text
