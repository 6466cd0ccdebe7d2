"""The rates and latencies that a job of fio reaches on a simulated disk, in simulated time (`server/loop.c`)."""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from matrix_runner.base.quantities import format_size
from matrix_runner.simdisks.clib import Library
from matrix_runner.simdisks.disk import Physics

#: A part of the disk that stands for all of it.
WHOLE = 0.9
Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, ...] = ("read", "write")
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Figures:
    """The rates and latencies of one direction of a job. Times are seconds."""

    iops: float
    mean: float  # from a request's submission to its answer, as the percentiles
    longest: float
    submission: float  # what the submission itself took: a process waits there if the queue of the kernel is full
    percentiles: tuple[float, ...]  # empty if they were not measured


@dataclass(frozen=True, slots=True)
class Pattern:
    """The requests of a job: a closed loop, as in fio. When one request ends, the next begins."""

    depth: int  # requests in flight: those of a process, times the number of processes
    reads: float  # the share of reads; 1 and 0 for jobs in one direction
    block: int = 4096
    random: bool = True
    first: float = 0.0  # the part of the disk, as shares
    last: float = 1.0
    safe: bool = False  # each write is on the medium before it is answered
    seconds: float = 60.0

    @property
    def title(self) -> str:
        what = {1.0: "reads", 0.0: "writes"}.get(self.reads, f"{self.reads:.0%} reads".replace("%", " %"))
        words = f"{'random' if self.random else 'sequential'} {'safe ' * self.safe}{what} of {format_size(self.block)}"
        place = f" at {self.first:.0%}".replace("%", " %") if self.last - self.first < WHOLE and self.first else ""
        return f"{words}, depth {self.depth}{place}"


@dataclass(frozen=True, slots=True)
class Host:
    """The disks that share the requests, and how the host asks them."""

    size: int  # bytes of a disk
    turn: float = 1e-6  # seconds from an answer to the next request
    queue: int = 31  # commands that it has under way at a disk
    disks: int = 1


def simulate(
    library: Library, physics: Physics, host: Host, pattern: Pattern, seconds: float, most: int, seed: int = 1
) -> Mapping[Direction, Figures]:
    """Return what each direction reaches on fresh disks, in this time or with the most requests."""
    took = (ctypes.c_double * most)()
    reads, writes = ctypes.c_double(), ctypes.c_double()
    ends = pattern.first * host.size, pattern.last * host.size
    asks = pattern.block, pattern.depth, pattern.reads, not pattern.random, pattern.safe
    work = (ctypes.c_double * 13)(*ends, *asks, host.disks, host.queue, host.turn, seconds, most, seed)
    lasted = library.c.closed_loop(
        library.model(physics, host.size), work, took, ctypes.byref(reads), ctypes.byref(writes)
    )
    parts: dict[Direction, list[float]] = {
        "read": took[: int(reads.value)],
        "write": took[int(most - writes.value) :],
    }
    return {what: _figures(part, lasted) for what, part in parts.items() if part}


def _figures(took: Sequence[float], seconds: float) -> Figures:
    ranked = sorted(took)
    at = [ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))] for share in PERCENTILES]
    return Figures(len(took) / seconds, sum(took) / len(took), ranked[-1], 0.0, tuple(at))
