"""A closed loop on simulated disks without waiting: `loop.c` asks the physics as fio and the kernel would."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.drives.figures import PERCENTILES, Direction, Figures
from matrix_runner.simdisks.clib import SOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.simdisks.clib import Library
    from matrix_runner.simdisks.disk import Physics

#: Of a job: seconds of a hard disk, and requests of an SSD.
SECONDS, REQUESTS = 60.0, 5000


@dataclass(frozen=True, slots=True)
class Work:
    """One job. All fields are numbers: in the order of `struct work`."""

    size: float
    #: Bytes from the beginning of the disk that are used.
    span: float
    depth: float
    #: The share of reads.
    reads: float
    #: Commands that the host has under way at a disk.
    queue: float
    #: Seconds from an answer to the next request.
    turn: float
    disks: float
    seconds: float = 1e9
    most: float = 1e6


@cache
def _closed_loop() -> ctypes.CDLL:
    sources = [Path(__file__).parent / "loop.c", SOURCES / "physics.c", SOURCES / "ftl.c"]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "loop.so"
        command = [
            "gcc",
            "-O3",
            "-march=native",
            "-fPIC",
            "-shared",
            f"-I{SOURCES}",
            "-o",
            str(target),
            *map(str, sources),
            "-lm",
        ]
        subprocess.run(command, check=True)
        code = ctypes.CDLL(str(target))
    code.closed_loop.restype = ctypes.c_double
    return code


def simulate(library: Library, physics: Physics, work: Work) -> dict[Direction, Figures]:
    """Return what each direction reaches on fresh disks."""
    took = (ctypes.c_double * int(work.most))()
    reads, writes = ctypes.c_double(), ctypes.c_double()
    numbers = (ctypes.c_double * 9)(*astuple(work))
    lasted = _closed_loop().closed_loop(
        library.model(physics, int(work.size)), numbers, took, ctypes.byref(reads), ctypes.byref(writes)
    )
    parts: dict[Direction, list[float]] = {
        "read": took[: int(reads.value)],
        "write": took[int(work.most - writes.value) :],
    }
    return {what: _figures(part, lasted) for what, part in parts.items() if part}


def _figures(took: Sequence[float], seconds: float) -> Figures:
    ranked = sorted(took)
    at = [ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))] for share in PERCENTILES]
    return Figures(len(took) / seconds, sum(took) / len(took), ranked[-1], 0.0, tuple(at))
