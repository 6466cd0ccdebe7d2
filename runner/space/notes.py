"""What a user should be told of a matrix that holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


@dataclass(frozen=True, slots=True)
class Note:
    """A word on what was declared: a text, or two with the layouts between them that it is about."""

    text: str
    layouts: tuple[str, ...] = ()
    rest: str = ""
    #: It holds only for disks that the machine makes as they are declared.
    simulated: bool = False

    def told(self, wanted: Collection[str]) -> str:
        """As it concerns these layouts; empty if it is about none of them."""
        named = [layout for layout in self.layouts if layout in wanted]
        return f"{self.text}{few(named)}{self.rest}" if named or not self.layouts else ""


def few(labels: Iterable[str]) -> str:
    """At most five of them by name."""
    unique = list(dict.fromkeys(labels))
    return ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
