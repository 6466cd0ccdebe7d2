"""In which order trials are run.

A block holds every wanted cell once. Inside a block the rigs, inside a rig the arrays, inside an array the cells
stand in an order drawn from the seed: whatever drifts while a run goes on (a warming host, a filling disk) then hits
all cells alike and cannot look like an effect, and every repetition of a cell lies in another block. An array is the
whole plot: it is built once in a block for all cells that share it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.language.matrix import Repeat
    from runner.space.select import Selection
    from runner.space.space import Array, Cell

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """One array, built once in a block unless its disks fail, and the cells that are measured on it, in order."""

    block: int
    array: Array
    cells: tuple[Cell, ...]

    @property
    def builds(self) -> int:
        """How often the array is built: a disk that failed is of no use to the next trial."""
        return len(self.cells) if self.array.faults else 1


@dataclass(frozen=True)
class Plan:
    """All batches of a run, made one at a time."""

    selection: Selection
    repeat: Repeat
    seed: int

    @property
    def blocks(self) -> range:
        """At most so many, counted from 1."""
        return range(1, self.repeat.max + 1)

    def batches(self, block: int) -> Iterator[Batch]:
        """The batches of one block, in order."""
        for kernel, arrays in self._rigs(block):
            for array in self._shuffled(arrays, block, "arrays", kernel or ""):
                cells = self._shuffled(self.selection.cells_of(array), block, "cells", array.key)
                if cells:
                    yield Batch(block, array, tuple(cells))

    def _rigs(self, block: int) -> list[tuple[str | None, list[Array]]]:
        """The arrays by the kind of rig that they need."""
        rigs: dict[str | None, list[Array]] = {}
        for array in self.selection.space.arrays:
            rigs.setdefault(array.kernel, []).append(array)
        return self._shuffled(rigs.items(), block, "rigs")

    def _shuffled(self, things: Iterable[T], block: int, *what: str) -> list[T]:
        shuffled = list(things)
        random.Random("/".join((str(self.seed), str(block), *what))).shuffle(shuffled)  # noqa: S311 - order, not secrecy
        return shuffled
