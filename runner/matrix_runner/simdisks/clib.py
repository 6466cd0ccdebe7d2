"""The C code of simulated disks: built once into the cache, and called by ctypes."""

import ctypes
import functools
import hashlib
import math
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from matrix_runner.base.cache import cache_dir, make_once
from matrix_runner.base.digests import DIGESTS
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.simdisks.disk import Fault, FaultKind, Physics

SOURCES = Path(__file__).parent / "server"
PLUGIN, LIBRARY, ANSWERS = "disk.so", "physics.so", "answers.so"
MOST_ZONES = 64
_PHYSICS = ("physics.c", "ftl.c", "board.c", "bus.c")


def sources() -> list[Path]:
    return sorted(SOURCES.glob("*.[ch]"))


async def build_library(notice: Callable[[str], None] = lambda _: None) -> Path:
    # The library depends on the processor architecture and the C library.
    content = b"\0".join(
        (
            " ".join((*platform.libc_ver(), platform.machine(), DIGESTS)).encode(),
            *(one.read_bytes() for one in sources()),
        )
    )
    folder = cache_dir() / "disks" / hashlib.blake2b(content, digest_size=8).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    return await make_once(folder, _compile, "the code of the simulated disks", notice)


async def _compile(folder: Path) -> None:
    for target, names in (
        (LIBRARY, (*_PHYSICS, "loop.c")),
        (PLUGIN, (*_PHYSICS, "plugin.c")),
        (ANSWERS, ("answers.c",)),
    ):
        sources = [str(SOURCES / name) for name in names]
        command = ["gcc", "-O2", "-fPIC", "-shared", "-o", str(folder / target), *sources, "-lm", "-lpthread"]
        done = run(command, env={**os.environ, "TMPDIR": str(folder)})  # that of the user may be full
        if done.returncode:
            raise HarnessBroken(
                "the disks' C code does not compile here",
                details=done.stderr[-2000:],
                resolution="apt install gcc libc6-dev nbdkit-plugin-dev",
            )


class _Zone(ctypes.Structure):
    _fields_ = (("end", ctypes.c_double), ("rate", ctypes.c_double))


@dataclass(frozen=True, slots=True)
class Report:
    """All that a disk has done since its rig started: the fields of `struct report` in board.h. Times are seconds."""

    reads: int
    writes: int
    flushes: int
    read_bytes: int
    written_bytes: int
    seeks: int
    hits: int
    copied_bytes: int  # moved by an ageing SSD to make room for writes
    busy: float  # time in which the medium worked for the host
    occupied: float
    late: float  # sums over requests: how late answers were against the model, and the model's time
    owed: float
    failed: int
    idle: float  # of the whole board: time in which all disks were idle
    starved: float  # of this disk: time without a request, since an answer of any disk, that delayed answers
    waited: float = 0.0  # of the whole rig: seconds for which threads of its machine waited for a processor of the host


_KEPT = tuple(one for one in fields(Report) if one.name != "waited")


class _Report(ctypes.Structure):
    _fields_ = tuple((one.name, ctypes.c_uint64 if one.type is int else ctypes.c_double) for one in _KEPT)


#: In the order of the constants in board.h.
FAULTS: tuple[FaultKind, ...] = ("dies", "slow", "stalls", "medium", "corrupt")


class _Fault(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_double) for name in ("disk", "kind", "from_", "until", "factor", "start", "end"))


class Library:
    def __init__(self, folder: Path) -> None:
        self.plugin = folder / PLUGIN
        self.c = ctypes.CDLL(str(folder / LIBRARY))
        pointer, real = ctypes.c_void_p, ctypes.c_double
        for name, result, arguments in (
            ("physics_field", ctypes.POINTER(real), [pointer, ctypes.c_char_p]),
            ("closed_loop", real, [pointer] * 5),
            ("board_made", pointer, [ctypes.c_int, real]),
            ("board_left", None, [pointer]),
            ("board_bus", None, [pointer, ctypes.c_int, real]),
            ("board_slower", None, [pointer, real]),
            ("board_clock", real, [pointer]),
            ("board_fault", ctypes.c_int, [pointer, pointer]),
            ("board_report", None, [pointer, ctypes.c_int, pointer]),
        ):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    def model(self, physics: Physics, size: int) -> ctypes.Array[ctypes.c_char]:
        zones = (_Zone * MOST_ZONES)(*(_Zone(*zone) for zone in physics.zones))
        first = ctypes.c_double(len(physics.zones))
        numbers = int(ctypes.c_int.in_dll(self.c, "physics_numbers").value)
        memory = ctypes.create_string_buffer((numbers + 1) * 8 + ctypes.sizeof(zones))
        for name, value in physics.fields(size):
            field = self.c.physics_field(memory, name.encode())
            if not field:
                raise KeyError(name)
            field[0] = value
        ctypes.memmove(ctypes.addressof(memory) + numbers * 8, ctypes.byref(first), 8)
        ctypes.memmove(ctypes.addressof(memory) + (numbers + 1) * 8, zones, ctypes.sizeof(zones))
        return memory


@functools.lru_cache(maxsize=1)
def load_library(folder: Path) -> Library:
    return Library(folder)


class Board:
    """Clock, links, faults and counters that the disks of a rig share, in a file of the caller."""

    def __init__(self, library: Library, file: int, links: tuple[float, ...] = (), slow: int = 1) -> None:
        self._c = library.c
        self._board = self._c.board_made(file, slow)
        if not self._board:
            raise HarnessBroken("simulated disks cannot get shared memory", resolution="free some disk space or memory")
        for number, rate in enumerate(links):
            self._c.board_bus(self._board, number, rate)

    def close(self) -> None:
        self._c.board_left(self._board)

    def slow_down(self, slow: int) -> None:
        self._c.board_slower(self._board, slow)

    def add_fault(self, fault: Fault) -> None:
        kind = float(FAULTS.index(fault.kind))
        until = math.inf if fault.seconds is None else fault.at + fault.seconds
        raw = _Fault(fault.disk, kind, fault.at, until, fault.factor, *fault.where)
        if not self._c.board_fault(self._board, ctypes.byref(raw)):
            raise HarnessBroken("more faults than a rig can have")

    def clock(self) -> float:
        return float(self._c.board_clock(self._board))

    def report(self, disk: int) -> Report:
        raw = _Report()
        self._c.board_report(self._board, disk, ctypes.byref(raw))
        return Report(*(getattr(raw, one.name) for one in _KEPT))
