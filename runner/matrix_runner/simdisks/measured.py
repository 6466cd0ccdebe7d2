"""The results of fio on a disk, and the distance of a model from them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from matrix_runner.simdisks.loop import DIRECTIONS, PERCENTILES, Direction, Figures, Host, Pattern

#: Commands that a SATA drive takes at a time.
IN_DRIVE = 32
#: Seconds. A drive that does not answer for longer has stopped: its controller resets the link.
STOP = 15.0


@dataclass(frozen=True, slots=True)
class Job:
    path: str  # its file
    pattern: Pattern
    read: Figures | None
    write: Figures | None

    @property
    def figures(self) -> dict[Direction, Figures]:
        both = ((direction, getattr(self, direction)) for direction in DIRECTIONS)
        return {direction: found for direction, found in both if found}

    def in_drive(self, queue: int) -> bool:
        """Return whether its requests wait in a drive with this queue: else its latencies are those of the kernel."""
        deepest = max(2, min(IN_DRIVE, queue + 1))
        return self.pattern.depth <= deepest and all(
            one.percentiles and one.submission < one.mean / 10 for one in self.figures.values()
        )

    @property
    def stopped(self) -> bool:
        return any(one.longest > STOP for one in self.figures.values())


@dataclass(frozen=True, slots=True)
class Spot:
    """All jobs of a drive that ask for the same: they differ by chance, and by how processes share the requests."""

    pattern: Pattern
    jobs: tuple[Job, ...]

    def rate(self, direction: Direction) -> float:
        return median(job.figures[direction].iops for job in self.jobs)

    def distance(self, modelled: Mapping[Direction, Figures], direction: Direction, host: Host, weight: float) -> float:
        """Return how far the model is from rate and latencies, which count with this weight."""
        found = modelled.get(direction)
        if found is None:  # its first request takes longer than the job
            return math.inf
        apart = abs(math.log(found.iops / self.rate(direction)))
        shapes = [min(1.0, demerit(found, job.figures[direction])) for job in self.jobs if job.in_drive(host.queue)]
        return apart + weight * (median(shapes) if shapes else 0.0)


def spots(found: Iterable[Job]) -> list[Spot]:
    grouped: dict[Pattern, list[Job]] = defaultdict(list)
    for job in found:
        if not job.stopped:
            grouped[job.pattern].append(job)
    order = sorted(grouped, key=lambda one: (one.reads, one.block, one.first, one.depth, one.last))
    return [Spot(pattern, tuple(grouped[pattern])) for pattern in order]


def turn(jobs: Iterable[Job]) -> float:
    """Return the seconds from an answer to the next submission: what the rate of one request at a time leaves over."""
    alone = (
        figures
        for job in jobs
        if job.pattern.depth == 1 and job.pattern.random and not (job.stopped or job.pattern.safe)
        for figures in job.figures.values()
    )
    return max(1e-6, min((1 / one.iops - one.mean for one in alone), default=0.0))


def demerit(modelled: Figures, measured: Figures) -> float:
    """Return how far two distributions of latencies are apart, as a share of the mean that was measured.

    This is the demerit figure of Ruemmler and Wilkes (1994): the root mean square of the horizontal distance between
    both curves. Both end at the 99th percentile.
    """
    apart = [(one - other) ** 2 for one, other in zip(modelled.percentiles, measured.percentiles, strict=True)]
    return math.sqrt(_over_percentiles(apart)) / _over_percentiles(measured.percentiles)


def _over_percentiles(values: Sequence[float]) -> float:
    area = sum(
        (values[at] + values[at + 1]) / 2 * (PERCENTILES[at + 1] - PERCENTILES[at]) for at in range(len(values) - 1)
    )
    return area / (PERCENTILES[-1] - PERCENTILES[0])
