"""The plan of a run: its batches, and their seeded random order in each round. scheduler.py chooses from it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.language.matrix import Repeat
    from runner.space.select import Selection
    from runner.space.space import Cell, Stack

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    round: int
    stack: Stack
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Plan:
    selection: Selection
    repeat: Repeat
    seed: int

    @property
    def rounds(self) -> range:
        return range(1, self.repeat.max + 1)

    def batches(self, round_number: int) -> Iterator[Batch]:
        for kernel, stacks in self._rigs(round_number):
            for stack in self._shuffle(stacks, round_number, "arrays", kernel or ""):
                cells = self._shuffle(self.selection.cells_of(stack), round_number, "cells", stack.key)
                if cells:
                    yield Batch(round_number, stack, tuple(cells))

    def _rigs(self, round_number: int) -> list[tuple[str | None, list[Stack]]]:
        """Group the stacks by kernel, because each kernel needs its own rig."""
        rigs: dict[str | None, list[Stack]] = {}
        for stack in self.selection.space.stacks:
            rigs.setdefault(stack.kernel, []).append(stack)
        return self._shuffle(rigs.items(), round_number, "rigs")

    def _shuffle(self, things: Iterable[T], round_number: int, *what: str) -> list[T]:
        shuffled = list(things)
        random.Random("/".join((str(self.seed), str(round_number), *what))).shuffle(shuffled)  # noqa: S311 - order, not secrecy
        return shuffled
