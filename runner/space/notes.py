"""Notes for the user about a valid matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


@dataclass(frozen=True, slots=True)
class Note:
    """A note: a text, or two texts with the names of the layouts that it is about between them."""

    text: str
    layouts: tuple[str, ...] = ()
    rest: str = ""
    #: It holds only for disks that the machine makes as they are declared.
    simulated: bool = False

    def told(self, wanted: Collection[str]) -> str:
        """Return the text for these layouts; empty if it is about other layouts only."""
        named = [layout for layout in self.layouts if layout in wanted]
        return f"{self.text}{few(named)}{self.rest}" if named or not self.layouts else ""


def few(labels: Iterable[str]) -> str:
    """List at most five names, and count the rest."""
    unique = list(dict.fromkeys(labels))
    return ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
