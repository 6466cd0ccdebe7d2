"""In which order trials are run.

A round holds every wanted cell once. Inside a round the rigs, inside a rig the arrays, inside an array the cells
stand in an order drawn from the seed: whatever drifts while a run goes on (a warming host, a filling disk) then hits
all cells alike and cannot look like an effect, and every repetition of a cell lies in another round. An array is the
whole plot: it is built once in a round for all cells that share it.
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
    """One array, built once in a round unless its disks fail, and the cells that are measured on it, in order."""

    round: int
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
    def rounds(self) -> range:
        """At most so many, counted from 1."""
        return range(1, self.repeat.max + 1)

    def batches(self, round_number: int) -> Iterator[Batch]:
        """The batches of one round, in order."""
        for kernel, arrays in self._rigs(round_number):
            for array in self._shuffled(arrays, round_number, "arrays", kernel or ""):
                cells = self._shuffled(self.selection.cells_of(array), round_number, "cells", array.key)
                if cells:
                    yield Batch(round_number, array, tuple(cells))

    def _rigs(self, round_number: int) -> list[tuple[str | None, list[Array]]]:
        """The arrays by the kind of rig that they need."""
        rigs: dict[str | None, list[Array]] = {}
        for array in self.selection.space.arrays:
            rigs.setdefault(array.kernel, []).append(array)
        return self._shuffled(rigs.items(), round_number, "rigs")

    def _shuffled(self, things: Iterable[T], round_number: int, *what: str) -> list[T]:
        shuffled = list(things)
        random.Random("/".join((str(self.seed), str(round_number), *what))).shuffle(shuffled)  # noqa: S311 - order, not secrecy
        return shuffled
