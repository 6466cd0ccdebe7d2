"""What a run has cost so far, and what its next steps will: as they did the last time, or as was estimated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.plan.budget import ENDLESS, Cost
from runner.plan.estimate import Pace, building_of, bytes_of, resync_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.expand.space import Array, Cell
    from runner.store.record import Trial


class Spending:
    """Keeps to a budget: of time from when it is made, of bytes over the whole run."""

    def __init__(
        self, budget: Cost = ENDLESS, pace: Pace | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.budget = budget
        self._pace, self._clock = pace or Pace(), clock
        self._began, self._written = clock(), 0.0
        self._of_cells: dict[str, Cost] = {}
        self._seconds_of_arrays: dict[str, float] = {}

    @property
    def limited(self) -> bool:
        """Whether there is an end to it at all."""
        return self.budget != ENDLESS

    @property
    def left(self) -> Cost:
        """What may be spent yet."""
        return self.budget - Cost(self._clock() - self._began, self._written)

    def add(self, trial: Trial) -> None:
        """A trial is recorded."""
        written = trial.figures.write.bytes if trial.figures and trial.figures.write else 0
        self._written += written
        if trial.figures:
            self._of_cells[trial.cell] = Cost(trial.seconds, written)

    def built(self, array: Array, seconds: float) -> None:
        """An array is up."""
        self._seconds_of_arrays[array.key] = seconds
        self._written += self._written_by(array)

    def of_cell(self, cell: Cell) -> Cost:
        """One more trial of it."""
        known = self._of_cells.get(cell.id)
        if known is not None:
            return known
        work = cell.workload.value
        return Cost(seconds_of(work, cell.span, self._pace), bytes_of(work, cell.span, self._pace))

    def of_array(self, array: Array) -> Cost:
        """Building it."""
        guess = self._pace.set_up + building_of(array, self._pace).least
        return Cost(self._seconds_of_arrays.get(array.key, guess), self._written_by(array))

    def affords(self, cost: Cost) -> bool:
        """Whether there is enough left for it."""
        return not self.limited or cost.within(self.left)

    def _written_by(self, array: Array) -> int:
        return building_of(array, self._pace).written + resync_of(array)
