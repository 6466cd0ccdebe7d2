"""The plan of a run: its batches, and their seeded random order in each round. scheduler.py chooses from it."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TypeVar

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
        if not self.searches_best:
            return range(1, self.repeat.max + 1)
        from matrix_runner.answers.best import LAST  # searches take a tenth of a second to import

        return range(1, max(self.repeat.max, LAST) + 1)

    @property
    def searches_best(self) -> bool:
        """Return whether each round depends on the one before."""
        return any(one.is_for_best for one in self.finds.values())

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
        shares = {key: self._usual(key, len(several), rounds) / rounds for key, several in values.items()}
        return [(cell, count * (shares[key] if (key := _search_of(cell, finds)) else 1)) for cell, count in groups]

    def _usual(self, of: Coords, values: int, rounds: int) -> float:
        """Return the usual number of trials of each value of a search."""
        from matrix_runner.answers import best, knee

        find = self.finds.get(name := dict(of).get("workload", ""))
        if find is None or not find.is_for_best:
            return knee.usual_trials(values, rounds) / values
        values = len(self.selection.space.values_of(find.axis, name))
        return best.usual_trials(values, rounds) / max(1, values)

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
