"""Rebuilds, resyncs and checks in a real machine: their time is size over rate, and load makes them longer."""

import asyncio
from pathlib import Path

import pytest

from runner.base.quantities import format_size
from runner.engine.plan import Plan
from runner.layers.redundancy import sync_target
from runner.machines.qemu import Qemu
from runner.results.journal import Journal
from runner.results.record import Outcome, Trial
from runner.space.layouts import levels
from runner.space.select import select
from runner.space.space import Cell
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

#: In slow motion, because an emulated processor computes parity hardly as fast as four disks deliver it.
TEXT = """\
name: sync
disks: {count: 4, size: 512MiB, model: st3500641as, bus: sata, slow: 4}
layouts:
  array: [LAYER]
workloads: {WORK}
repeat: 1
"""
IDLE = "idle: {sync_action: rebuild}"
BUSY = "busy: {sync_action: rebuild, under: {rw: randread, bs: 4KiB, iodepth: 2}}"
MD = {level: f"md: {{level: {level}}}" for level in (1, 5, 6, 10)}
LVM = {
    "raid1": "lvm: {type: raid1, mirrors: 3}",
    "raid5": "lvm: {type: raid5, stripes: 3}",
    "raid10": "lvm: {type: raid10, stripes: 2}",
}


def _measured(layer: str, work: str, folder: Path) -> list[tuple[Cell, Trial]]:
    found = space(TEXT.replace("LAYER", layer).replace("WORK", work))
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    cells = {cell.id: cell for cell in found.cells()}
    with Journal.open(folder / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), folder).run())
        trials = list(journal.trials())
    assert [trial.reason for trial in trials if trial.outcome is not Outcome.MEASURED] == []
    return [(cells[trial.cell], trial) for trial in trials]


def _expected(cell: Cell) -> float:
    """Return the seconds that one disk takes to be written from end to end."""
    stack = cell.stack
    target = sync_target(levels(stack.layers.value, stack.disks))
    (disk, *_) = cell.stack.disks.devices
    assert target is not None
    assert target.member <= disk.size, format_size(target.member)
    physics = space(TEXT.replace("LAYER", MD[1]).replace("WORK", IDLE)).matrix.every_disk()[0].physics
    assert physics is not None
    return target.member / physics.rate(2**20, random=False, write=True)


@pytest.mark.parametrize("level", MD)
def test_a_rebuild_takes_size_over_rate_and_longer_under_load(level: int, tmp_path: Path) -> None:
    found = {cell.axes["workload"]: (cell, trial) for cell, trial in _measured(MD[level], f"{IDLE}, {BUSY}", tmp_path)}
    cell, idle = found["idle"]
    assert idle.figures
    assert idle.figures.sync
    assert idle.figures.sync.seconds == pytest.approx(_expected(cell), rel=0.05), idle.notes
    _, busy = found["busy"]
    assert busy.figures
    assert busy.figures.sync
    assert busy.figures.sync.seconds > 1.1 * idle.figures.sync.seconds
    assert busy.figures.read
    assert busy.figures.read.ios > 100
    assert busy.figures.runtime == pytest.approx(busy.figures.sync.seconds, rel=0.1)


@pytest.mark.parametrize("layer", ["md: {level: 1}", "md: {level: 5, bitmap: internal}", "md: {level: 10}"])
def test_md_resyncs_checks_and_repairs(layer: str, tmp_path: Path) -> None:
    for _, trial in _measured(layer, "work: {sync_action: [resync, check, repair]}", tmp_path):
        assert trial.figures
        assert trial.figures.sync
        assert trial.notes.get("mismatch_cnt", "0") == "0"


@pytest.mark.parametrize("layer", LVM)
def test_lvm_rebuilds_and_checks(layer: str, tmp_path: Path) -> None:
    for cell, trial in _measured(LVM[layer], "work: {sync_action: [rebuild, check, repair]}", tmp_path):
        assert trial.figures
        assert trial.figures.sync
        assert trial.figures.sync.seconds == pytest.approx(_expected(cell), rel=0.25), (cell.name, trial.notes)


def test_a_file_system_above_stays_mounted(tmp_path: Path) -> None:
    layers = "md: {level: 1, write_mostly: 1}, fs: {type: ext4}"
    work = "busy: {sync_action: rebuild, under: {rw: randwrite, bs: 16KiB, size: 32MiB}}, idle: {sync_action: check}"
    for _, trial in _measured(layers, work, tmp_path):
        assert trial.figures
        assert trial.figures.sync
