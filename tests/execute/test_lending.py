"""Disks that exist, lent to a run: loop devices as stand-ins, and a run of a matrix on them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from runner.disks.real.claims import Ours
from runner.disks.real.hold import DisksRefused, held
from runner.disks.real.intent import NotAskedFor
from runner.disks.real.refusals import judged
from runner.disks.real.why import Why
from runner.disks.real.work import prepare
from runner.execute.lending import Loan, WornOut, lent
from runner.execute.run import Execution
from runner.expand.select import select
from runner.machines.dry import Dry
from runner.machines.local import Local
from runner.machines.seam import Wishes
from runner.plan.order import Plan
from runner.store.journal import Journal
from runner.store.lab import Handed, hand, handed, ledger
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


def loan(disks: Bay, folder: Path, *destroy: str, run: str = "night-1") -> Loan:
    return Loan((disks.claim, disks.beside), "small", run, folder, destroy, ())


def enter(disks: Bay, asked: Loan, tmp_path: Path, said: list[str]) -> tuple[str, ...]:
    with lent(asked, disks.ask, tmp_path / "state", said.append, disks.locks) as nodes:
        return tuple(node.path for node in nodes)


def refused(disks: Bay, asked: Loan, tmp_path: Path) -> set[Why]:
    with pytest.raises(DisksRefused) as error:
        enter(disks, asked, tmp_path, [])
    return {one.why for one in error.value.refusals}


def test_nothing_is_written_unless_the_end_of_every_disk_was_asked_for(disks: Bay, tmp_path: Path) -> None:
    before = disks.digest()
    with pytest.raises(NotAskedFor, match="1 of 2 disks"):
        enter(disks, loan(disks, tmp_path, "disk-a"), tmp_path, [])
    assert disks.digest() == before
    assert not handed(tmp_path / "state")


def test_disks_are_the_run_s_own_while_it_has_them_and_free_after_it(disks: Bay, tmp_path: Path) -> None:
    said: list[str] = []
    asked = loan(disks, tmp_path, "disk-a", "disk-b")
    with lent(asked, disks.ask, tmp_path / "state", said.append, disks.locks) as nodes:
        assert [node.path for node in nodes] == [disks.disk, disks.other]
        assert {one.run for one in handed(tmp_path / "state")} == {"night-1"}
        assert Why.LEFT_OVER in refused(disks, replace(asked, run="night-2"), tmp_path)
        disks.bash('dd if=/dev/urandom of="$DISK" bs=1M count=8 oflag=direct status=none')
    assert len(said) == 1
    assert said[0].startswith("Everything on these disks will be destroyed:")
    assert not handed(tmp_path / "state")
    assert judged(disks.ask(), disks.claim).usable
    (night,) = (one for one in ledger(tmp_path / "state").nights if one.disk == str(disks.file))
    assert night.written >= 8 << 20


def test_a_disk_on_which_something_is_left_stays_with_its_run(disks: Bay, tmp_path: Path) -> None:
    said: list[str] = []
    asked = loan(disks, tmp_path, "disk-a", "disk-b")
    with lent(asked, disks.ask, tmp_path / "state", said.append, disks.locks):
        disks.bash('mkfs.ext4 -q -F "$DISK"')
    assert "disk-a stays with this run" in said[-1]
    assert "ext4" in said[-1]
    assert [one.disk for one in handed(tmp_path / "state")] == ["disk-a"]


def test_what_a_killed_process_of_the_same_run_left_is_taken_away_first(disks: Bay, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "standing").mkdir(parents=True)
    (folder / "standing/one.sh").write_text(f"# disk-a\nwipefs -qa {disks.disk}\n")
    record = Handed(
        disk="disk-a", identity=str(disks.file), size=disks.claim.size, run="night-1", folder=str(folder), since="2026"
    )
    with held([disks.claim], disks.ask, ours=Ours(run="night-1"), locks=disks.locks) as (have,):
        hand(tmp_path / "state", record)
        prepare(have, "night-1")
    disks.bash('mkfs.ext4 -q -F "$DISK"')
    said: list[str] = []
    asked = loan(disks, folder, "disk-a", "disk-b")
    assert Why.FILE_SYSTEM in refused(disks, replace(asked, run="night-2"), tmp_path)
    enter(disks, asked, tmp_path, said)
    assert said[0] == "disk-a: what an earlier process of this run left on it is gone"


def test_a_disk_that_would_be_written_too_much_is_not_lent(disks: Bay, tmp_path: Path) -> None:
    asked = loan(disks, tmp_path, "disk-a", "disk-b")
    claims = (replace(disks.claim, wear=1 << 20), disks.beside)
    before = disks.digest()
    with pytest.raises(WornOut, match="allowed in one night"):
        enter(disks, replace(asked, claims=claims, ahead=2 << 20), tmp_path, [])
    assert disks.digest() == before


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
    asked = loan(disks, tmp_path, "disk-a", "disk-b")
    with lent(asked, disks.ask, tmp_path / "state", said.append, disks.locks) as nodes:
        here = carried_out(Local(Wishes(disks=tuple(node.path for node in nodes))), tmp_path / "results")
    dry = carried_out(Dry(), tmp_path / "dry")
    assert {trial.cell for trial in here} == {trial.cell for trial in dry}
    assert {(trial.outcome, trial.reason) for trial in here} == {(Outcome.MEASURED, "")}
    assert len(said) == 1
    assert judged(disks.ask(), disks.claim).usable
