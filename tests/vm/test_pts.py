"""Tests of SNIA's specification in a real machine: an ageing disk falls from fresh to steady, and a purge makes it new."""

from __future__ import annotations

import asyncio
import csv
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import UNSETTLED, Outcome
from matrix_runner.space.select import select
from matrix_runner.work.pts.output import parse_rounds
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.record import Trial

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

#: A disk that is so slow that an emulated machine keeps up, and so small that it is soon full.
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
    ageing: {spare: 28%, block: 64KiB}
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


def _files(shelf: Shelf, trial: int) -> dict[str, str]:
    (kept,) = [kept for (_, number), kept in shelf.kept.items() if number == trial]
    return kept


def _seconds_of_a_write(files: dict[str, str]) -> tuple[float, float]:
    """Return the model's time of a write, in the first and in the last quarter: it does not depend on the host."""
    rows = [row for row in csv.DictReader(StringIO(files["disks-over-time.csv"])) if int(row["writes"])]
    total, done = sum(int(row["writes"]) for row in rows), 0
    quarters: dict[int, list[tuple[float, int]]] = {0: [], 3: []}
    for row in rows:
        quarter = 4 * done // total
        done += int(row["writes"])
        if quarter in quarters:
            quarters[quarter].append((float(row["owed"]), int(row["writes"])))
    first, last = (sum(time for time, _ in one) / sum(count for _, count in one) for one in quarters.values())
    return first, last


def test_figures_fall_from_fresh_to_steady_and_a_purge_makes_the_disk_new(tmp_path: Path) -> None:
    work = "preset: snia-wsat, runtime: 10s, rounds: 1000, iodepth: 1, numjobs: 1"
    trials, shelf = _measured(work, tmp_path, repeat=2)
    times = [_seconds_of_a_write(_files(shelf, trial.round)) for trial in trials]
    assert times[1] == pytest.approx(times[0], rel=0.1)
    for fresh, steady in times:
        assert fresh == pytest.approx(0.001 + 4096 / 2e6, rel=0.05)
        assert steady > 1.6 * fresh
    for trial in trials:
        assert (trial.facts.written_in_rounds or 0) >= 4 * 16 * 2**20  # it ended there
        assert trial.notes["purge"] == "blkdiscard"
        rates = [row.measures["iops"] or 0.0 for row in parse_rounds(_files(shelf, trial.round)["rounds.csv"])]
        assert len(rates) == int(trial.notes["rounds"])


def test_a_test_ends_at_its_steady_state(tmp_path: Path) -> None:
    (trial,), shelf = _measured("preset: snia-latency, runtime: 500ms", tmp_path)
    assert UNSETTLED not in trial.notes
    assert trial.notes["steady_state"].startswith("rounds ")
    assert trial.counted
    assert len(trial.counted.jobs) == 9
    rows = parse_rounds(_files(shelf, 1)["rounds.csv"])
    assert len(rows) == 9 * int(trial.notes["rounds"])
    assert trial.notes["precondition"].startswith("written 2 times in blocks of 131072 bytes")
