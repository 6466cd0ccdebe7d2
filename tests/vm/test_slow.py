"""Slow motion in a real machine: timers of its kernel, and figures at two factors."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST_LIMITED, SLOW, Trial
from matrix_runner.space.select import select
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space
from tests.support.rigs import rig_of, spec_of
from tests.support.stacks_on_rigs import done

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

TIMERS = """\
name: timers
disks: {count: 2, size: 1GiB, model: st3500641as, bus: sata, slow: 4}
layouts:
  mirror: [md: {level: 1, bitmap: internal}, fs: {type: ext4}]
tune: {vm: {dirty_expire_centisecs: 1000}, scheduler: mq-deadline, iosched: {read_expire: 248}, sync_speed_max: 50MiB/s}
workloads: {work: {rw: write, bs: 64KiB, direct: false, size: 1MiB}}
"""
STREAMS = """\
name: streams
disks: {count: 1, size: 1GiB, model: st3500641as, bus: sata, slow: FACTOR}
layouts: {disk: [pick: {number: 1}]}
workloads:
  streams: {rw: read, bs: 256KiB, numjobs: 3, ramp: 1s, runtime: 4s, size: 30%, fio: {offset_increment: 33%}}
repeat: 1
"""


async def _values(scratch: Path) -> list[str]:
    found, machine = space(TIMERS), Qemu()
    (cell,) = found.cells()
    async with rig_of(spec_of(found), scratch, machine) as rig:
        built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
        for _ in range(2):  # the second trial finds the values of the first
            assert not (await built.measure(cell, 1)).trial.reason
        files = (
            *("/proc/sys/vm/dirty_expire_centisecs", "/proc/sys/vm/dirty_writeback_centisecs"),
            *(f"/sys/block/sda/queue/iosched/{name}" for name in ("read_expire", "write_expire", "prio_aging_expire")),
            *(f"/sys/block/md127/md/{name}" for name in ("sync_speed_min", "sync_speed_max", "bitmap/time_base")),
        )
        text = f"cat {' '.join(files)}; cat /sys/block/sda/queue/io_timeout; grep -o commit=.* /proc/mounts"
        return (await done(rig, text)).splitlines()


def test_timers_of_the_kernel_take_longer(tmp_path: Path) -> None:
    *values, timeout, commit = asyncio.run(_values(tmp_path))
    assert values == ["4000", "2000", "992", "20000", "40000", "250 (system)", "12800 (local)", "20"]
    assert int(timeout) == 4 * 30_000
    assert commit.startswith("commit=20 ")


def _measured(slow: int, folder: Path) -> Trial:
    found = space(STREAMS.replace("FACTOR", str(slow)))
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    folder.mkdir()
    with Journal.open(folder / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), folder).run())
        (trial,) = journal.trials()
    return trial


@contextmanager
def _crowd() -> Iterator[None]:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


async def _crowded(scratch: Path) -> str:
    found, machine = space(STREAMS.replace("FACTOR", "1")), Qemu()
    (cell,) = found.cells()
    async with rig_of(spec_of(found), scratch, machine) as rig:
        built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
        with _crowd():
            return (await built.measure(cell, 1)).trial.notes.get(HOST_LIMITED, "")


def test_a_crowded_host_marks_its_trials(tmp_path: Path) -> None:
    assert "no processor for the machine" in asyncio.run(_crowded(tmp_path))


def test_figures_do_not_depend_on_the_factor(tmp_path: Path) -> None:
    found = {slow: _measured(slow, tmp_path / str(slow)) for slow in (4, 8)}
    for slow, trial in found.items():
        assert trial.notes[SLOW] == str(slow)
    rates = {slow: trial.figures.total_bw for slow, trial in found.items() if trial.figures}
    assert rates[8] == pytest.approx(rates[4], rel=0.03), {slow: trial.notes for slow, trial in found.items()}
