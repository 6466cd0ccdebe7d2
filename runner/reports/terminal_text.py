"""Styles and line breaks of terminal text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Styles repeat what words state. Dim, yellow, white and bright colours are hard to read on some backgrounds.
GOOD, BAD, DOUBT = "green", "bold red", "magenta"


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
