"""The spent budget of a run, and the costs of its next steps: the last measured ones, else estimates.

Bytes count writes to stacks: by fio, by set-up and by laying out files. The extra writes of parity and mirrors to the
disks are not included.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.engine.budget import ENDLESS, Cost
from runner.engine.estimate import Pace, building_of, laid_out, most_bytes_of, resync_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.hosts.write_budget import WriteBudget
    from runner.results.fio_output import Figures
    from runner.results.record import Trial
    from runner.space.space import Array, Cell


class Spending:
    """Track a budget: seconds since this object was made, bytes over the whole run."""

    def __init__(
        self,
        budget: Cost = ENDLESS,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        write_budget: WriteBudget | None = None,
    ) -> None:
        self.budget = budget
        #: Daily write limits of disks that wear out.
        self._write_budget = write_budget
        self._pace, self._clock = pace or Pace(), clock
        self._began, self._written = clock(), 0.0
        self._of_cells: dict[str, Cost] = {}
        #: Estimated bytes of running trials.
        self._under_way: dict[str, float] = {}
        self._seconds_of_arrays: dict[str, float] = {}

    @property
    def is_limited(self) -> bool:
        return self.budget != ENDLESS

    @property
    def left(self) -> Cost:
        return self.budget - Cost(self._clock() - self._began, self._written)

    def spend_on_array(self, array: Array) -> None:
        """Charge the bytes of a set-up before it begins, so that other rigs do not spend them too."""
        self._written += self._written_by(array)

    def spend_on_cell(self, cell: Cell) -> None:
        """Charge the estimated bytes of a trial before it begins."""
        cost = self.of_cell(cell).written
        self._written += cost
        self._under_way[cell.id] = cost
        if self._write_budget:
            self._write_budget.begin_trial()

    def record_set_up(self, array: Array, seconds: float) -> None:
        self._seconds_of_arrays[array.key] = seconds

    def add(self, trial: Trial, cell: Cell) -> None:
        """Replace the estimate of a trial by its measured cost."""
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
        known = self._of_cells.get(cell.id)
        if known is not None:
            return known
        return Cost(seconds_of(cell, self._pace), most_bytes_of(cell, self._pace) + laid_out((cell,)))

    def of_array(self, array: Array) -> Cost:
        guess = building_of(array, self._pace).least
        return Cost(self._seconds_of_arrays.get(array.key, guess), self._written_by(array))

    def affords(self, cost: Cost) -> bool:
        if self._write_budget and not self._write_budget.can_afford(cost.written):
            return False
        return not self.is_limited or cost.within(self.left)

    def _written_by(self, array: Array) -> int:
        return building_of(array, self._pace).written + resync_of(array)


def _written(figures: Figures, cell: Cell) -> float:
    """Return the bytes of a trial, with the ramp, which fio excludes from its figures, and the laid-out files."""
    work = cell.workload.value
    counted = figures.write.bytes if figures.write else 0
    ramp = 1 + work.ramp / figures.runtime if figures.runtime else 1.0
    return counted * ramp + laid_out((cell,))
