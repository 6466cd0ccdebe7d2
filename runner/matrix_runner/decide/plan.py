"""The plan of a run: its batches, and their seeded random order in each round. scheduler.py chooses from it."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TypeVar

from matrix_runner.answers.knee import usual_trials
from matrix_runner.base.model import Coords
from matrix_runner.language.find import Find
from matrix_runner.language.matrix import Repeat
from matrix_runner.space.select import Selection
from matrix_runner.space.space import Cell, Stack

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
    follows: bool = True  # False: the coordinator of this process follows searches

    @property
    def rounds(self) -> range:
        return range(1, self.repeat.max + 1)

    @cached_property
    def finds(self) -> Mapping[str, Find]:
        return self.selection.space.matrix.finds if self.follows else {}

    def searched_cells(self) -> Iterator[Cell]:
        if finds := self.finds:
            yield from (cell for cell in self.selection.cells() if cell.axes["workload"] in finds)

    def trials(self, rounds: int) -> int:
        """Return the number of trials in this number of rounds; of a search, the usual one."""
        if not self.finds:
            return self.selection.count() * rounds
        stacks = self.selection.space.stacks
        shares = (share for stack in stacks for _, share in self.shares([*self.selection.groups_of(stack)], rounds))
        return round(fsum(shares) * rounds)

    def shares(self, groups: Sequence[tuple[Cell, float]], rounds: int) -> list[tuple[Cell, float]]:
        """Scale the numbers of cells of one stack by the share of rounds in which a search measures them."""
        finds, values = self.finds, dict[Coords, set[bytes]]()
        if not finds:
            return list(groups)
        for cell, _ in groups:
            values.setdefault(_search_of(cell, finds), set()).add(cell.workload.digest)
        shares = {key: usual_trials(len(several), rounds) / len(several) / rounds for key, several in values.items()}
        return [(cell, count * (shares[key] if (key := _search_of(cell, finds)) else 1)) for cell, count in groups]

    def batches(self, round_number: int) -> Iterator[Batch]:
        for boot, stacks in self._rigs(round_number):
            for stack in self._shuffle(stacks, round_number, "arrays", boot):
                cells = self._shuffle(self.selection.cells_of(stack), round_number, "cells", stack.key)
                if cells:
                    yield Batch(round_number, stack, tuple(cells))

    def _rigs(self, round_number: int) -> list[tuple[str, list[Stack]]]:
        """Group the stacks by what they boot, because that needs its own rig."""
        rigs: dict[str, list[Stack]] = {}
        for stack in self.selection.space.stacks:
            rigs.setdefault(f"{stack.kernel or ''} {stack.cmdline}".strip(), []).append(stack)
        return self._shuffle(rigs.items(), round_number, "rigs")

    def _shuffle(self, things: Iterable[T], round_number: int, *what: str) -> list[T]:
        shuffled = list(things)
        random.Random("/".join((str(self.seed), str(round_number), *what))).shuffle(shuffled)  # noqa: S311 - order, not secrecy
        return shuffled


def _search_of(cell: Cell, finds: Mapping[str, Find]) -> Coords:
    """Return what all cells of its search have in common; empty without a search."""
    find = finds.get(dict(cell.workload.coords)["workload"])
    return tuple((axis, text) for axis, text in cell.workload.coords if axis != find.axis) if find else ()
