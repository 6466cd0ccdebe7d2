"""The budget of a run, and the choice of trials: each cell at its minimum, then the least certain cells."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Cost:
    """A part of a budget, or what is left of one."""

    seconds: float = 0.0
    written: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.written + other.written)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.seconds - other.seconds, self.written - other.written)

    def within(self, other: Cost) -> bool:
        """Return whether this fits. A trial that writes no bytes fits even after too many bytes were written."""
        return self.seconds <= other.seconds and (not self.written or self.written <= other.written)


#: No limit.
ENDLESS = Cost(inf, inf)
NOTHING = Cost()


@dataclass(frozen=True, slots=True)
class Wish:
    """A trial that would narrow the interval of a cell."""

    cell: str
    array: str
    #: The half-width of its rate as a part of the mean, or the weight from a guideline.
    doubt: float
    cost: Cost


def repeats(budget: Cost, round_number: Cost, most: int) -> int:
    times = (
        left / one
        for left, one in ((budget.seconds, round_number.seconds), (budget.written, round_number.written))
        if one
    )
    return int(min([most, *times]))


def choose_affordable(wishes: Iterable[Wish], set_ups: Mapping[str, Cost], left: Cost) -> set[str]:
    """Return the cells to measure once more: the least certain ones that fit into the rest of the budget."""
    found, up = set[str](), set[str]()
    for wish in sorted(wishes, key=lambda wish: (-wish.doubt, wish.cell)):
        cost = wish.cost if wish.array in up else wish.cost + set_ups.get(wish.array, NOTHING)
        if cost.within(left):
            found.add(wish.cell)
            up.add(wish.array)
            left -= cost
    return found
