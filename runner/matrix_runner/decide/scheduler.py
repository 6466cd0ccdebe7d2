"""The choice of the next trials from the records of a run; when a cell is given up. It does no I/O, and does not wait.

The order in a round is in plan.py, the choice within a budget in budget.py, the rule of `until:` in
statistics/stopping.py, that of `--until-decided` in answers/verdicts.py, that of `--race` in steering.py,
that of `--confirm` in confirm.py, and those of `find:` in answers/knee.py and best.py.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from matrix_runner.answers.knee import Searches
from matrix_runner.decide.budget import NOTHING, Spending, Wish, choose_affordable
from matrix_runner.decide.plan import Batch, Plan
from matrix_runner.records.record import Attempt, CellRow, Outcome, Trial
from matrix_runner.space.space import Cell, Stack
from matrix_runner.statistics.rounds import correlation_of_rounds
from matrix_runner.statistics.stopping import LEAST_ROUNDS, Rule, is_precise, relative_error


class Steering(Protocol):
    """Chooses the cells of rounds beyond the minimum."""

    @property
    def least(self) -> int:
        """The rounds that measure every cell."""

    @property
    def rounds(self) -> range: ...
    @property
    def ranking(self) -> Sequence[str]:
        """Return a line for each race: its order so far."""

    def add(self, trial: Trial) -> None: ...
    def wanted(self, round_number: int) -> Mapping[str, float] | None:
        """Return the cells of a round, with weights; None: each cell by its own interval."""

    def reason(self) -> str:
        """Return why another round follows."""


TRIES = 2  # number of lost rigs after which a trial is broken and its cell is quarantined


@dataclass
class Records:
    #: Each recorded trial by cell and round, with its bandwidth (reads and writes together) or the rate of its sync.
    trials: dict[tuple[str, int], float | None] = field(default_factory=dict)
    last_round: int = 0
    #: Attempts that lost their rig, by cell and round.
    lost: dict[tuple[str, int], list[Attempt]] = field(default_factory=dict)
    retried: dict[tuple[str, int], int] = field(default_factory=dict)
    #: Seconds spent on attempts that lost their rig.
    spent: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    quarantined: dict[str, str] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        figures = trial.counted
        self.trials[trial.cell, trial.round] = None if figures is None else figures.deciding_rate
        self.last_round = max(self.last_round, trial.round)
        if trial.outcome.is_error and len(self.attempts(trial.cell, trial.round)) >= TRIES:
            self.quarantined[trial.cell] = trial.reason

    def rates(self, cell: str, last_round: int = 0) -> list[float]:
        """Return the rates of a cell in the order of its rounds, perhaps up to one."""
        rounds = range(1, (last_round or self.last_round) + 1)
        found = (self.trials.get((cell, round_number)) for round_number in rounds)
        return [rate for rate in found if rate is not None]

    def lose(self, attempt: Attempt) -> None:
        self.lost.setdefault((attempt.cell, attempt.round), []).append(attempt)

    def attempts(self, cell: str, round_number: int) -> list[Attempt]:
        """Return the attempts since the last `--retry-broken`."""
        before = self.retried.get((cell, round_number), 0)
        return [attempt for attempt in self.lost.get((cell, round_number), ()) if attempt.number > before]

    def next_attempt(self, cell: str, round_number: int) -> int:
        return self.retried.get((cell, round_number), 0) + len(self.attempts(cell, round_number)) + 1


class Scheduler:
    def __init__(
        self,
        plan: Plan,
        records: Records | None = None,
        spending: Spending | None = None,
        steering: Steering | None = None,
    ) -> None:
        self.plan, self.spending = plan, spending or Spending()
        self.records = records or Records()
        self._steering = steering  # None: each cell by its own interval
        self._least = steering.least if steering else plan.repeat.min
        self._rules: dict[int, Rule] = {}  # those of rounds whose earlier rounds have not changed since
        repeat = plan.repeat
        practical = plan.selection.space.matrix.practical
        self._rule = Rule(repeat.min, repeat.max, repeat.until, repeat.confidence, practical=practical)
        searched = {cell.id: cell for cell in plan.searched_cells()}
        rows = (CellRow(cell.id, cell.name, cell.axes) for cell in searched.values())
        self._searches = Searches(rows, plan.finds, self._rule)
        self._searched = {id_: cell for id_, cell in searched.items() if id_ in self._searches}
        self.short = self.left_out = 0  # trials without budget: of the minimum, and of all

    # --- records ---

    def start(
        self, trials: Iterable[Trial], attempts: Iterable[Attempt], retried: Mapping[tuple[str, int], int]
    ) -> None:
        self.records = Records(retried=dict(retried))
        for attempt in attempts:
            self.records.lose(attempt)
        for trial in trials:
            self._add(trial)

    def _add(self, trial: Trial) -> None:
        self.records.add(trial)
        self._rules = {number: rule for number, rule in self._rules.items() if number <= trial.round}
        self._searches.add(trial)
        if self._steering:
            self._steering.add(trial)

    def charge_recorded(self, stacks: Iterable[tuple[str, float]], trials: Iterable[Trial]) -> None:
        if not self.spending.is_limited:
            return
        cells = {cell.id: cell for cell in self.plan.selection.cells()}
        by_key = {cell.stack.key: cell.stack for cell in cells.values()}
        for key, seconds in stacks:
            if stack := by_key.get(key):
                self.spending.spend_on_stack(stack)
                self.spending.record_set_up(stack, seconds)
        for trial in trials:
            self.spending.add(trial, cells[trial.cell])

    def add(self, trial: Trial, cell: Cell) -> None:
        self._add(trial)
        self.spending.add(trial, cell)

    def lose(self, attempt: Attempt, seconds: float = 0.0) -> None:
        self.records.lose(attempt)
        self.records.spent[attempt.cell, attempt.round] += seconds

    # --- decisions ---

    def rounds(self) -> Iterator[int]:
        for round_number in self._steering.rounds if self._steering else self.plan.rounds:
            weights = self._weights(round_number)
            beyond = round_number > max(self.plan.repeat.max, self.records.last_round)
            no_other = not weights and (weights is not None or beyond)
            if no_other and not (self._searched and self._wanted(round_number)):
                return
            if weights and self._affordable_cells(round_number) == set() and (wanted := self._wanted(round_number)):
                self.left_out += len(wanted)
                return
            yield round_number

    def batches(self, round_number: int) -> Iterator[tuple[Batch, deque[Cell]]]:
        affordable = self._affordable_cells(round_number)
        for batch in self.plan.batches(round_number):
            wanted = [cell for cell in batch.cells if self.is_wanted(cell, round_number)]
            cells = deque(cell for cell in wanted if affordable is None or cell.id in affordable)
            self.left_out += len(wanted) - len(cells)
            if cells:
                yield batch, cells

    def is_wanted(self, cell: Cell, round_number: int) -> bool:
        if (cell.id, round_number) in self.records.trials or self.conclusion(cell, round_number):
            return False
        weights = self._weights(round_number)
        if cell.id in self._searched and cell.id in self._searches.wanted(cell.id, round_number):
            return True
        if weights is None:
            is_done = (
                is_precise(self.records.rates(cell.id), self._rule_of(round_number))
                or round_number > self.plan.repeat.max
            )
            return cell.id not in self._searched and not is_done
        return cell.id in weights

    def following(self, cell: Cell, round_number: int, queued: Collection[Cell]) -> list[Cell]:
        """Return the cells that a search tries next in this round, after a trial of one of its cells."""
        if cell.id not in self._searched:
            return []
        waiting = {one.id for one in queued}
        found = [self._searched[one] for one in self._searches.following(cell.id, round_number) if one not in waiting]
        return [one for one in found if self.is_wanted(one, round_number)]

    def conclusion(self, cell: Cell, round_number: int) -> Trial | None:
        """Return the record of a trial that needs no measurement: broken after lost rigs, or skipped in quarantine."""
        if (cell.id, round_number) in self.records.trials:
            return None
        attempts = self.records.attempts(cell.id, round_number)
        if len(attempts) >= TRIES:
            reasons = join_reasons([attempt.reason for attempt in attempts])
            spent = self.records.spent[cell.id, round_number]
            started, number = attempts[0].started, attempts[-1].number
            return Trial(cell.id, round_number, Outcome.BROKEN, reasons, started, spent, number)
        if reason := self.records.quarantined.get(cell.id):
            return Trial(cell.id, round_number, Outcome.SKIPPED, f"quarantined: {reason}")
        return None

    def affords(self, cell: Cell, stack: Stack | None = None) -> bool:
        """Return whether the budget covers a trial, and before it the set-up of `stack`."""
        spending = self.spending
        if not spending.is_bounded:  # to estimate each cell takes a part of the time of a short trial
            return True
        set_up = NOTHING if stack is None else spending.of_stack(stack)
        return spending.affords(set_up + spending.of_cell(cell))

    def charge(self, cells: deque[Cell], round_number: int, stack: Stack | None = None) -> bool:
        """Leave out cells without budget, and charge the next one, or the set-up of `stack` for it, if there is one."""
        while cells and not self.affords(cells[0], stack):
            self.leave_out([cells.popleft()], round_number)
        if cells:
            self.spending.spend_on_cell(cells[0]) if stack is None else self.spending.spend_on_stack(stack)
        return bool(cells)

    def leave_out(self, cells: Collection[Cell], round_number: int) -> None:
        self.left_out += len(cells)
        self.short += len(cells) * (round_number <= self._least)

    def count_missing(self) -> int:
        """Return the number of trials of the minimum without a record, of a run whose budget did not end."""
        least = self._least
        recorded = sum(number <= least for _, number in self.records.trials)
        if self.short or recorded == least * self.plan.selection.count():
            return 0
        return sum(len(self._wanted(number)) for number in range(1, least + 1))

    def reason(self) -> str:
        return self._steering.reason() if self._steering else ""

    @property
    def ranking(self) -> Sequence[str]:
        return self._steering.ranking if self._steering else ()

    def count_added(self, round_number: int) -> int:
        """Return the number of trials in a round beyond the minimum."""
        if self._weights(round_number) is None:
            return 0
        affordable = self._affordable_cells(round_number)
        return sum(affordable is None or cell.id in affordable for cell in self._wanted(round_number))

    def _wanted(self, round_number: int) -> list[Cell]:
        cells = (cell for batch in self.plan.batches(round_number) for cell in batch.cells)
        return [cell for cell in cells if self.is_wanted(cell, round_number)]

    def _affordable_cells(self, round_number: int) -> set[str] | None:
        if not self.spending.is_limited or round_number <= self._least:
            return None
        wanted = self._wanted(round_number)
        rule = self._rule_of(round_number)
        errors = {cell.id: relative_error(self.records.rates(cell.id), rule) for cell in wanted}
        weights = {**errors, **(self._weights(round_number) or {})}
        wishes = [Wish(cell.id, cell.stack.key, weights[cell.id], self.spending.of_cell(cell)) for cell in wanted]
        set_ups = {cell.stack.key: self.spending.of_stack(cell.stack) for cell in wanted}
        return choose_affordable(wishes, set_ups, self.spending.left)

    def _weights(self, round_number: int) -> Mapping[str, float] | None:
        if self._steering is None or round_number <= self._least:
            return None
        return self._steering.wanted(round_number)

    def _rule_of(self, round_number: int) -> Rule:
        """Return the rule of a round, with the correlation of the rounds before it."""
        if self._rule.until is None or round_number <= LEAST_ROUNDS:
            return self._rule
        if round_number not in self._rules:
            cells = dict.fromkeys(cell for cell, _ in self.records.trials)
            samples = [self.records.rates(cell, round_number - 1) for cell in cells]
            found = correlation_of_rounds(samples)
            self._rules[round_number] = replace(self._rule, correlation=round(found or 0.0, 2))
        return self._rules[round_number]


def join_reasons(reasons: Sequence[str]) -> str:
    if len(set(reasons)) == 1:
        return reasons[0]
    return "; ".join(f"{number}. {reason}" for number, reason in enumerate(reasons, start=1))
