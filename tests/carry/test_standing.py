"""Disks that outlive their rig: what stood on them when it was lost is taken apart before anything else is built."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.carry.events import RigWasLost
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.base import RigLost, RigSpec, Step, StepResult
from matrix_runner.machines.dry import plausible
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.files import STANDING
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.records.run_folder import create
from matrix_runner.space.select import select
from tests.records.past import manifest
from tests.support.dry import Dry, DryRig
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from matrix_runner.carry.events import Event, Listener
    from matrix_runner.records.record import Trial

MATRIX = """\
name: standing
disks: {count: 2, size: 1GiB}
layouts:
  mirror: [md: {level: 1}]
  plain: [disk]
workloads: {work: {rw: randread, bs: 4KiB, runtime: 1s}}
repeat: 1
"""


class Lasting(Dry):
    """Virtual machines with disks that stay; the first rig dies in its first trial, and does not come back for a tear-down."""

    disposable: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False

    def __init__(self, *, stays: bool = False, gone: int = 0) -> None:
        super().__init__(self.answered)
        self.stays, self.gone = stays, gone

    def answered(self, step: Step) -> StepResult:
        if len(self.rigs) == 1 and step.name in {"measure", "tear-down"}:
            raise RigLost("it died")
        if self.stays and step.name == "tear-down" and len(self.rigs) == 2:
            return StepResult(step.name, 1, "matrix: still there after tearing down: md0", 0.0)
        return plausible(step)

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
        async with super().rig(spec, scratch) as rig:
            if len(self.rigs) == self.gone:
                raise HarnessBroken("there is nothing that it could come up on")
            yield rig


def carried_out(
    machine: Dry, folder: Path, matrix: str = MATRIX, listen: Listener = lambda _: None
) -> tuple[Sequence[Trial], list[list[str]], list[str]]:
    found = space(matrix)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    run = create(folder, manifest())
    with Journal.open(run.journal) as journal:
        asyncio.run(executor(plan, machine, journal, CellFolders(run.path), run.path, listen, boot_id="x").run())
        standing = [path.name for path in (run.path / STANDING).glob("*")]
        return list(journal.trials()), [[step.name for step in rig.steps] for rig in machine.rigs], standing


def test_a_lost_array_is_started_again_and_taken_apart_on_the_next_rig(tmp_path: Path) -> None:
    trials, told, standing = carried_out(Lasting(), tmp_path)
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert told[0] == ["set-up", "tune", "verify", "measure", "tear-down"]
    assert told[1][:3] == ["activate", "tear-down", "set-up"]
    assert told[2][0] == "set-up"
    assert standing == []


def test_a_failed_tear_down_is_repeated_and_reported_by_the_next_set_up(tmp_path: Path) -> None:
    machine = Lasting(stays=True)
    _, told, standing = carried_out(machine, tmp_path)
    assert told[1][:3] == ["activate", "tear-down", "set-up"]
    assert told[2][:2] == ["activate", "tear-down"]
    assert standing == []


ALONE = MATRIX.replace("  plain: [disk]\n", "")


def test_after_the_last_rig_one_more_rig_tries_the_tear_down(tmp_path: Path) -> None:
    heard: list[Event] = []
    _, told, standing = carried_out(Lasting(stays=True), tmp_path, ALONE, heard.append)
    assert told[2] == ["activate", "tear-down"]
    assert len(told) == 3
    assert standing == []
    (lost,) = (event for event in heard if isinstance(event, RigWasLost) and "still there" in event.reason)
    assert lost.next == "its cells are measured; the next rig takes the stack apart"


def test_a_stack_that_cannot_be_kept_is_torn_down(tmp_path: Path) -> None:
    trials, _, standing = carried_out(Lasting(stays=True, gone=3), tmp_path, ALONE)
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert len(standing) == 1


class Kept(Lasting):
    """It is kept from array to array, and its disks with it; when it dies both are gone."""

    brings_disks: ClassVar[bool] = True


def test_disks_that_go_with_the_rig_need_no_tear_down(tmp_path: Path) -> None:
    heard: list[Event] = []
    trials, told, standing = carried_out(Kept(stays=True), tmp_path, listen=heard.append)
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert "activate" not in {step for steps in told for step in steps}
    assert all(steps[0] == "set-up" and steps[-1] == "tear-down" for steps in told)
    assert standing == []
    (lost,) = (event for event in heard if isinstance(event, RigWasLost) and "still there" in event.reason)
    assert lost.next == "its cells are measured; its disks are gone too"


def test_disposable_rigs_need_no_tear_down(tmp_path: Path) -> None:
    _, told, _ = carried_out(Dry(), tmp_path)
    assert not any("tear-down" in steps or "activate" in steps for steps in told)


class Told(Lasting):
    """Told to stop, once or more, as soon as a tear-down has begun; what it does takes its time."""

    def __init__(self, times: int, *, fails: bool = False) -> None:
        super().__init__()
        self.times, self.fails, self.ended = times, fails, 0

    def answered(self, step: Step) -> StepResult:
        if self.fails and step.name == "tear-down":
            raise RigLost("it died")
        return plausible(step)

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[DryRig]:
        async with Dry.rig(self, spec, scratch):
            yield Lingering(spec, self.answered, self)


class Lingering(DryRig):
    def __init__(self, spec: RigSpec, answer: Callable[[Step], StepResult], machine: Told) -> None:
        super().__init__(spec, answer)
        self.machine = machine

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        if steps[0].name != "tear-down":
            return await super().run(steps, expected=expected, deadline=deadline)
        task = next(one for one in asyncio.all_tasks() if one.get_name() == "whole")
        for _ in range(self.machine.times):
            task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        results = await super().run(steps, expected=expected, deadline=deadline)
        self.machine.ended += 1
        return results


def stopped(machine: Told, folder: Path) -> tuple[int, list[str]]:
    """How many trials are recorded then, and what is still said to stand."""
    found = space(MATRIX)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    run = create(folder, manifest())

    async def whole() -> None:
        with Journal.open(run.journal) as journal:
            work = executor(plan, machine, journal, CellFolders(run.path), run.path, lambda _: None, boot_id="x").run()
            await asyncio.create_task(work, name="whole")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(whole())
    with Journal.open(run.journal) as journal:
        return len(list(journal.trials())), [path.name for path in (run.path / STANDING).glob("*")]


def test_a_stop_during_the_tear_down_finishes_it(tmp_path: Path) -> None:
    machine = Told(1)
    assert stopped(machine, tmp_path) == (1, [])
    assert machine.ended == 1


def test_a_second_stop_ends_at_once_and_names_the_remaining_stack(tmp_path: Path) -> None:
    machine = Told(2)
    trials, standing = stopped(machine, tmp_path)
    assert (trials, len(standing), machine.ended) == (1, 1, 0)


def test_a_lost_rig_does_not_hide_the_stop_request(tmp_path: Path) -> None:
    trials, standing = stopped(Told(1, fails=True), tmp_path)
    assert (trials, len(standing)) == (1, 1)
