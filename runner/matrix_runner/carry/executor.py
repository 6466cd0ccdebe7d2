"""Execution of batches on this host: the rig of a stack, fresh rigs after a loss, stacks that outlive their rig.

Each trial is recorded before the next one begins. For trials with output see trial_result.py, for cells that lost their
rig scheduler.py.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from matrix_runner.base.children import run_to_end
from matrix_runner.base.errors import HarnessBroken, MatrixError
from matrix_runner.base.log import LOG
from matrix_runner.carry.events import BatchDone, BatchStarted, RigUp, RigWasLost, TrialStarted
from matrix_runner.carry.recorder import BatchContext, Recorder, RunContext, RunRecorder, Shelf, now
from matrix_runner.carry.trial import (
    LostInSetUp,
    NotOnThisRig,
    SetUpFailed,
    StackOnRig,
    tear_down_remains,
    why_skipped,
)
from matrix_runner.decide.concurrency import Level, Turn, Turns
from matrix_runner.decide.plan import Batch
from matrix_runner.decide.scheduler import TRIES, Scheduler
from matrix_runner.hosts.agent.client import AgentLost
from matrix_runner.hosts.exclusive import DisksRefused, LeasedDisk
from matrix_runner.language.matrix import Matrix
from matrix_runner.machines.base import KeepsRig, NoRig, Rig, RigLost, RigSpec
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.records.record import HOST_LIMITED, Trial
from matrix_runner.scripts.cell import StackScripts
from matrix_runner.scripts.stack import StackView
from matrix_runner.space.space import Cell, Stack

ONE = Level.of(1)


class _TrialLost(Exception):
    """The rig was lost during a trial, and this is recorded; the rest of the batch needs a fresh rig."""


class Executor:
    """Measures batches on the machine of this host: those of a local run, or one that a cluster gave this process."""

    def __init__(self, scheduler: Scheduler, context: BatchContext, recorder: Recorder, level: Level = ONE) -> None:
        self.scheduler, self._context, self._recorder = scheduler, context, recorder
        self._turns = Turns(level)
        self._teardowns = Teardowns(context.shelf)
        self._lost: Stack | None = None  # the stack of the last lost rig
        self._known: dict[RigSpec, Mapping[str, str]] = {}

    @property
    def _matrix(self) -> Matrix:
        return self.scheduler.plan.selection.space.matrix

    async def measure(self, rounds: Iterable[Iterable[tuple[Batch, deque[Cell]]]]) -> None:
        """Measure the batches of rounds. A cancellation or a kill may stop it at any point."""
        try:
            for batches in rounds:
                await self._turns.side_by_side(self._measure_batch(batch, cells) for batch, cells in batches)
            if self._lost and self._teardowns.leftovers:
                with suppress(HarnessBroken):
                    async with self._rig(self._lost) as rig:
                        await self._teardowns.tear_down_leftovers(rig)
        finally:
            if isinstance(self._context.machine, KeepsRig):
                await self._context.machine.shut_down()

    def _rig(self, stack: Stack) -> AbstractAsyncContextManager[Rig]:
        return self._context.machine.rig(rig_spec(self._matrix, stack, self._context.kernel), self._context.scratch)

    async def _measure_batch(self, batch: Batch, cells: deque[Cell]) -> None:
        listen, record, stack = self._context.listen, self._recorder, batch.stack
        listen(BatchStarted(batch.round, stack.label, len(cells)))
        failed_starts: list[str] = []
        started = now()
        if lacking := self._lacking(stack):
            record.skip_batch(cells, batch.round, lacking)
        while self.scheduler.charge(cells, batch.round, stack):
            try:
                await self._on_one_rig(stack, batch.round, cells)
                failed_starts.clear()  # with faults, each trial has its own rig, and most rigs may come up
            except _TrialLost:
                failed_starts.clear()
                self._note_loss(stack)
            except LostInSetUp as lost:
                failed_starts.clear()
                self._note_loss(stack)
                record.lose_batch(cells, batch.round, started, lost)
                listen(RigWasLost(stack.label, stack.label, lost.brief, "starting a fresh one"))
            except RigLost as lost:
                self._note_loss(stack)
                failed_starts.append(f"no rig came up: {lost.brief}")
                if len(failed_starts) >= TRIES:
                    record.break_batch(cells, batch.round, started, lost, *failed_starts)
                else:
                    after = _after_loss(left=bool(cells), brings_disks=self._context.machine.brings_disks)
                    listen(RigWasLost(stack.label, stack.label, lost.brief, after))
            except (SetUpFailed, NoRig) as failed:
                record.break_batch(cells, batch.round, started, failed, failed.brief)
            except NotOnThisRig as lacking:
                record.skip_batch(cells, batch.round, lacking.brief)
        listen(BatchDone(batch.round, stack.label))

    def _lacking(self, stack: Stack) -> str:
        """Return what is known before a rig starts to be missing for a stack."""
        spec, machine = rig_spec(self._matrix, stack, self._context.kernel), self._context.machine
        known = self._known.get(spec) or machine.known(spec)  # more once an appliance is built
        self._known[spec] = known
        return why_skipped(stack, machine, known, self._matrix.profile)

    def _note_loss(self, stack: Stack) -> None:
        self._teardowns.lose(stack.key)
        self._lost = stack

    async def _on_one_rig(self, stack: Stack, round_number: int, cells: deque[Cell]) -> None:
        async with AsyncExitStack() as exits:
            built = await self._build(stack, round_number, exits)
            try:
                async with opened_exclusively(self._context.leased, built.view):
                    while self.scheduler.charge(cells, round_number):
                        await asyncio.sleep(0)  # lets Ctrl-C in if the machine answers at once
                        await self.trial(built, cells, round_number)
                        if stack.faults:
                            break  # the disks failed: the next trial needs new ones
            except BaseException as error:
                with suppress(RigLost):  # report the first error, such as a request to stop
                    await run_to_end(self._take_apart(stack, built))
                if isinstance(error, _TrialLost):
                    await self._take_down_rig(exits)
                raise
            await run_to_end(self._take_apart(stack, built))
            await self._take_down_rig(exits)

    async def _build(self, stack: Stack, round_number: int, exits: AsyncExitStack) -> StackOnRig:
        context = self._context
        async with self._turns.turn():
            clock = time.monotonic()
            rig = await exits.enter_async_context(self._rig(stack))
            if lacking := self._lacking(stack):
                raise NotOnThisRig(lacking)
            keep = None
            if not context.machine.brings_disks:  # else a lost rig takes its disks with it
                await self._teardowns.tear_down_leftovers(rig)
                keep = partial(self._teardowns.keep, stack.key)
            only_read = any(disk.declared.only_read for disk in context.leased.values())
            built = await StackOnRig.build(
                self._matrix, stack, rig, context.machine, context.own_templates, keep, only_read=only_read
            )
            seconds = time.monotonic() - clock
            self._recorder.record_set_up(stack, round_number, seconds)
            context.listen(RigUp(stack.label, seconds, rig.facts))
        return built

    async def _take_down_rig(self, rig: AsyncExitStack) -> None:
        """Stop a rig in its own turn, so that it does not disturb a trial that must be alone."""
        async with self._turns.turn():
            await rig.aclose()

    async def _take_apart(self, stack: Stack, built: StackOnRig) -> None:
        if self._context.machine.disposable:
            return
        async with self._turns.turn():
            await built.tear_down()
            self._teardowns.forget(stack.key)

    async def trial(self, built: StackOnRig, cells: deque[Cell], round_number: int) -> None:
        """Measure the first cell. It leaves the queue when its trial is recorded, else it stays for another attempt."""
        cell, journal, records = cells[0], self._context.journal, self.scheduler.records
        identity = (cell.id, round_number)
        alone = self._recorder.is_repeated(cell, round_number) or bool(records.attempts(*identity))
        async with self._turns.turn(alone=alone) as turn:
            attempt, started, clock = records.next_attempt(*identity), now(), time.monotonic()
            journal.begin(cell.id, round_number, attempt, self._context.boot_id, started)
            self._context.listen(TrialStarted(cell.name, round_number, cell.stack.label))
            if factors := self._context.factors:
                built.slow_down(factors.of(cell))
            try:
                measured = await built.measure(cell, round_number)
            except asyncio.CancelledError:
                journal.withdraw(cell.id, round_number)
                raise
            except RigLost as lost:
                spent = time.monotonic() - clock
                self._recorder.lose_trial(cell, round_number, started, lost, built.scripts_of(cell), spent)
                self._context.listen(RigWasLost(cell.name, cell.stack.label, lost.brief, "starting a fresh one"))
                if self._recorder.conclude([cell], round_number):
                    self._next(cells, round_number)
                raise _TrialLost from lost
            if not self._counts(cell, measured.trial, turn):
                return
            folder = self._context.shelf.put(cell.name, round_number, measured.scripts, measured.outputs)
            notes = {"beside": str(turn.beside)} if turn.beside else {}
            notes |= self._recorder.end_repeat(cell, round_number)
            trial = measured.trial
            self._recorder.record(cell, replace(trial, attempts=attempt, notes={**trial.notes, **notes}, folder=folder))
            self._next(cells, round_number)

    def _next(self, cells: deque[Cell], round_number: int) -> None:
        done = cells.popleft()
        following = self.scheduler.following(done, round_number, cells)
        if following:
            LOG.info("after %s, the search tries %s", done.name, ", ".join(cell.name for cell in following))
        cells.extend(following)

    def _counts(self, cell: Cell, trial: Trial, turn: Turn) -> bool:
        facts, factors = trial.facts, self._context.factors
        if facts.is_host_limited:
            self._turns.host_limited(turn)
        elif trial.figures is not None:
            self._turns.kept_up(turn)
        if not trial.outcome.counts:  # such as wrong data, which a repeat may not show again
            return True
        if facts.is_host_limited and turn.beside:
            self._recorder.repeat_alone(cell, trial.round, trial.notes[HOST_LIMITED], turn.beside)
        elif factors and factors.learn(cell, facts) and self.scheduler.affords(cell):
            slow, lost = factors.of(cell), trial.notes[HOST_LIMITED]
            self._recorder.repeat_slower(cell, trial.round, lost, facts.slow, slow)
        else:
            return True
        self._context.journal.withdraw(cell.id, trial.round)
        return False


class LocalRun:
    def __init__(self, scheduler: Scheduler, context: RunContext, level: Level = ONE) -> None:
        self.scheduler, self.recorder = scheduler, RunRecorder(scheduler, context)
        self.executor = Executor(scheduler, context, self.recorder, level)

    async def run(self) -> None:
        """Measure all trials that are not recorded yet."""
        self.recorder.start()
        await self.executor.measure(batches for _, batches in self.recorder.rounds())


class RunInTurns:
    """A run, and in some rounds a second one on another kernel. Both go first by turns, so drift favours neither.

    `second` returns it, and `give_up` gets its failure: the first run goes on alone.
    """

    def __init__(
        self,
        first: LocalRun,
        second: Callable[[], Awaitable[LocalRun | None]],
        give_up: Callable[[MatrixError], None],
    ) -> None:
        self.scheduler = first.scheduler
        self._first, self._second, self._give_up = first, second, give_up

    async def run(self) -> None:
        self._first.recorder.start()
        for number in self.scheduler.rounds():
            second = await self._second()
            both = (self._first, second) if second else (self._first,)
            opened = self._first.recorder.open_round(number, *(one.recorder for one in both[1:]))
            for one, batches in [*zip(both, opened, strict=True)][:: 1 if number % 2 else -1]:
                try:
                    await one.executor.measure([batches])
                except MatrixError as problem:
                    if one is self._first:
                        raise
                    self._give_up(problem)


def _after_loss(*, left: bool, brings_disks: bool) -> str:
    if left:
        return "trying again on a fresh one"
    consequence = "its disks are gone too" if brings_disks else "the next rig takes the stack apart"
    return f"its cells are measured; {consequence}"


@asynccontextmanager
async def opened_exclusively(leased: Mapping[str, LeasedDisk], stack: StackView) -> AsyncIterator[None]:
    """Open the leased bare disks of a stack. Raise SetUpFailed if another program uses one, or RigLost."""
    disks = [leased[disk] for disk in stack.bare if disk in leased]
    if not disks:
        yield
        return
    try:
        await run_to_end(asyncio.to_thread(_acquire, disks))
        yield
    finally:
        await run_to_end(asyncio.to_thread(_release, disks))


def _acquire(disks: Sequence[LeasedDisk]) -> None:
    refusals: list[str] = []
    for one in disks:
        try:
            one.reacquire()
        except DisksRefused as refused:
            refusals += (f"{one.declared.id} is {why}" for why in refused.refusals)
        except AgentLost as gone:
            raise RigLost(gone.brief, tail=gone.details) from gone
    if refusals:
        raise SetUpFailed(f"other programs use disks of this stack: {'; '.join(refusals)}")


def _release(disks: Sequence[LeasedDisk]) -> None:
    for one in disks:
        one.release()


class Teardowns:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._built: dict[str, StackScripts] = {}
        self.leftovers: dict[str, StackScripts] = {}  # of lost rigs

    def keep(self, stack: str, scripts: StackScripts) -> None:
        """Save the scripts of a stack before it is built, because it may outlive its rig and this process."""
        self._shelf.keep_tear_down(stack, scripts.tear_down)
        self._built[stack] = scripts

    def lose(self, stack: str) -> None:
        if scripts := self._built.pop(stack, None):
            self.leftovers[stack] = scripts

    def forget(self, stack: str) -> None:
        built, leftover = self._built.pop(stack, None), self.leftovers.pop(stack, None)
        if built or leftover:
            self._shelf.forget_tear_down(stack)

    async def tear_down_leftovers(self, rig: Rig) -> None:
        """Take the remaining stacks apart; if one fails, the next set-up reports it."""
        for stack, scripts in list(self.leftovers.items()):
            if await tear_down_remains(rig, scripts):
                self.forget(stack)
