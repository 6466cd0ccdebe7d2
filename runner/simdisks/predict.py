"""The prediction of a workload on a disk model: the same C code, on simulated time, without a server or kernel."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from runner.simdisks.clib import SimulatedDisk

if TYPE_CHECKING:
    from runner.simdisks.clib import Library, What
    from runner.simdisks.physics import Physics


@dataclass(frozen=True, slots=True)
class Job:
    """A closed loop, as in fio: when one request ends, the next begins."""

    what: What
    block: int
    depth: int
    random: bool
    #: The range, as shares of the disk.
    first: float = 0.0
    last: float = 1.0
    #: Seconds from an answer to the next request, which the host takes.
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class Rate:
    iops: float
    bytes: float


def predict_rate(
    library: Library, physics: Physics, size: int, job: Job, *, ramp: float = 0.0, seconds: float, seed: int = 1
) -> Rate:
    """Return the rate over `seconds`, after a ramp, on a fresh disk.

    Requests in flight at the end are waited for and count with their time, as in fio.
    """
    disk, chance, tag = SimulatedDisk(library, physics, size), random.Random(seed), 0  # noqa: S311 - no secret
    low, high = (int(share * size) // job.block for share in (job.first, job.last))
    begun: list[tuple[float, int]] = []
    asked = deque[float]()
    now, ended, counted, end = 0.0, 0, 0, ramp + seconds

    def submit() -> None:
        nonlocal tag
        number = chance.randrange(low, high) if job.random else low + tag % (high - low)
        disk.submit(now, job.what, number * job.block, job.block, tag)
        tag += 1
        settle()

    def settle() -> None:
        for known, at in disk.settled(now):
            heapq.heappush(begun, (at, known))

    for _ in range(job.depth):
        submit()
    while ended < tag or asked:
        wakes = disk.next_decision()
        answer = begun[0][0] if begun else inf
        if asked and asked[0] <= min(answer, wakes):
            now = max(now, asked.popleft())
            submit()
        elif answer <= wakes:
            now = max(now, heapq.heappop(begun)[0])
            ended += 1
            counted += now >= ramp
            if now < end:
                asked.append(now + job.turn)
        else:
            now = max(now, wakes)
            settle()
    lasted = max(now, end) - ramp
    return Rate(counted / lasted, counted * job.block / lasted)
