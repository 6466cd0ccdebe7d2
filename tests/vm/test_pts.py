"""Tests of SNIA's specification in a real machine: an ageing disk falls from fresh to steady, and a purge makes it new."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from runner.engine.plan import Plan
from runner.machines.qemu import Qemu
from runner.results.journal import Journal
from runner.results.pts_output import parse_rounds
from runner.results.record import UNSETTLED, Outcome
from runner.space.select import select
from runner.statistics.steady import last_window
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from pathlib import Path

    from runner.results.record import Trial

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

#: A disk that is so slow that an emulated machine keeps up, and so small that it is full after ten seconds.
TEXT = """\
name: pts
disks:
  count: 1
  size: 16MiB
  model:
    kind: ssd
    read_latency: 2ms
    write_latency: 1ms
    channels: 1
    bandwidth: 50MB/s
    write_bandwidth: 2MB/s
    ageing: {spare: 28%, block: 16KiB}
layouts: {raw: [disk]}
workloads: {test: {WORK}}
repeat: REPEAT
"""


def _measured(work: str, folder: Path, repeat: int = 1) -> tuple[list[Trial], Shelf]:
    found = space(TEXT.replace("WORK", work).replace("REPEAT", str(repeat)))
    plan, shelf = Plan(select(found), found.matrix.repeat, found.matrix.seed), Shelf()
    with Journal.open(folder / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, shelf, folder).run())
        trials = list(journal.trials())
    assert [trial.reason for trial in trials if trial.outcome is not Outcome.MEASURED] == []
    return trials, shelf


def _course(shelf: Shelf, trial: int, measure: str) -> list[float]:
    (table,) = [kept["rounds.csv"] for (_, number), kept in shelf.kept.items() if number == trial]
    return [row.measures[measure] or 0.0 for row in parse_rounds(table)]


def test_figures_fall_from_fresh_to_steady_and_a_purge_makes_the_disk_new(tmp_path: Path) -> None:
    work = "preset: snia-wsat, runtime: 1s, rounds: 40, iodepth: 4, numjobs: 1"
    trials, shelf = _measured(work, tmp_path, repeat=2)
    for trial in trials:
        course = _course(shelf, trial.round, "iops")
        assert len(course) == 40
        assert fmean(course[:5]) > 1.8 * fmean(course[-10:]), course
        window = last_window(course)
        assert window
        assert window.is_steady, str(window)
        assert trial.notes["purge"] == "blkdiscard"


def test_a_test_ends_at_its_steady_state(tmp_path: Path) -> None:
    (trial,), shelf = _measured("preset: snia-latency, runtime: 500ms", tmp_path)
    assert UNSETTLED not in trial.notes
    assert trial.notes["steady_state"].startswith("rounds ")
    assert trial.counted
    assert len(trial.counted.jobs) == 9
    assert len(_course(shelf, 1, "lat_mean")) == 9 * int(trial.notes["rounds"])
    assert trial.notes["precondition"].startswith("written 2 times in blocks of 131072 bytes")
