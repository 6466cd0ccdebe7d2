"""What a run has cost so far, and what its next steps will: as they did the last time, or as was estimated.

Bytes are what is asked of the arrays: what fio writes, what building them and laying out files takes. What parity and
mirrors make of that on the disks comes on top of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.engine.budget import ENDLESS, Cost
from runner.engine.estimate import Pace, building_of, laid_out, most_bytes_of, resync_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.hosts.write_budget import WriteBudget
    from runner.results.fio_json import Figures
    from runner.results.record import Trial
    from runner.space.space import Array, Cell


class Spending:
    """Keeps to a budget: of time from when it is made, of bytes over the whole run."""

    def __init__(
        self,
        budget: Cost = ENDLESS,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        write_budget: WriteBudget | None = None,
    ) -> None:
        self.budget = budget
        #: What the disks may have tonight, if they are such as wear out.
        self._write_budget = write_budget
        self._pace, self._clock = pace or Pace(), clock
        self._began, self._written = clock(), 0.0
        self._of_cells: dict[str, Cost] = {}
        #: What trials that have no end yet are thought to write.
        self._under_way: dict[str, float] = {}
        self._seconds_of_arrays: dict[str, float] = {}

    @property
    def limited(self) -> bool:
        """Whether there is an end to it at all."""
        return self.budget != ENDLESS

    @property
    def left(self) -> Cost:
        """What may be spent yet."""
        return self.budget - Cost(self._clock() - self._began, self._written)

    def spend_on_array(self, array: Array) -> None:
        """It is about to be built. Bytes count from now on, whatever becomes of it: others must not spend them too."""
        self._written += self._written_by(array)

    def spend_on_cell(self, cell: Cell) -> None:
        """A trial of it is about to begin."""
        cost = self.of_cell(cell).written
        self._written += cost
        self._under_way[cell.id] = cost
        if self._write_budget:
            self._write_budget.begin_trial()

    def built(self, array: Array, seconds: float) -> None:
        """An array is up."""
        self._seconds_of_arrays[array.key] = seconds

    def add(self, trial: Trial, cell: Cell) -> None:
        """A trial is recorded: what it wrote takes the place of what it was thought to."""
        taken = self._under_way.pop(cell.id, 0.0)
        if trial.figures is None:
            self._written += 0.0 if taken else self.of_cell(cell).written
            return
        cost = Cost(trial.seconds, _written(trial.figures, cell))
        if self._write_budget:
            self._write_budget.end_trial(cost.written)
        self._of_cells[cell.id] = cost
        self._written += cost.written - taken

    def of_cell(self, cell: Cell) -> Cost:
        """One more trial of it."""
        known = self._of_cells.get(cell.id)
        if known is not None:
            return known
        return Cost(seconds_of(cell, self._pace), most_bytes_of(cell, self._pace) + laid_out((cell,)))

    def of_array(self, array: Array) -> Cost:
        """Building it."""
        guess = building_of(array, self._pace).least
        return Cost(self._seconds_of_arrays.get(array.key, guess), self._written_by(array))

    def affords(self, cost: Cost) -> bool:
        """Whether there is enough left for it."""
        if self._write_budget and not self._write_budget.can_afford(cost.written):
            return False
        return not self.limited or cost.within(self.left)

    def _written_by(self, array: Array) -> int:
        return building_of(array, self._pace).written + resync_of(array)


def _written(figures: Figures, cell: Cell) -> float:
    """By fio, in its ramp as well, which it leaves out of its figures; and while its files were laid out."""
    work = cell.workload.value
    counted = figures.write.bytes if figures.write else 0
    ramp = 1 + work.ramp / figures.runtime if figures.runtime else 1.0
    return counted * ramp + laid_out((cell,))
