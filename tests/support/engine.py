"""An engine at work: a machine that can be told to fail, a shelf for outputs, and kills."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from matrix_runner.carry.events import Event, Listener
from matrix_runner.carry.executor import ONE, LocalRun
from matrix_runner.decide.concurrency import Level
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.base import RigLost, Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.space.select import select
from tests.support.dry import Dry
from tests.support.execution import executor
from tests.support.matrices import SMALL, space


class Shelf:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], dict[str, str]] = {}
        self.standing: dict[str, str] = {}

    def keep_tear_down(self, array: str, tear_down: str) -> None:
        self.standing[array] = tear_down

    def forget_tear_down(self, array: str) -> None:
        del self.standing[array]

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        self.kept.setdefault((cell, round_number), {}).update({**scripts, **outputs})
        return f"cells/{cell}/trial-{round_number}"


class Recorded(Dry):
    """Its trials take time, so that the journal records their start."""


class Bench:
    """One run folder's worth of state, and any number of processes one after the other."""

    def __init__(self, folder: Path, text: str = SMALL) -> None:
        found = space(text)
        self.plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
        self.journal = Journal.open(folder / "journal.sqlite")
        self.shelf, self.folder = Shelf(), folder
        self.events: list[Event] = []
        self.machine: Dry = Recorded()

    def run(
        self,
        answer: Callable[[Step], StepResult] | None = None,
        boot_id: str = "one",
        machine: Dry | None = None,
        level: Level = ONE,
    ) -> None:
        self.machine = machine or Recorded(answer)
        asyncio.run(self.execution(self.events.append, boot_id, level).run())

    def execution(self, listen: Listener, boot_id: str = "one", level: Level = ONE) -> LocalRun:
        return executor(
            self.plan, self.machine, self.journal, self.shelf, self.folder, listen, boot_id=boot_id, level=level
        )

    @property
    def trials(self) -> list[Trial]:
        return list(self.journal.trials())

    def planned(self) -> set[tuple[str, int]]:
        return {(cell.id, round_number) for round_number in self.plan.rounds for cell in self.plan.selection.cells()}

    def outcomes(self) -> Counter[Outcome]:
        return Counter(trial.outcome for trial in self.trials)


class Dying:
    """Loses the rig at the measurements of chosen jobs, so many times each."""

    def __init__(self, times: int, wanted: Callable[[str], bool]) -> None:
        self.times, self.wanted = times, wanted
        self.died: Counter[str] = Counter()

    def __call__(self, step: Step) -> StepResult:
        job = step.files.get("job.fio", "")
        if step.name == "measure" and self.wanted(job) and self.died[job] < self.times:
            self.died[job] += 1
            raise RigLost("the guest kernel panicked", tail="BUG: unable to handle page fault")
        return plausible(step)


class Killed(BaseException):
    """Stands for kill -9: nothing catches it, nothing is cleaned up by the loop."""


def killed_at(answer: Callable[[Step], StepResult], step: int) -> Callable[[Step], StepResult]:
    left = iter(range(step))

    def mortal(one: Step) -> StepResult:
        if next(left, None) is None:
            raise Killed
        return answer(one)

    return mortal


FAULTY = SMALL.replace("size: 64MiB", "size: 64MiB, model: st3320620as") + (
    "faults: {none: [], dies: [{disk: 2, at: 500ms, kind: dies}]}\n"
)


class Clock:
    """Goes on by a second with every measurement."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def answer(self, step: Step) -> StepResult:
        if step.name == "measure":
            self.now += 1
        return plausible(step)


def by_cell(bench: Bench) -> Counter[str]:
    return Counter(trial.cell for trial in bench.journal.trials())
