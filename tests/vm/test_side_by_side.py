"""Several real machines at work at a time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from matrix_runner.carry.events import BatchDone, BatchStarted, Event, TrialDone, TrialHostLimited
from matrix_runner.decide.concurrency import Level
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.space.select import select
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

#: Every day, `tests/carry/test_side_by_side.py` does this with machines in memory.
pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

VOLUMES = """\
name: volumes
disks: {count: 2, size: 128MiB, model: {kind: volume, iops: 80}}
layouts: {striped: [md: {level: 0, chunk: [16KiB, 64KiB, 256KiB, 1MiB]}]}
workloads: {mixed: {rw: [randread, randrw], bs: 4KiB, iodepth: 4, runtime: 2s}}
repeat: 1
"""


def children() -> set[str]:
    """What we have started and not yet put down."""
    pid = os.getpid()
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_four_rigs_record_every_trial_once_also_when_they_are_stopped_between(tmp_path: Path) -> None:
    found = space(VOLUMES)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    before = children()
    events: list[Event] = []

    async def run(journal: Journal, *, stop_after: int) -> None:
        task = asyncio.current_task()
        assert task is not None

        def listen(event: Event) -> None:
            events.append(event)
            if isinstance(event, TrialDone) and sum(isinstance(one, TrialDone) for one in events) == stop_after:
                task.cancel()

        shelf, level = Shelf(), Level.of(4)
        await executor(plan, Qemu(), journal, shelf, tmp_path, listen, boot_id="one", level=level).run()

    with Journal.open(tmp_path / "journal.sqlite") as journal:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(run(journal, stop_after=3))
        assert children() <= before
        assert not journal.unended_attempts()
        assert 3 <= len(list(journal.trials())) < 8
        asyncio.run(run(journal, stop_after=-1))
        trials = list(journal.trials())
    assert children() <= before
    planned = sorted((cell.id, 1) for cell in plan.selection.cells())
    assert sorted((trial.cell, trial.round) for trial in trials) == planned
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    batches = [type(event) for event in events if isinstance(event, BatchStarted | BatchDone)]
    assert batches[:4] == [BatchStarted] * 4
    again = {(event.name, event.round) for event in events if isinstance(event, TrialHostLimited)}
    assert {
        (event.name, 1) for event in events if isinstance(event, TrialDone) and "repeated" in event.trial.notes
    } <= again
    assert all(trial.notes.get("beside") is None for trial in trials if "host_limited" in trial.notes)
