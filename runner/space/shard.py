"""Shards of a matrix: `2/5` is the second of five parts. Two shards never share an array."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from runner.base.errors import BadInput
from runner.space.select import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.space.space import Array, Cell

_WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Parse `2/5`; raise ValueError."""
        found = _WRITTEN.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise ValueError(f"{text!r} is not a shard; write `2/5` for the second of five")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Sharded(Selection):
    """The selected cells of some arrays. An array is never split: one machine measures all cells of it."""

    arrays: frozenset[str] = frozenset()

    def cells_of(self, array: Array) -> Iterator[Cell]:
        return super().cells_of(array) if array.key in self.arrays else iter(())

    def count(self) -> int:
        return sum(1 for _ in self.cells())

    def notes(self, *, simulated: bool = True) -> list[str]:
        """What there is to say of its layouts; what the others have is not left out by anybody."""
        return list(self.space.notes_on(self.layouts(), simulated=simulated))


def sharded(selection: Selection, shard: Shard) -> Sharded:
    """Select the arrays of one shard. The same matrix and selection always give the same arrays."""
    dealt = _dealt(selection, shard.of)
    if not dealt[shard.number - 1]:
        arrays = sum(map(len, dealt))
        raise BadInput(
            f"--shard {shard}: there {'is' if arrays == 1 else 'are'} {arrays} stack{'' if arrays == 1 else 's'}, and "
            "this shard gets none of them",
            resolution=f"a stack is not split: take at most {arrays} shard{'' if arrays == 1 else 's'}",
        )
    return Sharded(selection.space, selection.exclude, selection.only, frozenset(dealt[shard.number - 1]))


def _dealt(selection: Selection, shards: int) -> list[list[str]]:
    """Deal the arrays to shards, the largest first, each to the shard with the fewest cells."""
    counts = [(sum(1 for _ in selection.cells_of(array)), array.key) for array in selection.space.arrays]
    dealt: list[list[str]] = [[] for _ in range(min(shards, len(counts)))]
    loads = [(0, number) for number in range(len(dealt))]
    for cells, key in sorted(((cells, key) for cells, key in counts if cells), key=lambda one: (-one[0], one[1])):
        load, number = loads[0]
        heapq.heapreplace(loads, (load + cells + 1, number))  # setting up an array costs about as much as a trial
        dealt[number].append(key)
    return [*dealt, *([] for _ in range(shards - len(dealt)))]
