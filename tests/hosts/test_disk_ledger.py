"""A night's budget of bytes: asked before a trial, watched during it, and counted whoever is killed."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.decide.budget import Spending
from matrix_runner.decide.plan import Plan
from matrix_runner.hosts.agent.agent import count_sectors_written
from matrix_runner.hosts.disk_ledger import (
    POLLS_PER_SAVE,
    LeaseRecord,
    WriteBudget,
    add_written,
    count_written,
    lease_records,
    read_ledger,
    read_write_counters,
    run_within_budget,
    write_record,
)
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.inventory import Node
from matrix_runner.hosts.operations import LOCAL, Descriptor
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.records.cell_files import CellFolders
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import create, load
from matrix_runner.space.select import select
from tests.records.past import manifest
from tests.support.dry import Dry
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from matrix_runner.records.record import Outcome

NIGHT = date(2026, 1, 31)
NOW = datetime(2026, 2, 1, 3, tzinfo=UTC)
MIB = 1 << 20


def record(disk: str = "d", *, boot: str = "b", written: int = 0) -> LeaseRecord:
    return LeaseRecord(disk=disk, identity=disk, size=1, run="r", folder="", since="", written=written, boot=boot)


class Disk:
    """One that counts what it is told that was written."""

    def __init__(self, state: Path, wear: int | None) -> None:
        self.state, self.counter, self.boot = state, 1000, "b"
        write_record(state, record(written=1000))
        #: The line to its host is down.
        self.hidden_processes = False
        self.write_budget = WriteBudget(
            "r", state, {"d": DeclaredDisk("disk-a", 1, wear=wear)}, self.read, lambda: NOW, "b"
        )

    def read(self) -> dict[str, int]:
        return {} if self.hidden_processes else {"d": self.counter}


def test_counted_writes_go_to_the_ledger_once(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 500)
    assert disk.write_budget.remaining() == {"d": 500}
    disk.counter += 200
    assert disk.write_budget.remaining() == {"d": 300}
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 0
    disk.write_budget.save()
    disk.write_budget.save()
    assert disk.write_budget.remaining() == {"d": 300}
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 200
    (kept,) = lease_records(tmp_path)
    assert kept.written == 1200


def test_writes_of_a_killed_run_are_counted(tmp_path: Path) -> None:
    write_record(tmp_path, record(written=1000))
    for _ in range(2):
        count_written(tmp_path, "r", {"d": 1700}, "b", NIGHT)
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 700
    count_written(tmp_path, "another", {"d": 9000}, "b", NIGHT)
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 700


def test_after_a_reboot_counters_begin_anew_and_what_they_say_is_not_the_runs(tmp_path: Path) -> None:
    write_record(tmp_path, record(written=1000))
    count_written(tmp_path, "r", {"d": 50}, "another boot", NIGHT)
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 0
    count_written(tmp_path, "r", {"d": 80}, "another boot", NIGHT)
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 30


def test_a_disk_has_one_budget_however_its_host_is_called(tmp_path: Path) -> None:
    """Two names for ssh of one host, or `local` and one: what wears is the disk."""
    for reach in ("ssh:shelf", "ssh:root@10.0.0.7", "local"):
        write_record(tmp_path, record(written=1000).model_copy(update={"run": reach, "reach": reach}))
        count_written(tmp_path, reach, {"d": 1100}, "b", NIGHT)
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 300
    assert len(lease_records(tmp_path)) == 3
    write_budget = WriteBudget("r", tmp_path, {"d": DeclaredDisk("disk-a", 1, wear=500)}, dict, lambda: NOW, "b")
    assert write_budget.remaining() == {"d": 200}


def test_a_disk_without_a_limit_is_counted_and_never_full(tmp_path: Path) -> None:
    disk = Disk(tmp_path, None)
    disk.counter += 10**15
    assert disk.write_budget.can_afford(10**15)
    assert not any(disk.write_budget.check_counters() for _ in range(POLLS_PER_SAVE))
    assert read_ledger(tmp_path).written_in("d", NIGHT) == 10**15


def test_a_trial_must_fit_the_write_budget(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 500)
    assert disk.write_budget.can_afford(500)
    assert not disk.write_budget.can_afford(501)
    assert disk.write_budget.stop_reason.startswith(
        "stopped for tonight, to limit the wear of disk-a: 500 bytes are left"
    )
    assert disk.write_budget.can_afford(0)


def test_reads_and_left_out_trials_do_not_stop_a_run(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 500)
    assert not disk.write_budget.can_afford(501)
    assert not disk.write_budget.check_counters()
    disk.counter += 500
    assert disk.write_budget.check_counters()
    assert not disk.write_budget.check_counters()
    assert disk.write_budget.remaining() == {"d": 0}


def test_write_amplification_is_learnt_from_the_counters(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1000)
    disk.write_budget.begin_trial()
    disk.counter += 300
    disk.write_budget.end_trial(100)
    assert disk.write_budget.amplification == 3
    assert not disk.write_budget.can_afford(234)  # of 700 that are left
    assert disk.write_budget.can_afford(233)
    disk.write_budget.begin_trial()
    disk.write_budget.end_trial(100)
    assert disk.write_budget.amplification == 3


@given(st.lists(st.integers(0, 120), max_size=30))
def test_watched_at_a_steady_rate_no_disk_gets_more_than_it_may(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int]
) -> None:
    """Work that never writes faster than it did in the look before is stopped in time."""
    disk = Disk(tmp_path_factory.mktemp("state"), 1000)
    disk.write_budget.check_counters()
    fastest = 0
    for step in sorted(steps, reverse=True):
        fastest = max(fastest, step)
        disk.counter += step
        if disk.write_budget.check_counters():
            break
    assert disk.counter - 1000 <= 1000
    assert disk.write_budget.stop_reason or sum(steps) <= 1000


def test_unseen_writes_beyond_the_budget_end_the_run(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 500)
    assert not disk.write_budget.check_counters()
    disk.hidden_processes = True
    disk.counter += 600
    assert not any(disk.write_budget.check_counters() for _ in range(10))
    disk.hidden_processes = False
    assert disk.write_budget.check_counters()
    assert "no bytes are left, of 500 a night" in disk.write_budget.stop_reason


def test_unseen_writes_within_the_budget_count_at_their_rate(tmp_path: Path) -> None:
    """Not as if all of it had been written since the last look."""
    disk = Disk(tmp_path, 1000)
    assert not disk.write_budget.check_counters()
    disk.hidden_processes = True
    for _ in range(9):
        assert not disk.write_budget.check_counters()
    disk.counter += 600
    disk.hidden_processes = False
    assert not disk.write_budget.check_counters()
    disk.counter += 350
    assert disk.write_budget.check_counters()
    assert "50 bytes are left, less than 2 s of writing" in disk.write_budget.stop_reason


async def test_the_agent_is_given_the_rest_of_the_write_budget(tmp_path: Path) -> None:
    """Said once, and again when it was not heard or is another; and that it is over before anything is taken apart."""
    disk, said = Disk(tmp_path, 500), list[dict[str, int]]()

    def bound(most: Mapping[str, int]) -> bool:
        said.append(dict(most))
        return len(said) > 1

    disk.write_budget.limit = bound
    for written in (0, 50, 100):
        disk.counter += written
        assert not disk.write_budget.check_counters()
    assert said == [{"d": 1500}] * 2
    disk.write_budget.save()
    assert not disk.write_budget.check_counters()
    assert len(said) == 2, "what was counted changes nothing"
    add_written(tmp_path, [("d", 50)], NIGHT)
    assert not disk.write_budget.check_counters()
    assert said[2:] == [{"d": 1450}]

    async def work() -> None:
        disk.counter += 1000
        try:
            await asyncio.Event().wait()
        finally:
            taken_apart.append(said[-1])

    taken_apart = list[dict[str, int]]()
    await run_within_budget(work(), disk.write_budget, look=0)
    assert disk.write_budget.stop_reason
    assert taken_apart == [{}]


async def test_a_used_up_write_budget_cancels_the_work(tmp_path: Path) -> None:
    disk, told = Disk(tmp_path, 500), deque[str]()

    async def work() -> None:
        try:
            while True:
                disk.counter += 100
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            told.append("taken apart")
            raise

    await run_within_budget(work(), disk.write_budget, look=0)
    assert list(told) == ["taken apart"]
    assert disk.write_budget.stop_reason


async def test_writes_before_the_first_check_count(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 500)

    async def work() -> None:
        disk.counter += 600
        await asyncio.Event().wait()

    await run_within_budget(work(), disk.write_budget, look=0)
    assert "no bytes are left" in disk.write_budget.stop_reason


async def test_work_that_fits_is_left_alone_and_its_errors_are_its_own(tmp_path: Path) -> None:
    async def fine() -> None:
        await asyncio.sleep(0)

    async def wrong() -> None:
        raise ZeroDivisionError

    for write_budget in (None, Disk(tmp_path, 500).write_budget):
        await run_within_budget(fine(), write_budget, look=0)
        with pytest.raises(ZeroDivisionError):
            await run_within_budget(wrong(), write_budget, look=0)


async def test_ctrl_c_goes_through(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outer: asyncio.Task[None] = asyncio.create_task(_kept(work(), Disk(tmp_path, 500).write_budget))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert ended.is_set()


async def _kept(work: Coroutine[None, None, None], write_budget: WriteBudget) -> None:
    await run_within_budget(work, write_budget, look=60)


MATRIX = """\
name: worn
disks: {count: 1, size: 64MiB}
layouts: {raw: [disk]}
workloads:
  reads: {rw: read, bs: 64KiB, size: 8MiB}
  writes: {rw: write, bs: 64KiB, size: 8MiB}
