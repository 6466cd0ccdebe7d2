"""A closed loop on one simulated disk, step by step, and functions of its C code that only tests call."""

from __future__ import annotations

import ctypes
import heapq
import random
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.simdisks.clib import Library
    from matrix_runner.simdisks.disk import Physics

What = Literal["read", "write", "flush", "trim"]
_WHAT_CODES: dict[What, int] = {"read": 0, "write": 1, "flush": 2, "trim": 3}


def declared(library: Library) -> ctypes.CDLL:
    """Declare the types of functions of the library that the program does not call itself."""
    pointer, real, whole = ctypes.c_void_p, ctypes.c_double, ctypes.c_uint64
    for name, result, arguments in (
        ("physics_new", pointer, [pointer]),
        ("physics_free", None, [pointer]),
        ("physics_submit", None, [pointer, real, ctypes.c_int, whole, whole, ctypes.c_int, whole]),
        ("physics_next", ctypes.c_int, [pointer, real, ctypes.POINTER(whole), ctypes.POINTER(real)]),
        ("physics_held_up", ctypes.c_int, [pointer]),
        ("physics_wakes", real, [pointer]),
        ("board_clock_at", real, [pointer, real]),
        ("board_moment", real, [pointer, real]),
        ("board_bus_end", real, [pointer, ctypes.c_int, real, real, real]),
    ):
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    return library.c


class SimulatedDisk:
    """A disk on the caller's clock: the same physics, without waiting."""

    def __init__(self, library: Library, physics: Physics, size: int) -> None:
        self._c = declared(library)
        self._disk = self._c.physics_new(library.model(physics, size))
        self._tag, self._end = ctypes.c_uint64(), ctypes.c_double()

    def __del__(self) -> None:
        self._c.physics_free(self._disk)

    def submit(self, now: float, what: What, offset: int, length: int, tag: int, *, fua: bool = False) -> None:
        self._c.physics_submit(self._disk, now, _WHAT_CODES[what], offset, length, fua, tag)

    def settled(self, now: float) -> Iterator[tuple[int, float]]:
        while self._c.physics_next(self._disk, now, ctypes.byref(self._tag), ctypes.byref(self._end)):
            yield int(self._tag.value), float(self._end.value)

    def next_decision(self) -> float:
        return float(self._c.physics_wakes(self._disk))


@dataclass(frozen=True, slots=True)
class Job:
    """A closed loop, as in fio: when one request ends, the next begins."""

    what: What
    block: int
    depth: int
    random: bool
    first: float = 0.0
    last: float = 1.0
    #: Seconds from an answer to the next request, which the host takes. Without any, a disk would choose among as many
    #: commands as the queue has; a real one chooses its next command before the answer brings another request.
    turn: float = 1e-6


@dataclass(frozen=True, slots=True)
class Rate:
    iops: float
    bytes: float


def predict_rate(
    library: Library, physics: Physics, size: int, job: Job, *, ramp: float = 0.0, seconds: float, seed: int = 1
) -> Rate:
    """Return the rate on a fresh disk. Requests in flight at the end are waited for and count, as in fio."""
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
