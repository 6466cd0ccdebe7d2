"""The loop that carries a plan out: visit by visit, trial by trial, each on disk before the next begins."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from runner.execute.events import RigUp, RigWasLost, TrialDone, TrialStarted, VisitStarted
from runner.execute.trials import ArrayOnRig, Measured, NotOnThisKernel, SetUpFailed
from runner.machines.seam import RigLost, RigSpec
from runner.stats.precision import known_to
from runner.store.record import Attempt, CellRow, Outcome, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.execute.events import Listener
    from runner.expand.space import Array, Cell
    from runner.machines.seam import Machine
    from runner.model.matrix import Matrix
    from runner.plan.order import Plan, Visit
    from runner.store.journal import Journal

#: So many rigs may die under one trial before its cell is left alone.
TRIES = 2


class Shelf(Protocol):
    """Where the scripts and raw outputs of trials are put."""

    def put(self, cell: str, block: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Write them; returns the trial's folder, relative to the run."""


@dataclass
class Known:
    """What the journal already says, kept beside it while the run goes on."""

    finished: set[tuple[str, int]] = field(default_factory=set)
    lost: Counter[tuple[str, int]] = field(default_factory=Counter)
    reasons: dict[tuple[str, int], str] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)
    rates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, journal: Journal) -> Known:
        """As far as an earlier process got."""
        known = cls()
        for attempt in journal.attempts():
            known.lost[attempt.cell, attempt.block] += 1
            known.reasons[attempt.cell, attempt.block] = attempt.reason
        for trial in journal.trials():
            known.add(trial)
        return known

    def add(self, trial: Trial) -> None:
        """One more trial is recorded."""
        self.finished.add((trial.cell, trial.block))
        if trial.outcome is Outcome.BROKEN and self.lost[trial.cell, trial.block] >= TRIES:
            self.quarantined[trial.cell] = trial.reason
        if trial.figures is not None:
            read, write = trial.figures.read, trial.figures.write
            self.rates.setdefault(trial.cell, []).append((read.bw if read else 0.0, write.bw if write else 0.0))


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
    ) -> None:
        self._plan, self._machine, self._journal, self._shelf = plan, machine, journal, shelf
        self._scratch, self._listen, self._boot_id = scratch, listen, boot_id
        self._own, self._kernel = own_templates, kernel
        self._known = Known()

    @property
    def _matrix(self) -> Matrix:
        return self._plan.selection.space.matrix

    async def run(self) -> None:
        """Run what is not yet recorded. May be stopped at any point, by cancelling it or by killing the process."""
        self._journal.remember(CellRow(cell.id, cell.name, cell.axes) for cell in self._plan.selection.cells())
        self._known = Known.of(self._journal)
        self._own_up_to_dead_hosts()
        for block in self._plan.blocks:
            for visit in self._plan.visits(block):
                cells = deque(cell for cell in visit.cells if self._wanted(cell, block))
                if cells:
                    await self._visit(visit, cells)

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
        repeat = self._plan.repeat
        if block <= repeat.min or repeat.until is None:
            return True
        return not known_to(self._known.rates.get(cell.id, []), repeat.until, repeat.confidence)

    async def _visit(self, visit: Visit, cells: deque[Cell]) -> None:
        """Measure these cells on their array; with a fresh rig whenever one is lost, until none is left."""
        self._listen(VisitStarted(visit.block, visit.array.label, len(cells)))
        never_up = 0
        while cells:
            try:
                await self._on_one_rig(visit.array, visit.block, cells)
            except _TrialLost:
                never_up = 0
            except RigLost as lost:
                never_up += 1
                if never_up >= TRIES:
                    self._end_all(cells, visit.block, Outcome.BROKEN, f"no rig came up: {lost.brief}")
                else:
                    self._listen(RigWasLost(visit.array.label, lost.brief, "trying again on a fresh one"))
            except SetUpFailed as failed:
                self._end_all(cells, visit.block, Outcome.BROKEN, failed.brief)
            except NotOnThisKernel as lacking:
                self._end_all(cells, visit.block, Outcome.SKIPPED, lacking.brief)

    async def _on_one_rig(self, array: Array, block: int, cells: deque[Cell]) -> None:
        clock = time.monotonic()
        async with self._machine.rig(rig_spec(self._matrix, array, self._kernel), self._scratch) as rig:
            built = await ArrayOnRig.build(self._matrix, array, rig, self._machine, self._own)
            seconds = time.monotonic() - clock
            self._journal.visited(block, array.key, seconds)
            self._listen(RigUp(array.label, seconds, rig.facts))
            try:
                while cells:
                    await self.trial(built, cells, block)
            except BaseException:
                with suppress(RigLost):  # what went wrong first is what counts, above all being told to stop
                    await self._take_apart(built)
                raise
            await self._take_apart(built)

    async def _take_apart(self, built: ArrayOnRig) -> None:
        if not self._machine.disposable:
            await asyncio.shield(built.tear_down())

    async def trial(self, built: ArrayOnRig, cells: deque[Cell], block: int) -> None:
        """Measure the first of the cells; it leaves the queue with its trial recorded."""
        cell = cells[0]
        attempt, started = self._known.lost[cell.id, block] + 1, _now()
        self._journal.begin(cell.id, block, attempt, self._boot_id, started)
        self._listen(TrialStarted(cell.name, block))
        try:
            measured = await built.measure(cell, block)
        except asyncio.CancelledError:
            self._journal.withdraw(cell.id, block)
            raise
        except RigLost as lost:
            self._lose(cell.id, block, started, lost)
            self._shelf.put(cell.name, block, {}, {f"lost-{attempt}.log": f"{lost.brief}\n\n{lost.tail}\n"})
            self._listen(RigWasLost(cell.name, lost.brief, "a fresh one comes up"))
            if self._given_up(cell, block):
                cells.popleft()
            raise _TrialLost from lost
        folder = self._shelf.put(cell.name, block, measured.scripts, measured.outputs)
        self._record(cell, _trial_of(cell, block, attempt, measured, folder))
        cells.popleft()

    def _record(self, cell: Cell, trial: Trial) -> None:
        self._journal.record(trial)
        self._known.add(trial)
        self._listen(TrialDone(cell.name, trial))

    def _lose(self, cell: str, block: int, started: str, lost: RigLost) -> None:
        """Keep that a rig was lost under a trial."""
        self._known.lost[cell, block] += 1
        self._known.reasons[cell, block] = lost.brief
        self._journal.lost(Attempt(cell, block, self._known.lost[cell, block], started, lost.brief, lost.tail))

    def _given_up(self, cell: Cell, block: int) -> bool:
        """Whether too many rigs died under a trial; it is then recorded as broken, and its cell quarantined."""
        tries = self._known.lost[cell.id, block]
        if tries < TRIES:
            return False
        reason = self._known.reasons[cell.id, block]
        self._record(cell, Trial(cell.id, block, Outcome.BROKEN, reason, started=_now(), attempts=tries))
        return True

    def _end_all(self, cells: deque[Cell], block: int, outcome: Outcome, reason: str) -> None:
        while cells:
            cell = cells.popleft()
            self._record(cell, Trial(cell.id, block, outcome, reason, started=_now()))


def rig_spec(matrix: Matrix, array: Array, kernel: str | None) -> RigSpec:
    """The rig that an array needs; `kernel`: the one asked for on the command line."""
    wish = matrix.machine
    modules = tuple(sorted({name for layer in array.stack.value for name in layer.modules}))
    return RigSpec(matrix.disks.each(), kernel or array.kernel, wish.cpus, wish.memory, modules)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _trial_of(cell: Cell, block: int, attempt: int, measured: Measured, folder: str) -> Trial:
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
        notes=measured.notes,
        folder=folder,
    )
