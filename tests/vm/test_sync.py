"""Rebuilds, resyncs and checks in a real machine: their time is size over rate, and load makes them longer."""

import asyncio
from pathlib import Path

import pytest

from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.space.select import select
from matrix_runner.space.space import Cell
from matrix_runner.work.fio.output import Sync
from matrix_runner.work.sync import SyncWorkload
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

#: At each sixteenth of a sync, md waits until all requests have ended. After each request the guest takes milliseconds.
#: So large and slow disks come closest to their rate.
TEXT = """\
name: sync
disks: {count: 4, size: SIZE, bus: sata, model: {kind: volume, iops: 20000, bandwidth: RATE, latency: LATENCY}}
layouts:
  array: [LAYER]
tune: {TUNE}
workloads: {WORK}
repeat: 1
"""
LARGE, SMALL = ("2GiB", 6), ("256MiB", 16)  # and the bandwidth in MB/s
#: With the default of 256 pages, reads and writes of parity levels take turns. The small window of RAID 1 and 10 keeps
#: both disks busy only with many small requests, and a flush would wait for all requests of a SATA disk.
TUNE = {
    **dict.fromkeys((5, 6), "stripe_cache_size: 4096"),
    **dict.fromkeys((1, 10), "disk: {max_sectors_kb: 64, write_cache: write through}"),
}
#: So often, md waits until all requests have ended, and then reads a window before it writes again: the superblock and
#: a flush wait behind these reads.
PAUSES = 15
WINDOW = {1: 2 * 2**20, 10: 32 * 2**20}
#: Beside load, md waits until its requests have ended before it sends others, but not below this rate.
LEAST = "sync_speed_min: 3MiB/s"
IDLE = "idle: {sync_action: rebuild}"
BUSY = "busy: {sync_action: rebuild, under: {rw: randread, bs: 64KiB, iodepth: 4}}"
MD = {level: f"md: {{level: {level}}}" for level in (1, 5, 6, 10)}
LVM = {
    "raid1": "lvm: {type: raid1, mirrors: 3}",
    "raid5": "lvm: {type: raid5, stripes: 3}",
    "raid10": "lvm: {type: raid10, stripes: 2}",
}


def _measured(
    layer: str, work: str, folder: Path, tune: str = "", disks: tuple[str, int] = SMALL, latency: str = "1ms"
) -> list[tuple[Cell, Trial]]:
    size, rate = disks
    text = TEXT.replace("SIZE", size).replace("RATE", f"{rate}MB/s").replace("LATENCY", latency)
    found = space(text.replace("LAYER", layer).replace("WORK", work).replace("TUNE", tune))
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    cells = {cell.id: cell for cell in found.cells()}
    with Journal.open(folder / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), folder).run())
        trials = list(journal.trials())
    assert [trial.reason for trial in trials if trial.outcome is not Outcome.MEASURED] == []
    return [(cells[trial.cell], trial) for trial in trials]


def _sync(trial: Trial) -> Sync:
    assert trial.figures
    assert trial.figures.rebuild
    return trial.figures.rebuild


def _expected(cell: Cell, disks: tuple[str, int] = SMALL) -> float:
    """Return the seconds in which one disk is written from end to end."""
    assert isinstance(cell.work, SyncWorkload)
    return float(cell.work.target.member / disks[1] / 1e6)


def _compare(trial: Trial, seconds: float) -> None:
    """Allow 5 %, and the time that the host lost."""
    lost = float(trial.notes["host_limited_share"])
    assert 0.95 * seconds < _sync(trial).seconds < 1.05 * seconds / (1 - lost), (seconds, trial.notes)


@pytest.mark.parametrize("level", MD)
def test_a_rebuild_takes_size_over_rate(level: int, tmp_path: Path) -> None:
    ((cell, trial),) = _measured(MD[level], IDLE, tmp_path, TUNE[level], LARGE)
    _compare(trial, _expected(cell, LARGE))


@pytest.mark.parametrize(
    ("level", "request_size", "disks", "latency"),
    [
        (1, 64, ("128MiB", 6), "1ms"),
        (10, 1280, ("256MiB", 16), "10ms"),
        (10, 1280, ("256MiB", 8), "0.1ms"),
    ],
)
def test_md_pauses_for_a_window_fifteen_times(
    level: int, request_size: int, disks: tuple[str, int], latency: str, tmp_path: Path
) -> None:
    tune = f"disk: {{max_sectors_kb: {request_size}}}"
    ((cell, trial),) = _measured(MD[level], IDLE, tmp_path, tune, disks, latency)
    assert isinstance(cell.work, SyncWorkload)
    # The disk answers a request when its transfer begins: the pause ends with the start of the last one.
    unread = min(WINDOW[level], cell.work.target.member // 16) - request_size * 1024
    _compare(trial, _expected(cell, disks) + PAUSES * unread / disks[1] / 1e6)


@pytest.mark.parametrize("level", MD)
def test_a_rebuild_under_load_takes_longer(level: int, tmp_path: Path) -> None:
    """RAID 10 only with these tunables: without them, it reads ahead less beside load, so its pauses are shorter."""
    tune = f"{TUNE[level]}, {LEAST}"
    found = {cell.axes["workload"]: trial for cell, trial in _measured(MD[level], f"{IDLE}, {BUSY}", tmp_path, tune)}
    idle, busy = found["idle"], found["busy"]
    assert _sync(busy).seconds > 1.1 * _sync(idle).seconds
    assert busy.figures
    assert busy.figures.read
    assert busy.figures.read.ios > 100
    assert busy.figures.runtime == pytest.approx(_sync(busy).seconds, rel=0.1)


@pytest.mark.parametrize("layer", ["md: {level: 1}", "md: {level: 5, bitmap: internal}", "md: {level: 10}"])
def test_md_resyncs_checks_and_repairs(layer: str, tmp_path: Path) -> None:
    for cell, trial in _measured(layer, "work: {sync_action: [resync, check, repair]}", tmp_path):
        assert 0.95 < _sync(trial).seconds / _expected(cell) < 3, (cell.name, trial.notes)
        assert trial.notes.get("mismatch_cnt", "0") == "0"


@pytest.mark.parametrize("layer", LVM)
def test_lvm_rebuilds_checks_and_repairs(layer: str, tmp_path: Path) -> None:
    for cell, trial in _measured(LVM[layer], "work: {sync_action: [rebuild, check, repair]}", tmp_path):
        assert 0.95 < _sync(trial).seconds / _expected(cell) < 4, (cell.name, trial.notes)  # LVM writes metadata


def test_a_file_system_above_stays_mounted(tmp_path: Path) -> None:
    layers = "md: {level: 1, write_mostly: 1}, fs: {type: ext4}"
    work = "busy: {sync_action: rebuild, under: {rw: randwrite, bs: 16KiB, size: 32MiB}}, idle: {sync_action: check}"
    for _, trial in _measured(layers, work, tmp_path, LEAST):
        assert _sync(trial).seconds > 0
