"""The tests of SNIA's Performance Test Specification 2.0.2: their points, figures and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

KIB = 1024


@dataclass(frozen=True, slots=True)
class Point:
    read: int  # per cent of the requests
    size: int  # bytes of a request

    @property
    def name(self) -> str:
        size = f"{self.size // KIB}k" if self.size % KIB == 0 else str(self.size)
        return f"r{self.read}w{100 - self.read}-{size}"


Figure = Literal["iops", "bw", "lat"]


@dataclass(frozen=True, slots=True)
class PtsTest:
    title: str
    mixes: tuple[int, ...]  # per cent of reads, in the order of the specification
    sizes: tuple[int, ...]
    tracked: tuple[tuple[int, int], ...]  # mixes and sizes of the points that must be steady
    figure: Figure  # of these points
    iodepth: int
    numjobs: int
    rounds: int
    random: bool = True
    #: A device is written twice before, in requests of this size; 0: its own size; None: it stays purged.
    fill: int | None = 128 * KIB
    apart: int = 1  # rounds between the values of a window
    capacities: int = 0  # it ends when the capacity is written as often; 0: no such end
    fixed: frozenset[str] = frozenset()  # keys that the specification sets
    each_size: bool = False  # each size is a test of its own, with its own purge

    @property
    def is_curve(self) -> bool:
        """Return whether the course of the rounds is its result, with or without a steady state."""
        return self.capacities > 0


_IOPS_SIZES = tuple(size * KIB for size in (1024, 128, 64, 32, 16, 8, 4))
TESTS: Mapping[str, PtsTest] = {
    "snia-iops": PtsTest(
        "IOPS",
        mixes=(100, 95, 65, 50, 35, 5, 0),
        sizes=(*_IOPS_SIZES, 512),
        tracked=((0, 4 * KIB), (65, 64 * KIB), (100, 1024 * KIB)),
        figure="iops",
        iodepth=32,
        numjobs=4,
        rounds=25,
    ),
    "snia-throughput": PtsTest(
        "throughput",
        mixes=(100, 0),
        sizes=(1024 * KIB, 128 * KIB),
        tracked=((0, 0),),
        figure="bw",
        iodepth=32,
        numjobs=1,
        rounds=25,
        random=False,
        fill=0,
        each_size=True,
    ),
    "snia-latency": PtsTest(
        "latency",
        mixes=(100, 65, 0),
        sizes=(8 * KIB, 4 * KIB, 512),
        tracked=((0, 4 * KIB),),
        figure="lat",
        iodepth=1,
        numjobs=1,
        rounds=25,
        fixed=frozenset({"iodepth", "numjobs"}),
    ),
    "snia-wsat": PtsTest(
        "write saturation",
        mixes=(0,),
        sizes=(4 * KIB,),
        tracked=((0, 4 * KIB),),
        figure="iops",
        iodepth=32,
        numjobs=4,
        rounds=360,
        fill=None,
        apart=30,
        capacities=4,
    ),
}
