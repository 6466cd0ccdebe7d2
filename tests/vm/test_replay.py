"""A trace that a real machine replays: on a device and in a file system, each request once."""

from __future__ import annotations

import asyncio
import heapq
import random
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from matrix_runner.decide.plan import Plan
from matrix_runner.machines.qemu import Qemu
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST_LIMITED, REPLAY, SATURATED, Outcome
from matrix_runner.simdisks.clib import build_library, load_library
from matrix_runner.space.select import select
from tests.support.closed_loop import SimulatedDisk
from tests.support.engine import Shelf
from tests.support.execution import executor
from tests.support.traces import declared, iolog

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.simdisks.disk import Disk

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

LAYOUTS = "device: [md: {level: 1}], files: [pick: {number: 1}, fs: {type: ext4}]"


def test_each_request_is_replayed_on_a_device_and_in_a_file(tmp_path: Path) -> None:
    found = declared("replay: web.log, size: 64MiB, iodepth: 8", layouts=LAYOUTS).space
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), tmp_path).run())
        trials = list(journal.trials())
    assert [(trial.outcome, trial.reason) for trial in trials] == [(Outcome.MEASURED, "")] * 4
    for trial in trials:
        assert trial.figures
        assert trial.figures.read
        assert trial.figures.write
        assert (trial.figures.read.ios, trial.figures.write.ios) == (68, 33)
        assert trial.figures.read.latencies
        assert trial.figures.runtime > 0.9
        assert " of 101 requests began over 10 ms late" in trial.notes[REPLAY]
        assert HOST_LIMITED not in trial.notes  # disks without a model cannot be host-limited
        assert (SATURATED in trial.notes) == (not trial.notes[REPLAY].startswith(("0.0%", "1.0%")))


def _random_reads() -> list[tuple[int, int]]:
    """Return milliseconds and offsets, 40 a second: two thirds of what the disk can do."""
    draw, times = random.Random(30), [0.0]  # noqa: S311
    while times[-1] < 10_000:
        times.append(times[-1] + draw.expovariate(40) * 1000)
    return [(round(time), draw.randrange(250 * 256) * 4096) for time in times]


def _predicted(disk: Disk, requests: list[tuple[int, int]]) -> float:
    """Return the mean latency if nothing but the disk takes time."""
    assert disk.physics
    physics = SimulatedDisk(load_library(asyncio.run(build_library())), disk.physics, disk.size)
    known: list[tuple[float, int]] = []
    begun, ends, now = 0, dict[int, float](), 0.0
    while len(ends) < len(requests):
        arrival = requests[begun][0] / 1000 if begun < len(requests) else inf
        answer = known[0][0] if known else inf
        now = max(now, min(arrival, answer, physics.next_decision()))
        if answer <= now:
            at, tag = heapq.heappop(known)
            ends[tag] = at
        elif arrival <= now:
            physics.submit(now, "read", requests[begun][1], 4096, begun)
            begun += 1
        for tag, at in physics.settled(now):
            heapq.heappush(known, (at, tag))
    return fmean(end - requests[tag][0] / 1000 for tag, end in ends.items())


def test_latencies_without_the_way_to_the_disk_are_those_of_its_physics(tmp_path: Path) -> None:
    requests = _random_reads()
    trace = iolog((time * 1000, "read", offset, 4096) for time, offset in requests)
    found = declared(trace=trace, disk="bus: sata, model: st3500641as, slow: 8").space
    plan = Plan(select(found), found.matrix.repeat, found.matrix.seed)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        asyncio.run(executor(plan, Qemu(), journal, Shelf(), tmp_path).run())
        trials = list(journal.trials())
    expected = _predicted(found.matrix.every_disk()[0], requests)
    for trial in trials:
        assert trial.figures
        assert trial.figures.read
        assert trial.figures.read.lat_mean
        measured = trial.figures.read.lat_mean / 1e9 * (1 - float(trial.notes["host_limited_share"]))
        assert measured == pytest.approx(expected, rel=0.05), trial.notes
        assert float(trial.notes["host_limited_share"]) < 0.15
