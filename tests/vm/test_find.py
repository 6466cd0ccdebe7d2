"""A search in a real machine: the knee of a simulated disk, compared with what its physics predicts."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.knee import Found, find_knee, searches_of
from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.journal import Journal
from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.space.select import select
from matrix_runner.statistics.stopping import Rule
from tests.support.closed_loop import Job, predict_rate
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.record import Trial

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

#: An emulated guest on a busy host takes 20 ms and more from an answer to the next request. Around the limit, the disk
#: has enough other requests to keep its four channels busy meanwhile.
MATRIX = """\
name: knee
disks:
  count: 1
  size: 256MiB
  model: {kind: ssd, read_latency: 40ms, write_latency: 1ms, channels: 4, bandwidth: 100MB/s}
layouts: {disk: [disk]}
workloads:
  oltp:
    {rw: randread, bs: 4KiB, runtime: 10s, iodepth: [1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
     find: {max: iops, while: "read.mean < 280ms"}}
repeat: 3
"""
LIMIT = 0.280


def _predicted() -> tuple[int, int, float]:
    """Return the neighbours of the limit among the depths, and the work at the limit."""
    (disk,) = space(MATRIX).matrix.every_disk()
    assert disk.physics
    library = load_library(asyncio.run(build_library()))
    rates = {
        depth: predict_rate(library, disk.physics, disk.size, Job("read", 4096, depth, random=True), ramp=1, seconds=20)
        for depth in (8, 16, 24, 32, 48)
    }
    within = max(depth for depth, one in rates.items() if depth / one.iops < LIMIT)
    beyond = min(depth for depth, one in rates.items() if depth / one.iops > LIMIT)
    return within, beyond, fmean((rates[within].iops, rates[beyond].iops))


@pytest.mark.timeout(3000)
def test_the_knee_of_a_simulated_disk_is_that_of_its_physics(tmp_path: Path) -> None:
    found = space(MATRIX)
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    trials: dict[str, list[Trial]] = {}
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), tmp_path).run())
        for trial in journal.trials():
            trials.setdefault(trial.cell, []).append(trial)
        (search,) = searches_of(journal.cells(), plan.finds)
    knee = find_knee(search, trials, Rule(3, 3), {})
    within, beyond, work = _predicted()
    assert (knee.found, knee.within, knee.beyond) == (Found.BETWEEN, str(within), str(beyond))
    assert knee.trials <= 12
    assert knee.work
    measured = [(search.value(at), one.found) for at, one in enumerate(search.points(trials)) if one.found]
    assert knee.work.mean == pytest.approx(work, rel=0.05), (knee.work, measured)
