"""A search in a real machine: the knee of an array of simulated disks, compared with what their physics predicts."""

from __future__ import annotations

import asyncio
import heapq
import random
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
from runner.space.select import select
from runner.statistics.stopping import Rule
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.matrices import space

if TYPE_CHECKING:
    from pathlib import Path

    from runner.results.record import Trial

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

DISKS, LIMIT = 4, 0.250
#: Disks with one channel, so slow that the time of the host hardly counts. Each request goes to one of them by chance.
MATRIX = """\
name: knee
disks:
  count: 4
  size: 256MiB
  model: {kind: ssd, read_latency: 60ms, write_latency: 1ms, channels: 1, bandwidth: 100MB/s}
layouts: {raid0: [md: {level: 0, chunk: 4KiB}]}
workloads:
  oltp:
    {rw: randread, bs: 4KiB, ramp: 1s, runtime: 20s, iodepth: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
     find: {max: iops, while: "read.mean < 250ms"}}
repeat: 3
"""


def _closed_loop(depth: int, service: float, requests: int = 60_000) -> tuple[float, float]:
    """Return the mean latency and the rate: a new request follows each one that ends."""
    draw = random.Random(depth)  # noqa: S311 - no secret
    free, latencies, now = [0.0] * DISKS, [], 0.0
    under_way: list[tuple[float, float]] = []
    for number in range(requests):
        if number >= depth:
            now, began = heapq.heappop(under_way)
            latencies.append(now - began)
        disk = draw.randrange(DISKS)
        free[disk] = max(free[disk], now) + service
        heapq.heappush(under_way, (free[disk], now))
    return fmean(latencies), len(latencies) / now


def _predicted() -> float:
    (disk, *_) = space(MATRIX).matrix.every_disk()
    assert disk.physics
    library, job = load_library(asyncio.run(build_library())), Job("read", 4096, 1, random=True)
    service = 1 / predict_rate(library, disk.physics, disk.size, job, seconds=10).iops
    found = [_closed_loop(depth, service) for depth in range(4, 24)]
    (low, less), (high, more) = next(pair for pair in pairwise(found) if pair[0][0] < LIMIT <= pair[1][0])
    return less + (more - less) * (log(LIMIT) - log(low)) / (log(high) - log(low))


@pytest.mark.timeout(3000)
def test_the_knee_of_an_array_is_that_of_the_physics_of_its_disks(tmp_path: Path) -> None:
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
