"""Notes for the user about a valid matrix."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A note: a text, or two texts with the names of the layouts that it is about between them."""

    text: str
    layouts: tuple[str, ...] = ()
    rest: str = ""
    simulated: bool = False  # it holds only for disks that the machine makes as they are declared

    def text_for(self, wanted: Collection[str]) -> str:
        named = [layout for layout in self.layouts if layout in wanted]
        return f"{self.text}{few(named)}{self.rest}" if named or not self.layouts else ""


def few(labels: Iterable[str], most: int = 5) -> str:
    unique = list(dict.fromkeys(labels))
    return ", ".join(unique[:most]) + (f" and {len(unique) - most:,} more" if len(unique) > most else "")
