"""Records of trials in the journal and the run folder, which only this module writes, and events for observers."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.log import LOG, recent_lines
from matrix_runner.carry.batch_messages import RecordStream
from matrix_runner.carry.events import Listener, RoundAdded, TrialDone, TrialHostLimited, TrialTooFast
from matrix_runner.decide.costs import Factors
from matrix_runner.decide.plan import Batch
from matrix_runner.decide.scheduler import Scheduler, join_reasons
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.machines.base import Machine, RigLost
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Attempt, CellRow, Outcome, Trial
from matrix_runner.space.space import Cell, Stack


class Shelf(Protocol):
    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str: ...
    def keep_tear_down(self, stack: str, tear_down: str) -> None: ...
    def forget_tear_down(self, stack: str) -> None: ...


@dataclass(frozen=True)
class BatchContext:
    machine: Machine
    journal: Journal | RecordStream
    shelf: Shelf
    scratch: Path
    listen: Listener
    boot_id: str
    own_templates: Path | None = None
    kernel: str | None = None
    factors: Factors | None = None  # chooses the factor of slow motion of each trial
    #: Physical disks that the run has leased, by their paths.
    leased: Mapping[str, LeasedDisk] = field(default_factory=dict)


@dataclass(frozen=True)
class RunContext(BatchContext):
    journal: Journal
    #: Serial numbers of the physical disks that the run used, by host of a cluster.
    pools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Recorder:
    def __init__(self, scheduler: Scheduler, context: BatchContext) -> None:
        self._scheduler, self._context = scheduler, context
        self._journal, self._shelf = context.journal, context.shelf
        #: Trials to measure again alone, with the reason. After a kill, the next process finds them again.
        self._repeats: dict[tuple[str, int], str] = {}

    def record(self, cell: Cell, trial: Trial) -> None:
        self._journal.record(trial)
        self._scheduler.add(trial, cell)
        self._context.listen(TrialDone(cell.name, trial, cell.stack.label))

    def record_set_up(self, stack: Stack, round_number: int, seconds: float) -> None:
        self._journal.record_set_up(round_number, stack.key, seconds)
        self._scheduler.spending.record_set_up(stack, seconds)

    def repeat_alone(self, cell: Cell, round_number: int, overload: str, beside: int) -> None:
        self._repeats[cell.id, round_number] = f"alone; host-limited {overload} with {beside} beside it"
        self._context.listen(TrialHostLimited(cell.name, cell.stack.label, round_number, overload, beside))

    def repeat_slower(self, cell: Cell, round_number: int, overload: str, was: int, slow: int) -> None:
        self._repeats[cell.id, round_number] = f"{slow} times slower; host-limited {overload} at {was}"
        self._context.listen(TrialTooFast(cell.name, round_number, cell.stack.label, overload, was, slow))

    def is_repeated(self, cell: Cell, round_number: int) -> bool:
        return (cell.id, round_number) in self._repeats

    def end_repeat(self, cell: Cell, round_number: int) -> dict[str, str]:
        """Return a note with the reason of a trial that was measured again, if it was."""
        why = self._repeats.pop((cell.id, round_number), "")
        return {"repeated": why} if why else {}

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
        log = {"set-up.log": _evidence(failed.brief, failed.details)}
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
        log = {f"lost-{attempt.number}.log": _evidence(attempt.reason, attempt.tail)}
        return self._shelf.put(cell.name, attempt.round, {}, log)


class RunRecorder(Recorder):
    """Also what a run does around its batches, here or on a cluster: begin with what is recorded, and open rounds."""

    def __init__(self, scheduler: Scheduler, context: RunContext) -> None:
        super().__init__(scheduler, context)
        self._run = context

    def start(self) -> None:
        """Give the scheduler the records of earlier processes. A trial in a crash of the host counts as an attempt."""
        journal = self._run.journal
        cells = self._scheduler.plan.selection.cells()
        journal.add_cells(CellRow(cell.id, cell.name, cell.axes) for cell in cells)
        self._scheduler.start(journal.trials(), journal.attempts(), journal.retry_counts())
        for begun in journal.unended_attempts():
            if begun.boot_id != self._context.boot_id:
                self.lose(begun.cell, begun.round, begun.started, RigLost("the host went down during the trial"))
        self._scheduler.charge_recorded(journal.set_up_times(), journal.trials())

    def rounds(self) -> Iterator[tuple[int, Iterator[tuple[Batch, deque[Cell]]]]]:
        """Open round after round, and yield its batches. A round may depend on the records of those before."""
        for number in self._scheduler.rounds():
            (batches,) = self.open_round(number)
            yield number, batches
        LOG.info("no further round; trials without budget: %d", self._scheduler.left_out)

    def open_round(self, number: int, *others: "RunRecorder") -> list[Iterator[tuple[Batch, deque[Cell]]]]:
        """Open a round of this run, and of others that measure it in turns. Return the batches of each."""
        schedulers = [one._scheduler for one in (self, *others)]
        for one, scheduler in zip((self, *others), schedulers, strict=True):
            one.conclude((cell for batch in scheduler.plan.batches(number) for cell in batch.cells), number)
        if trials := sum(scheduler.count_added(number) for scheduler in schedulers):
            self._context.listen(RoundAdded(number, trials, self._scheduler.reason(), self._scheduler.ranking))
        LOG.info("round %d opens%s", number, f": {why}" if (why := self._scheduler.reason()) else "")
        return [scheduler.batches(number) for scheduler in schedulers]


def _evidence(reason: str, output: str) -> str:
    return f"{reason}\n\n{output}\n\nlast lines of the log:\n{recent_lines()}\n"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
