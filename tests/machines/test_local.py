"""A matrix on this very host, with loop devices as stand-ins for its disks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from runner.disks.real.refusals import judged
from runner.execute.lending import Loan, lent
from runner.execute.run import Execution
from runner.expand.select import select
from runner.machines.dry import Dry
from runner.machines.local import Local
from runner.machines.seam import Wishes
from runner.plan.order import Plan
from runner.store.journal import Journal
from runner.store.record import Outcome
from runner.store.run import create
from tests.disks.loops import Bay, bay, why_not
from tests.matrices import space
from tests.store.past import manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.machines.seam import Machine
    from runner.store.record import Trial

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


SMALL = """\
name: small
disks: {count: 2, size: 64MiB}
layouts:
  raw: [disk]
  fs: [disk, fs: {type: ext4}]
workloads:
  work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""


def carried_out(machine: Machine, folder: Path) -> list[Trial]:
    found = space(SMALL)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    run = create(folder, manifest())
    with Journal.open(run.journal) as journal:
        asyncio.run(Execution(plan, machine, journal, run, run.path, lambda _: None, boot_id="x").run())
        assert not list((run.path / "standing").glob("*")) if machine.name == "local" else True
        return list(journal.trials())


def test_the_same_cells_are_measured_on_this_host_as_anywhere(disks: Bay, tmp_path: Path) -> None:
    said: list[str] = []
    asked = Loan("night-1", "small", tmp_path, tmp_path / "state", frozenset({"disk-a", "disk-b"}), locks=disks.locks)
    with lent([disks.claim, disks.beside], disks.ask, asked, lambda: datetime.now(UTC), said.append) as held:
        for one in held:
            one.let_go()
        here = carried_out(Local(Wishes(disks=tuple(one.node.path for one in held))), tmp_path / "results")
    dry = carried_out(Dry(), tmp_path / "dry")
    assert {trial.cell for trial in here} == {trial.cell for trial in dry}
    assert {(trial.outcome, trial.reason) for trial in here} == {(Outcome.MEASURED, "")}
    assert len(said) == 1
    assert judged(disks.ask(), disks.claim).usable
