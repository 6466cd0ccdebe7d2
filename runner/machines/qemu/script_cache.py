"""The cache of a guest's standing shell: texts that repeat become shell functions.

An emulated processor takes longer to parse some of them than to run them. A text is added after its second success: a
single use does not pay, and a text that failed may not be complete.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The limit of functions, because each makes every fork a little slower.
MOST = 64
#: The comments at the start, which differ between cells with otherwise equal scripts.
_HEAD = re.compile(r"(?:#.*\n)+")


class ScriptCache:
    def __init__(self) -> None:
        self._once: set[str] = set()
        self._names: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def words(self, text: str) -> str:
        """Return a text as one word for `eval`: the name of its function, or the quoted text."""
        return self._names.get(_bare(text)) or quote(text)

    def definitions(self, successes: Iterable[str]) -> dict[str, str]:
        """Return definitions of texts with a second success. Each prints its name after the definition."""
        found: dict[str, str] = {}
        for text in map(_bare, successes):
            if text in self._once and text not in self._names and len(self._names) + len(found) < MOST:
                name = f"matrix_text_{len(self._names) + len(found)}"
                found[name] = f"{name}() {{\n{text}\n}}\ndeclare -F {name}\n"
                self._texts[name] = text
            self._once.add(text)
        return found

    def add(self, name: str) -> None:
        self._names[self._texts[name]] = name


def _bare(text: str) -> str:
    return _HEAD.sub("", text, count=1) if text.startswith("#") else text
