"""Records of trials in the journal and the run folder, which only this module writes, and events for observers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from matrix_runner.carry.events import Listener, RoundAdded, TrialDone
from matrix_runner.decide.scheduler import Scheduler, join_reasons
from matrix_runner.machines.base import Machine, RigLost
from matrix_runner.records.record import Attempt, CellRow, Outcome, Trial

if TYPE_CHECKING:
    from collections import deque
    from contextlib import AbstractContextManager
    from pathlib import Path

    from matrix_runner.base.errors import HarnessBroken
    from matrix_runner.hosts.exclusive import LeasedDisk
    from matrix_runner.records.journal_reader import UnendedAttempt
    from matrix_runner.space.space import Cell


class TrialLog(Protocol):
    """The part of a journal that the engine uses."""

    def together(self) -> AbstractContextManager[None]: ...
    def add_cells(self, cells: Iterable[CellRow]) -> None: ...
    def begin(self, cell: str, round_number: int, attempt: int, boot_id: str, started: str = "") -> None: ...
    def withdraw(self, cell: str, round_number: int) -> None: ...
    def record(self, trial: Trial) -> None: ...
    def record_lost(self, attempt: Attempt) -> None: ...
    def record_set_up(self, round_number: int, stack: str, seconds: float) -> None: ...
    def trials(self) -> Iterable[Trial]: ...
    def attempts(self) -> Sequence[Attempt]: ...
    def retry_counts(self) -> dict[tuple[str, int], int]: ...
    def unended_attempts(self) -> Sequence[UnendedAttempt]: ...
    def set_up_times(self) -> Sequence[tuple[str, float]]: ...


class Shelf(Protocol):
    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str: ...
    def keep_tear_down(self, stack: str, tear_down: str) -> None: ...
    def forget_tear_down(self, stack: str) -> None: ...


@dataclass(frozen=True)
class RunContext:
    machine: Machine
    journal: TrialLog
    shelf: Shelf
    scratch: Path
    listen: Listener
    boot_id: str
    own_templates: Path | None = None
    kernel: str | None = None
    #: Physical disks that the run has leased, by their paths.
    leased: Mapping[str, LeasedDisk] = field(default_factory=dict)
    #: Serial numbers of the physical disks that the run used, by host of a cluster.
    pools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Recorder:
    def __init__(self, scheduler: Scheduler, context: RunContext) -> None:
        self._scheduler, self._context = scheduler, context
        self._journal, self._shelf = context.journal, context.shelf

    def start(self) -> None:
        """Give the scheduler the records of earlier processes. A trial in a crash of the host counts as an attempt."""
        cells = self._scheduler.plan.selection.cells()
        self._journal.add_cells(CellRow(cell.id, cell.name, cell.axes) for cell in cells)
        self._scheduler.start(self._journal.trials(), self._journal.attempts(), self._journal.retry_counts())
        for begun in self._journal.unended_attempts():
            if begun.boot_id != self._context.boot_id:
                self.lose(begun.cell, begun.round, begun.started, RigLost("the host went down during the trial"))
        self._scheduler.charge_recorded(self._journal.set_up_times(), self._journal.trials())

    def record(self, cell: Cell, trial: Trial) -> None:
        self._journal.record(trial)
        self._scheduler.add(trial, cell)
        self._context.listen(TrialDone(cell.name, trial, cell.stack.label))

    def announce_round(self, round_number: int) -> None:
        if trials := self._scheduler.count_added(round_number):
            self._context.listen(RoundAdded(round_number, trials))

    def conclude(self, cells: Iterable[Cell], round_number: int) -> list[Cell]:
        concluded = []
        for cell in cells:
            if trial := self._scheduler.conclusion(cell, round_number):
                attempts = self._scheduler.records.attempts(cell.id, round_number)
                logs = [self._keep_log(cell, attempt) for attempt in attempts]
                self.record(cell, replace(trial, folder=logs[-1]) if trial.outcome.is_error else trial)
                concluded.append(cell)
        return concluded

    def lose(self, cell: str, round_number: int, started: str, lost: RigLost, seconds: float = 0.0) -> Attempt:
        number = self._scheduler.records.next_attempt(cell, round_number)
        attempt = Attempt(cell, round_number, number, started, lost.brief, lost.tail)
        self._scheduler.lose(attempt, seconds)
        self._journal.record_lost(attempt)
        return attempt

    def lose_trial(
        self, cell: Cell, round_number: int, started: str, lost: RigLost, scripts: Mapping[str, str], seconds: float
    ) -> None:
        attempt = self.lose(cell.id, round_number, started, lost, seconds)
        self._shelf.put(cell.name, round_number, scripts, {})
        self._keep_log(cell, attempt)

    def lose_batch(self, cells: deque[Cell], round_number: int, started: str, lost: RigLost) -> None:
        for cell in tuple(cells):
            self._keep_log(cell, self.lose(cell.id, round_number, started, lost))
            if self.conclude([cell], round_number):
                cells.remove(cell)

    def break_batch(
        self, cells: deque[Cell], round_number: int, started: str, failed: HarnessBroken, *reasons: str
    ) -> None:
        log = {"set-up.log": f"{failed.brief}\n\n{failed.details}\n"}
        while cells:
            cell = cells.popleft()
            folder = self._shelf.put(cell.name, round_number, {}, log)
            attempt = self._scheduler.records.next_attempt(cell.id, round_number)
            broken = Trial(cell.id, round_number, Outcome.BROKEN, join_reasons(reasons), started)
            self.record(cell, replace(broken, attempts=attempt, folder=folder))

    def skip_batch(self, cells: deque[Cell], round_number: int, reason: str) -> None:
        while cells:
            cell = cells.popleft()
            self.record(cell, Trial(cell.id, round_number, Outcome.SKIPPED, reason, started=now()))

    def _keep_log(self, cell: Cell, attempt: Attempt) -> str:
        log = f"{attempt.reason}\n\n{attempt.tail}\n"
        return self._shelf.put(cell.name, attempt.round, {}, {f"lost-{attempt.number}.log": log})


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
