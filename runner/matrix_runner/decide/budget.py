"""The budget of a run, what is spent of it, and the choice of trials: first each cell at its minimum, then by doubt."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from matrix_runner.decide.estimate import Pace, building_of, laid_out, most_bytes_of, resync_of, seconds_of
from matrix_runner.hosts.disk_ledger import WriteBudget
from matrix_runner.records.record import Trial
from matrix_runner.space.space import Cell, Stack


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float = 0.0
    written: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds + other.seconds, self.written + other.written)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds - other.seconds, self.written - other.written)

    def within(self, other: "Cost") -> bool:
        """Return whether this fits. A trial that writes no bytes fits even after too many bytes were written."""
        return self.seconds <= other.seconds and (not self.written or self.written <= other.written)


#: No limit.
ENDLESS = Cost(inf, inf)
NOTHING = Cost()


@dataclass(frozen=True, slots=True)
class Wish:
    cell: str
    stack: str
    doubt: float  # the half-width of its rate as a part of the mean, or the weight from a guideline
    cost: Cost


def repeats(budget: Cost, round_number: Cost, most: int) -> int:
    pairs = ((budget.seconds, round_number.seconds), (budget.written, round_number.written))
    return int(min([most, *(left / each for left, each in pairs if each)]))


def choose_affordable(wishes: Iterable[Wish], set_ups: Mapping[str, Cost], left: Cost) -> set[str]:
    found, up = set[str](), set[str]()
    for wish in sorted(wishes, key=lambda wish: (-wish.doubt, wish.cell)):
        cost = wish.cost if wish.stack in up else wish.cost + set_ups.get(wish.stack, NOTHING)
        if cost.within(left):
            found.add(wish.cell)
            up.add(wish.stack)
            left -= cost
    return found


class Spending:
    def __init__(
        self,
        budget: Cost = ENDLESS,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        write_budget: WriteBudget | None = None,
    ) -> None:
        self.budget = budget
        self._write_budget = write_budget  # daily write limits of disks that wear out
        self._pace, self._clock = pace or Pace(), clock
        self._began, self._written = clock(), 0.0
        self._cell_costs: dict[str, Cost] = {}
        self._under_way: dict[str, float] = {}  # estimated bytes of running trials
        self._set_up_seconds: dict[str, float] = {}
        self._set_up_guesses: dict[str, Cost] = {}

    def grant(self, seconds: float) -> None:
        """Limit what follows to a time, instead of that of the budget."""
        self.budget = replace(self.budget, seconds=self._clock() - self._began + seconds)

    @property
    def is_limited(self) -> bool:
        return self.budget != ENDLESS

    @property
    def left(self) -> Cost:
        return self.budget - Cost(self._clock() - self._began, self._written)

    def spend_on_stack(self, stack: Stack) -> None:
        """Charge the bytes of a set-up before it begins, so that other rigs do not spend them too."""
        self._written += self.of_stack(stack).written

    @property
    def is_bounded(self) -> bool:
        return self.is_limited or self._write_budget is not None

    def spend_on_cell(self, cell: Cell) -> None:
        if not self.is_bounded:  # to estimate each cell takes a part of the time of a short trial
            return
        cost = self.of_cell(cell).written
        self._written += cost
        self._under_way[cell.id] = cost
        if self._write_budget:
            self._write_budget.begin_trial()

    def record_set_up(self, stack: Stack, seconds: float) -> None:
        self._set_up_seconds[stack.key] = seconds

    def add(self, trial: Trial, cell: Cell) -> None:
        taken = self._under_way.pop(cell.id, 0.0)
        if trial.figures is None:
            self._written += 0.0 if taken else self.of_cell(cell).written
            return
        counted = trial.figures.write.bytes if trial.figures.write else 0
        recorded = cell.work.recorded_bytes(cell.span, counted, trial.figures.runtime, trial.facts.written_in_rounds)
        cost = Cost(trial.seconds, recorded + laid_out(cell))
        if self._write_budget:
            self._write_budget.end_trial(cost.written)
        self._cell_costs[trial.cell] = cost  # shares the text of the id with other records
        self._written += cost.written - taken

    def of_cell(self, cell: Cell) -> Cost:
        if known := self._cell_costs.get(cell.id):
            return known
        return Cost(seconds_of(cell, self._pace), most_bytes_of(cell, self._pace) + laid_out(cell))

    def expected_of(self, cell: Cell) -> float:
        """Return the seconds that a trial was expected to take before the first one."""
        return seconds_of(cell, self._pace)

    def of_stack(self, stack: Stack) -> Cost:
        guess = self._set_up_guesses.get(stack.key)
        if guess is None:
            building = building_of(stack, self._pace)
            guess = self._set_up_guesses[stack.key] = Cost(building.least, building.written + resync_of(stack))
        return Cost(self._set_up_seconds.get(stack.key, guess.seconds), guess.written)

    def affords(self, cost: Cost) -> bool:
        if self._write_budget and not self._write_budget.can_afford(cost.written):
            return False
        return not self.is_limited or cost.within(self.left)
