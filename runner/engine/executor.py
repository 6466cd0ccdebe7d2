"""The loop that carries a plan out: visit by visit, trial by trial, each on disk before the next begins."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.uncancelled import to_its_end
from runner.engine.attempts import TRIES, Known
from runner.engine.budget import Wish, bought
from runner.engine.concurrency import Turn, Turns, Work
from runner.engine.concurrency_policy import Level, Told
from runner.engine.events import RigUp, RigWasLost, TrialDone, TrialStarted, TrialStrained, VisitDone, VisitStarted
from runner.engine.exclusive_open import Alone
from runner.engine.rigs import rig_spec
from runner.engine.spending import Spending
from runner.engine.teardowns import Standing
from runner.engine.trial import ArrayOnRig, LostInSetUp, Measured, NotOnThisKernel, SetUpFailed
from runner.machines.base import Keeps, RigLost
from runner.results.record import Attempt, CellRow, Outcome, Trial
from runner.statistics.stopping import Rule, doubt, known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from runner.engine.artifacts import Shelf
    from runner.engine.events import Listener
    from runner.engine.order import Plan, Visit
    from runner.guidelines.adaptive import Steering
    from runner.hosts.exclusive import Held
    from runner.language.matrix import Matrix
    from runner.machines.base import Machine
    from runner.results.journal import Journal
    from runner.space.space import Array, Cell

ONE = Told(1)


class _TrialLost(Exception):
    """The rig died under a trial, which is dealt with; the rest needs a fresh rig."""


class Execution:
    """One plan, on one machine, into one journal."""

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        journal: Journal,
        shelf: Shelf,
        scratch: Path,
        listen: Listener,
        *,
        boot_id: str,
        own_templates: Path | None = None,
        kernel: str | None = None,
        level: Level = ONE,
        spending: Spending | None = None,
        steering: Steering | None = None,
        lent: Mapping[str, Held] | None = None,
    ) -> None:
        self._plan, self._machine, self._journal, self._shelf = plan, machine, journal, shelf
        self._scratch, self._listen, self._boot_id = scratch, listen, boot_id
        self._own, self._kernel = own_templates, kernel
        self._known = Known()
        self._spending = spending or Spending()
        #: Says where trials beyond the minimum go, if that is where guidelines are not decided.
        self._steering = steering
        #: Trials that the budget was too small for: of those that every cell is to have, and of all.
        self.short = self.left_out = 0
        self._turns = Turns(level)
        #: Trials to be measured again because others were at work beside them, and how it was. Not kept: whoever is
        #: killed before finds out anew.
        self._crowded: dict[tuple[str, int], str] = {}
        self._standing = Standing(shelf)
        self._alone = Alone(lent or {})
        #: Of the rig that was lost last.
        self._lost: Array | None = None

    @property
    def _matrix(self) -> Matrix:
        return self._plan.selection.space.matrix

    async def run(self) -> None:
        """Run what is not yet recorded. May be stopped at any point, by cancelling it or by killing the process."""
        self._journal.remember(CellRow(cell.id, cell.name, cell.axes) for cell in self._plan.selection.cells())
        self._known = Known.of(self._journal)
        self._own_up_to_dead_hosts()
        self._own_up_to_what_was_spent()
        if self._steering:
            for trial in self._journal.trials():
                self._steering.add(trial)
        try:
            await self._blocks()
            await self._once_more_apart()
        finally:
            if isinstance(self._machine, Keeps):
                await self._machine.put_down()

    async def _blocks(self) -> None:
        """Every block in turn, for as long as something is wanted."""
        for block in self._steering.blocks if self._steering else self._plan.blocks:
            wanted = self._steered(block)
            if wanted is not None and (not wanted or self._spent(block)):
                break
            await self._turns.side_by_side(self._visits(block))

    async def _once_more_apart(self) -> None:
        """What the last rig did not take apart no other is going to. What stays for all that is told with its disks."""
        if self._lost and self._standing.anything_left:
            with suppress(HarnessBroken):
                async with self._machine.rig(rig_spec(self._matrix, self._lost, self._kernel), self._scratch) as rig:
                    await self._standing.take_apart_what_was_left(rig)

    def _spent(self, block: int) -> bool:
        """Whether the budget is enough for nothing of what is wanted; that is then left out."""
        wanted = sum(self._wanted(cell, block) for visit in self._plan.visits(block) for cell in visit.cells)
        if not wanted or self._bought(block) != set():
            return False
        self.left_out += wanted
        return True

    def _steered(self, block: int) -> Mapping[str, float] | None:
        """What is measured in a block for the sake of guidelines, once every cell has its minimum; else None."""
        if self._steering is None or block <= self._plan.repeat.min:
            return None
        return self._steering.wanted(block)

    def _visits(self, block: int) -> Iterator[Work]:
        """What is left of a block. What is still wanted is asked when its turn comes."""
        bought = self._bought(block)
        for visit in self._plan.visits(block):
            wanted = [cell for cell in visit.cells if self._wanted(cell, block)]
            cells = deque(cell for cell in wanted if bought is None or cell.id in bought)
            self.left_out += len(wanted) - len(cells)
            if cells:
                yield self._visit(visit, cells)

    def _own_up_to_what_was_spent(self) -> None:
        """What earlier processes of this run took of its budget."""
        if not self._spending.limited:
            return
        cells = {cell.id: cell for cell in self._plan.selection.cells()}
        arrays = {cell.array.key: cell.array for cell in cells.values()}
        for array, seconds in self._journal.visited_arrays():
            if array in arrays:
                self._spending.spend_on_array(arrays[array])
                self._spending.built(arrays[array], seconds)
        for trial in self._journal.trials():
            self._spending.add(trial, cells[trial.cell])

    def _bought(self, block: int) -> set[str] | None:
        """What a budget is spent on, once every cell has its minimum; None: on everything."""
        if not self._spending.limited or block <= self._plan.repeat.min:
            return None
        wanted = [cell for visit in self._plan.visits(block) for cell in visit.cells if self._wanted(cell, block)]
        weights = self._steered(block) or {}
        wishes = [
            Wish(cell.id, cell.array.key, self._weight(cell, weights), self._spending.of_cell(cell)) for cell in wanted
        ]
        set_ups = {cell.array.key: self._spending.of_array(cell.array) for cell in wanted}
        return bought(wishes, set_ups, self._spending.left)

    def _weight(self, cell: Cell, steered: Mapping[str, float]) -> float:
        """How much a further trial of a cell is worth."""
        return steered[cell.id] if steered else doubt(self._rates(cell), self._rule)

    def _may_build(self, array: Array, cells: deque[Cell], block: int) -> bool:
        """Whether the budget is enough for the array and one of its cells; those before it are left out."""
        set_up = self._spending.of_array(array)
        while cells and not self._spending.affords(set_up + self._spending.of_cell(cells[0])):
            self._leave_out(cells, block)
        if cells:
            self._spending.spend_on_array(array)
        return bool(cells)

    def _may_measure(self, cells: deque[Cell], block: int) -> bool:
        """Whether the budget is enough for one of these cells; those before it are left out."""
        while cells and not self._spending.affords(self._spending.of_cell(cells[0])):
            self._leave_out(cells, block)
        if cells:
            self._spending.spend_on_cell(cells[0])
        return bool(cells)

    def _leave_out(self, cells: deque[Cell], block: int) -> None:
        cells.popleft()
        self.left_out += 1
        self.short += block <= self._plan.repeat.min

    def _own_up_to_dead_hosts(self) -> None:
        """Trials that were under way when the host itself went down count as tries; a killed runner does not."""
        for begun in self._journal.begun():
            if begun.boot_id != self._boot_id:
                self._lose(begun.cell, begun.block, begun.started, RigLost("the host went down while it ran"))

    def _wanted(self, cell: Cell, block: int) -> bool:
        """Not measured yet, and not known well enough."""
        if (cell.id, block) in self._known.finished or self._given_up(cell, block):
            return False
        if cell.id in self._known.quarantined:
            self._record(
                cell, Trial(cell.id, block, Outcome.SKIPPED, f"quarantined: {self._known.quarantined[cell.id]}")
            )
            return False
        steered = self._steered(block)
        return not known(self._rates(cell), self._rule) if steered is None else cell.id in steered

    @property
    def _rule(self) -> Rule:
        repeat = self._plan.repeat
        return Rule(repeat.min, repeat.max, repeat.until, repeat.confidence)

    def _rates(self, cell: Cell) -> list[tuple[float, float]]:
        """What was measured of a cell, in the order of blocks."""
        return [rates for _, rates in sorted(self._known.rates[cell.id].items())]

    async def _visit(self, visit: Visit, cells: deque[Cell]) -> None:
        """Measure these cells on their array; with a fresh rig whenever one is lost, until none is left."""
        self._listen(VisitStarted(visit.block, visit.array.label, len(cells)))
        never_up: list[str] = []
        started = _now()
        while self._may_build(visit.array, cells, visit.block):
            try:
                await self._on_one_rig(visit.array, visit.block, cells)
                never_up.clear()  # where disks fail every trial has a rig of its own, and most may come up
            except _TrialLost:
                never_up.clear()
                self._left_behind(visit.array)
            except LostInSetUp as lost:
                never_up.clear()
                self._left_behind(visit.array)
                self._lose_all(cells, visit.block, started, lost)
                self._listen(RigWasLost(visit.array.label, lost.brief, "a fresh one comes up", visit.array.label))
            except RigLost as lost:
                self._left_behind(visit.array)
                never_up.append(f"no rig came up: {lost.brief}")
                if len(never_up) >= TRIES:
                    self._break_all(cells, visit.block, started, lost, *never_up)
                else:
                    label = visit.array.label
                    after = _after_loss(left=bool(cells), brings_disks=self._machine.brings_disks)
                    self._listen(RigWasLost(label, lost.brief, after, label))
            except SetUpFailed as failed:
                self._break_all(cells, visit.block, started, failed, failed.brief)
            except NotOnThisKernel as lacking:
                self._skip_all(cells, visit.block, lacking.brief)
        self._listen(VisitDone(visit.block, visit.array.label))

    def _left_behind(self, array: Array) -> None:
        self._standing.left_behind(array.key)
        self._lost = array

    async def _on_one_rig(self, array: Array, block: int, cells: deque[Cell]) -> None:
        async with AsyncExitStack() as stack:
            async with self._turns.together():
                clock = time.monotonic()
                spec = rig_spec(self._matrix, array, self._kernel)
                rig = await stack.enter_async_context(self._machine.rig(spec, self._scratch))
                keep = None
                if not self._machine.brings_disks:  # its own go with the rig that is lost
                    await self._standing.take_apart_what_was_left(rig)
                    keep = partial(self._standing.begins, array.key)
                built = await ArrayOnRig.build(self._matrix, array, rig, self._machine, self._own, keep)
                seconds = time.monotonic() - clock
                self._journal.visited(block, array.key, seconds)
                self._spending.built(array, seconds)
                self._listen(RigUp(array.label, seconds, rig.facts))
            try:
                async with self._alone.with_bare(built.stack):
                    while self._may_measure(cells, block):
                        await asyncio.sleep(0)  # where a machine answers at once, nothing else lets Ctrl-C in
                        await self.trial(built, cells, block)
                        if array.faults:
                            break  # its disks are not what they were: the next trial needs others
            except BaseException as error:
                with suppress(RigLost):  # what went wrong first is what counts, above all being told to stop
                    await self._take_apart(array, built)
                if isinstance(error, _TrialLost):
                    await self._goes_down(stack)
                raise
            await self._take_apart(array, built)
            await self._goes_down(stack)

    async def _goes_down(self, rig: AsyncExitStack) -> None:
        """That is work, which no trial beside it is to pay for."""
        async with self._turns.together():
            await rig.aclose()

    async def _take_apart(self, array: Array, built: ArrayOnRig) -> None:
        if not self._machine.disposable:
            await to_its_end(self._torn_down(array, built))

    async def _torn_down(self, array: Array, built: ArrayOnRig) -> None:
        async with self._turns.together():
            await built.tear_down()
            self._standing.taken_apart(array.key)

    async def trial(self, built: ArrayOnRig, cells: deque[Cell], block: int) -> None:
        """Measure the first of the cells; it leaves the queue with its trial recorded, or stays for another try."""
        cell = cells[0]
        async with self._turn_for(cell, block) as turn:
            attempt, started, clock = self._known.next(cell.id, block), _now(), time.monotonic()
            self._journal.begin(cell.id, block, attempt, self._boot_id, started)
            self._listen(TrialStarted(cell.name, block, cell.array.label))
            try:
                measured = await built.measure(cell, block)
            except asyncio.CancelledError:
                self._journal.withdraw(cell.id, block)
                raise
            except RigLost as lost:
                self._known.spent[cell.id, block] += time.monotonic() - clock
                self._lose(cell.id, block, started, lost)
                self._shelf.put(cell.name, block, built.scripts_of(cell), {})
                self._keep(cell, self._known.lost[cell.id, block][-1])
                self._listen(RigWasLost(cell.name, lost.brief, "a fresh one comes up", cell.array.label))
                if self._given_up(cell, block):
                    cells.popleft()
                raise _TrialLost from lost
            if not self._counts(cell, block, measured, turn):
                return
            folder = self._shelf.put(cell.name, block, measured.scripts, measured.outputs)
            company = self._company(cell, block, turn)
            self._record(cell, _trial_of(cell, block, attempt, measured, company, folder))
            cells.popleft()

    def _turn_for(self, cell: Cell, block: int) -> AbstractAsyncContextManager[Turn]:
        """A trial that was strained beside others, or lost its rig, is alone from then on."""
        if (cell.id, block) in self._crowded or self._known.against(cell.id, block):
            return self._turns.alone()
        return self._turns.together()

    def _counts(self, cell: Cell, block: int, measured: Measured, turn: Turn) -> bool:
        """Whether a trial may be recorded; one that was strained beside others is measured again."""
        strain = measured.notes.get("strained", "")
        if strain:
            self._turns.strained(turn)
        elif measured.finding.figures is not None:
            self._turns.kept_up(turn)
        if not strain or not turn.beside:
            return True
        self._crowded[cell.id, block] = f"alone; strained {strain} with {turn.beside} beside it"
        self._journal.withdraw(cell.id, block)
        self._listen(TrialStrained(cell.name, block, cell.array.label, strain, turn.beside))
        return False

    def _company(self, cell: Cell, block: int, turn: Turn) -> dict[str, str]:
        """What a trial notes of others: how many were at work during it, or why it was repeated without."""
        beside = {"beside": str(turn.beside)} if turn.beside else {}
        why = self._crowded.pop((cell.id, block), "")
        return {**beside, "repeated": why} if why else beside

    def _record(self, cell: Cell, trial: Trial) -> None:
        self._journal.record(trial)
        self._known.add(trial)
        self._spending.add(trial, cell)
        if self._steering:
            self._steering.add(trial)
        self._listen(TrialDone(cell.name, trial, cell.array.label))

    def _lose(self, cell: str, block: int, started: str, lost: RigLost) -> None:
        """Keep that a rig was lost under a trial."""
        attempt = Attempt(cell, block, self._known.next(cell, block), started, lost.brief, lost.tail)
        self._known.lose(attempt)
        self._journal.lost(attempt)

    def _lose_all(self, cells: deque[Cell], block: int, started: str, lost: RigLost) -> None:
        """Their array may be what takes rigs down, so that counts against each of them; who had enough is let go."""
        for cell in tuple(cells):
            self._lose(cell.id, block, started, lost)
            self._keep(cell, self._known.lost[cell.id, block][-1])
            if self._given_up(cell, block):
                cells.remove(cell)

    def _keep(self, cell: Cell, attempt: Attempt) -> str:
        """Put down what a lost rig said last; returns the trial's folder."""
        log = f"{attempt.reason}\n\n{attempt.tail}\n"
        return self._shelf.put(cell.name, attempt.block, {}, {f"lost-{attempt.number}.log": log})

    def _given_up(self, cell: Cell, block: int) -> bool:
        """Whether too many rigs died under a trial; it is then recorded as broken, and its cell quarantined."""
        tries = self._known.against(cell.id, block)
        if len(tries) < TRIES:
            return False
        self._record(
            cell,
            Trial(
                cell.id,
                block,
                Outcome.BROKEN,
                in_turn([attempt.reason for attempt in tries]),
                started=tries[0].started,
                seconds=self._known.spent[cell.id, block],
                attempts=tries[-1].number,
                folder=[self._keep(cell, attempt) for attempt in tries][-1],
            ),
        )
        return True

    def _break_all(self, cells: deque[Cell], block: int, started: str, failed: HarnessBroken, *reasons: str) -> None:
        """Record trials whose array never came up."""
        log = {"set-up.log": f"{failed.brief}\n\n{failed.details}\n"}
        while cells:
            cell = cells.popleft()
            folder = self._shelf.put(cell.name, block, {}, log)
            attempt = self._known.next(cell.id, block)
            reason = in_turn(reasons)
            self._record(
                cell,
                Trial(cell.id, block, Outcome.BROKEN, reason, started=started, attempts=attempt, folder=folder),
            )

    def _skip_all(self, cells: deque[Cell], block: int, reason: str) -> None:
        while cells:
            cell = cells.popleft()
            self._record(cell, Trial(cell.id, block, Outcome.SKIPPED, reason, started=_now()))


def _after_loss(*, left: bool, brings_disks: bool) -> str:
    """What becomes of an array whose rig was lost; `left`: cells of it are still to be measured."""
    if left:
        return "trying again on a fresh one"
    return f"it is measured, and {'its disks are gone with the rig' if brings_disks else 'taken apart on the next one'}"


def in_turn(reasons: Sequence[str]) -> str:
    """Why several attempts failed: each of their reasons in turn, or the one that they share."""
    if len(set(reasons)) == 1:
        return reasons[0]
    return "; ".join(f"{number}. {reason}" for number, reason in enumerate(reasons, start=1))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _trial_of(
    cell: Cell, block: int, attempt: int, measured: Measured, company: Mapping[str, str], folder: str
) -> Trial:
    found = measured.finding
    return Trial(
        cell=cell.id,
        block=block,
        outcome=found.outcome,
        reason=found.reason,
        started=measured.started,
        seconds=measured.seconds,
        attempts=attempt,
        figures=found.figures,
        readings=found.readings,
        notes={**measured.notes, **company},
        folder=folder,
    )
