"""A search in a real machine: the knee of a simulated disk, compared with what its physics predicts."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from math import log
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from runner.engine.plan import Plan
from runner.guidelines.knee import Found, find_knee, searches_of
from runner.machines.qemu import Qemu
from runner.results.journal import Journal
from runner.simdisks.check import Job, predict_rate
from runner.simdisks.clib import build_library, load_library
from runner.space.load import disk_model
from runner.space.select import select
from runner.statistics.stopping import Rule
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from pathlib import Path

    from runner.results.record import Trial

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

#: In slow motion, because the time that a slow host takes for each request would count as the disk's.
MATRIX = """\
name: knee
disks: {count: 1, size: 1GiB, model: nas-7200, bus: sata, slow: 4}
layouts: {disk: [disk]}
tune: {scheduler: none}
workloads:
  oltp:
    {rw: randread, bs: 4KiB, ramp: 1s, runtime: 10s, iodepth: [1, 2, 3, 4, 6, 8, 12, 16, 24, 31],
     find: {max: iops, while: "read.p95 < 150ms"}}
repeat: 3
"""
LIMIT = 0.150


def _predicted() -> float:
    """Return the work where the 95th percentile meets the limit, from predictions at every depth around it."""
    library, physics = load_library(asyncio.run(build_library())), disk_model("nas-7200").physics(1)
    found = []
    for depth in range(5, 11):
        job = Job("read", 4096, depth, random=True)
        several = [predict_rate(library, physics, 2**30, job, ramp=2, seconds=60, seed=seed) for seed in range(3)]
        latencies = sorted(latency for one in several for latency in one.latencies)
        found.append((log(latencies[len(latencies) * 95 // 100]), fmean(one.iops for one in several)))
    (low, less), (high, more) = next(pair for pair in pairwise(found) if pair[0][0] <= log(LIMIT) < pair[1][0])
    return less + (more - less) * (log(LIMIT) - low) / (high - low)


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
    knee = find_knee(search, trials, Rule(3, 3))
    assert knee.found is Found.BETWEEN
    assert knee.trials <= 12
    assert knee.work
    measured = [(search.value(at), one.found) for at, one in enumerate(search.points(trials)) if one.found]
    assert knee.work.mean == pytest.approx(_predicted(), rel=0.05), (knee.work, measured)