repeat: 3
"""


def night(run_folder: Path, disk: Disk) -> tuple[WriteBudget, list[tuple[str, Outcome]]]:
    found = space(MATRIX)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    run = create(run_folder, manifest()) if not run_folder.exists() else None
    folder = run.path if run else next(run_folder.iterdir())
    run = load(folder)
    with Journal.open(run.journal) as journal:
        execution = executor(
            plan,
            Dry(),
            journal,
            CellFolders(run.path),
            run.path,
            lambda _: None,
            boot_id="x",
            spending=Spending(write_budget=disk.write_budget),
        )
        asyncio.run(execution.run())
        return disk.write_budget, [(trial.cell, trial.outcome) for trial in journal.trials()]


def test_a_run_leaves_out_what_does_not_fit_and_goes_on_the_next_night(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "state", 20 * MIB)
    begins = disk.write_budget.begin_trial

    def writing() -> None:
        begins()
        disk.counter += 5 * MIB  # on average: half of the trials write 8MiB

    disk.write_budget.begin_trial = writing  # type: ignore[method-assign]
    write_budget, trials = night(tmp_path / "runs", disk)
    assert write_budget.stop_reason
    assert len(trials) < 6
    assert read_ledger(tmp_path / "state").written_in("d", NIGHT) <= 30 * MIB
    tomorrow = Disk(tmp_path / "tomorrow", None)
    write_budget, trials = night(tmp_path / "runs", tomorrow)
    assert not write_budget.stop_reason
    assert len(trials) == len({*trials}) * 3 == 6


def test_counters_are_those_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "sdx").mkdir()
    (tmp_path / "sdx/stat").write_text("  10 0 80 3  20 0 160 9  0 0 0\n")
    there, gone = (
        LeasedDisk(DeclaredDisk(name, 1), Node(name, "8:0", 1, serial=name), LOCAL, Descriptor(-1))
        for name in ("sdx", "sdy")
    )
    assert read_write_counters([there, gone], tmp_path) == {"sdx": 160 * 512}


def test_counters_of_a_disk_with_several_paths_are_on_these(tmp_path: Path) -> None:
    for name, sectors in (("nvme0n1", 0), ("nvme0c0n1", 100), ("nvme0c3n1", 60), ("nvme0c0n11", 7), ("nvme1c0n1", 9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(f"10 0 80 3 20 0 {sectors} 9 0 0 0\n")
    assert count_sectors_written("nvme0n1", str(tmp_path)) == 160
    (tmp_path / "nvme0n1/stat").write_text("10 0 80 3 20 0 150 9 0 0 0\n")  # as newer kernels
    assert count_sectors_written("nvme0n1", str(tmp_path)) == 150
