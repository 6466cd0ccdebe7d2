"""What a run may cost, and which trials that buys: first every cell at its minimum, then where the doubt is largest."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Cost:
    """What something takes of a budget, or what is left of one."""

    seconds: float = 0.0
    written: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.written + other.written)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.seconds - other.seconds, self.written - other.written)

    def within(self, other: Cost) -> bool:
        """Whether so much is there. What writes nothing needs no bytes, even where too many are gone already."""
        return self.seconds <= other.seconds and (not self.written or self.written <= other.written)


#: There is no end to it.
ENDLESS = Cost(inf, inf)
NOTHING = Cost()


@dataclass(frozen=True, slots=True)
class Wish:
    """A trial that would make a cell better known."""

    cell: str
    array: str
    #: The half-width of its rate, as a part of the mean; or what a guideline that rests on it gives for it.
    doubt: float
    cost: Cost


def repeats(budget: Cost, block: Cost, most: int) -> int:
    """How often each cell can be measured, if all are measured alike; `block`: what once costs."""
    times = (left / one for left, one in ((budget.seconds, block.seconds), (budget.written, block.written)) if one)
    return int(min([most, *times]))


def bought(wishes: Iterable[Wish], set_ups: Mapping[str, Cost], left: Cost) -> set[str]:
    """The cells that are measured once more: those of most doubt, as long as they fit into what is left.

    An array has to be built for the first of its cells; the next ones come cheaper.
    """
    found, up = set[str](), set[str]()
    for wish in sorted(wishes, key=lambda wish: (-wish.doubt, wish.cell)):
        cost = wish.cost if wish.array in up else wish.cost + set_ups.get(wish.array, NOTHING)
        if cost.within(left):
            found.add(wish.cell)
            up.add(wish.array)
            left -= cost
    return found
