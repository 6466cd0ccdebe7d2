"""Times of work: measured constants, seconds after which work counts as hung, and the factors of slow motion."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf
from types import MappingProxyType

from matrix_runner.base.model import digest
from matrix_runner.language.matrix import Matrix
from matrix_runner.layers import Layer
from matrix_runner.layers.geometry import Below
from matrix_runner.machines.base import Processor
from matrix_runner.records.record import TrialFacts
from matrix_runner.simdisks.disk import Disk, Fault, Physics
from matrix_runner.space.space import Cell, Stack
from matrix_runner.space.variants import Layers, levels
from matrix_runner.work.slow import FACTORS
from matrix_runner.work.workload import Workload

MB = 10**6


@dataclass(frozen=True, slots=True)
class Step:
    seconds: float
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    bandwidth: float  # limit of the machine, bytes per second
    requests: float  # limit of the machine, requests per second
    trial: float  # seconds of a trial besides the run time of fio
    rig: float = 0.0  # seconds to start and stop a rig without disks
    disk: float = 0.0  # seconds more for each disk of a rig
    set_up: float = 0.0  # seconds to start the set-up
    layers: Mapping[str, Step] = field(default_factory=dict)
    first: float = 0.0  # seconds more for the first trial on a rig
    files: float = 0.0  # seconds more for a trial on files
    lay_out: float = 0.0  # seconds to lay files out
    #: Limits of devices that compute parity, encryption or checksums, bytes per second.
    computed: Mapping[str, float] = field(default_factory=dict)
    program: float = 3.0  # seconds to start the program and to write the reports
    waits: bool = True  # trials take real time
    measured: bool = False  # on such a host, not derived from another kind

    def slowed(self, factor: float) -> "Costs":
        """Scale the times of programs that get only a part of the processors. Times of fio and disks stay."""
        return replace(
            self,
            **{name: getattr(self, name) * factor for name in _OF_PROGRAMS},
            layers={kind: replace(step, seconds=step.seconds * factor) for kind, step in self.layers.items()},
            bandwidth=self.bandwidth / factor,
            requests=self.requests / factor,
            computed={kind: most / factor for kind, most in self.computed.items()},
        )

    def in_slow_motion(self, slow: int) -> "Costs":
        """Raise the limits of the machine, which are then in seconds of the disks; programs take as long as ever."""
        computed = {kind: most * slow for kind, most in self.computed.items()}
        return replace(self, bandwidth=self.bandwidth * slow, requests=self.requests * slow, computed=computed)


_OF_PROGRAMS = ("rig", "disk", "set_up", "trial", "first", "files", "lay_out", "program")

#: Measured on two processors of an AMD EPYC host without KVM, QEMU 7.2, beside no other work: 24 stacks on 1 to 6
#: disks, simulated and not.
EMULATED = Costs(
    rig=0.7,
    disk=0.02,
    set_up=0.44,
    layers=MappingProxyType(
        {
            "md": Step(0.8, 13),
            "lvm": Step(1.3, 25),
            "partition": Step(1.05, 12),
            "writecache": Step(0.6, 12),
            "bcache": Step(1.5, 12),  # this and the next two: estimated from the number of their steps
            "memory": Step(0.4, 10),
            "nvme-tcp": Step(0.8, 14),
            "crypt": Step(1.5, 12),
            "integrity": Step(2.0, 20),
            "fs": Step(0.4, 18),
            "zfs": Step(3.0, 40),
            "precondition": Step(1.8),
        }
    ),
    trial=0.66,
    first=0.45,
    files=0.15,
    lay_out=1.1,
    bandwidth=300 * MB,
    requests=12_000,
    computed=MappingProxyType({"parity": 120 * MB, "crypt": 60 * MB, "integrity": 60 * MB}),
    measured=True,
)
#: A tenth of the times under emulation.
VIRTUAL = Costs(
    rig=0.3,
    disk=0.02,
    set_up=0.05,
    layers=MappingProxyType({kind: replace(step, seconds=step.seconds / 10) for kind, step in EMULATED.layers.items()}),
    trial=0.15,
    first=0.05,
    files=0.05,
    lay_out=0.15,
    bandwidth=1500 * MB,
    requests=100_000,
    computed=MappingProxyType({"parity": 1500 * MB, "crypt": 1000 * MB, "integrity": 400 * MB}),
)
#: As a virtual machine without its start.
NATIVE = replace(VIRTUAL, rig=0.0, disk=0.0, requests=300_000)
#: The dry machine invents figures without waiting.
SYNTHETIC = Costs(bandwidth=200 * MB, requests=10_000, trial=0.02, rig=0.01, program=1.0, waits=False)
COSTS: Mapping[Processor, Costs] = MappingProxyType(
    {"emulated": EMULATED, "virtual": VIRTUAL, "native": NATIVE, "none": SYNTHETIC}
)


MIB = 2**20
_PAGE = 4096  # bytes of one flushed write


def sequential(stack: Stack, physics: Physics | None, costs: Costs, *, write: bool = True) -> float:
    each = physics.rate(MIB, random=False, write=write) if physics else inf
    return min(each * stack.width, _most(stack, costs, write=write))


def rate(work: Workload, stack: Stack, physics: Physics | None, costs: Costs) -> float:
    share = work.write_share
    seconds = 0.0
    for part, write in ((1 - share, False), (share, True)):
        if part:
            seconds += part / _one_way(work, stack, physics, costs, write=write)
    return 1 / seconds


def _one_way(work: Workload, stack: Stack, physics: Physics | None, costs: Costs, *, write: bool) -> float:
    random = work.rw.startswith("rand")
    if not (random or work.direct):
        return sequential(stack, physics, costs, write=write)  # the page cache merges small requests
    size = sum(work.sizes) // 2
    most = min(_most(stack, costs, write=write), costs.requests * size)
    if physics is None:
        return most
    under_way = work.under_way
    # A request that spans several chunks keeps several disks busy.
    busy = stack.width if not random else min(stack.width, under_way)
    return min(most, busy * physics.rate(size, random=random, write=write, depth=max(1.0, under_way / busy)))


def _most(stack: Stack, costs: Costs, *, write: bool) -> float:
    found = [costs.bandwidth]
    for layer in stack.layers.value:
        parity = write and getattr(layer, "level", None) in {4, 5, 6}
        found.append(costs.computed.get("parity" if parity else layer.kind, inf))
    return min(found)


def likeness(stack: Stack, costs: Costs) -> tuple[float, ...]:
    """Return what the costs of a workload depend on, unless it is a rebuild: equal for stacks of equal costs."""
    limits = (_most(stack, costs, write=write) for write in (False, True))
    return (stack.width, stack.room, stack.tops, stack.in_files, *limits)


def flushed_write(physics: Physics | None) -> float:
    return _PAGE / physics.rate(_PAGE, random=True, write=False) if physics else 0.0


GRACE = 120.0  # for scripts that only write and read sysfs, and for the start of fio, on a slow and loaded host
SET_UP = 900.0  # building layers starts many programs, and starts are slow on an emulated processor
_CRAWL = 10**6  # the slowest rate of a workload that can be measured, bytes/s
_SLOWEST_REQUEST = 0.05  # the longest request, unless the model of a disk has longer ones, seconds
_DIRTY_SHARE = 0.25  # the part of a machine's memory that may be dirty when fio ends
_DIRTY_PAGE = 4096  # the smallest request that writes dirty memory
_IN_TURN = 4  # serial requests to one disk for one request to a stack


def set_up(stack: Layers, disks: Below) -> float:
    return SET_UP + sum(layer.wait_seconds + _written(layer, below) / _CRAWL for layer, below in levels(stack, disks))


def _written(layer: Layer, below: Below) -> int:
    resync = getattr(layer, "sync", "") in {"auto", "wait"} and "sync" not in layer.idle(dict(layer))
    return layer.bytes_written(below) + (sum(device.size for device in below.devices) if resync else 0)


def expected(workload: Workload) -> float:
    return workload.ramp + (workload.runtime or 0.0)


def slowest_request(workload: Workload, disks: Iterable[Disk]) -> float:
    modelled = (disk.physics.slowest(workload.sizes[1]) for disk in disks if disk.physics)
    return max(_SLOWEST_REQUEST, _IN_TURN * max(modelled, default=0.0))


def deadline(workload: Workload, span: int, laid_out: int = 0, slowest: float = _SLOWEST_REQUEST) -> float:
    """Return the deadline of a trial. `span`: bytes of a job without run time; `slowest`: the longest request."""
    before = laid_out / _CRAWL + GRACE
    drained = slowest * workload.iodepth * workload.numjobs if workload.runtime is not None else 0.0
    load = workload.load(span)
    moving = load.passed / _CRAWL + load.requests * slowest
    return load.longest + load.restarts + drained + moving + before


def flush_seconds(workload: Workload, memory: int, slowest: float = _SLOWEST_REQUEST) -> float:
    if workload.direct or not workload.write_share:
        return 0.0
    dirty = memory * _DIRTY_SHARE
    return dirty / _CRAWL + (dirty / _DIRTY_PAGE * slowest if workload.rw.startswith("rand") else 0.0)


def with_faults(
    seconds: float, workload: Workload, faults: Sequence[Fault], slowest: float = _SLOWEST_REQUEST
) -> float:
    factor = max((fault.factor for fault in faults), default=1.0)
    drained = slowest * workload.iodepth * workload.numjobs * factor
    work = seconds + drained if workload.runtime is not None else seconds * factor
    return work + sum(GRACE + (fault.seconds or 0.0) for fault in faults)


_UNLIMITED = replace(COSTS["none"], bandwidth=1e18, requests=1e15)  # finite: an ideal disk has no limit
_FAR = 0.25  # a trial that lost more of its time skips a factor
_LITTLE = 0.25  # of the limit: a trial that lost less may do with half its factor


class Factors:
    """Choose the factor for each kind of cells: by what this host needed so far, before that by a formula.

    Cells are of a kind if they have the same workload and disks, and layers of the same kinds.
    """

    def __init__(
        self,
        matrix: Matrix,
        costs: Costs,
        known: Mapping[str, int] | None = None,
        keep: Callable[[str, int], None] = lambda _, __: None,
    ) -> None:
        models = [disk.physics for disk in matrix.every_disk() if disk.physics]
        self._fastest = max(models, key=lambda model: model.rate(2**20, random=False, write=False), default=None)
        # The phase of a platter is random.
        contents = [{**model.content(), "phase": 0} for model in models]
        self._disks = digest(contents).hex()
        self._costs, self._limit = costs, matrix.machine.strain
        ideal = not models or isinf(max(model.rate(1, random=False, write=False) for model in models))
        self._helps = costs.waits and not ideal
        self._known, self._keep = dict(known or {}), keep
        self._failed: dict[str, int] = {}  # the largest factor at which the host did not keep up
        self._kept_up: dict[str, int] = {}  # the smallest one at which it did
        self._possible: dict[bytes, tuple[int, ...]] = {}

    def of(self, cell: Cell) -> int:
        possible = self._possible_factors(cell)
        if len(possible) == 1:
            return possible[0]
        wanted = self._known.get(self._kind(cell)) or self._guess(cell)
        return possible[min(bisect_left(possible, wanted), len(possible) - 1)]

    def learn(self, cell: Cell, facts: TrialFacts) -> bool:
        """Learn from a trial. Return whether it was host-limited and can be measured again with a larger factor."""
        possible, kind, slow = self._possible_factors(cell), self._kind(cell), facts.slow
        lost = facts.host_limited_share if facts.lost is None else facts.lost
        if lost is None or slow not in possible:
            return False
        at, wanted = possible.index(slow), slow
        if facts.is_host_limited:
            self._failed[kind] = max(slow, self._failed.get(kind, 0))
            larger = possible[min(at + (2 if lost > _FAR else 1), len(possible) - 1)]
            known = self._kept_up.get(kind, 0)
            wanted = known if slow < known < larger else larger
        else:
            self._kept_up[kind] = min(slow, self._kept_up.get(kind, slow))
            if at and lost < _LITTLE * self._limit and possible[at - 1] > self._failed.get(kind, 0):
                wanted = possible[at - 1]
        if self._known.get(kind) != wanted:
            self._known[kind] = wanted
            self._keep(kind, wanted)
        return wanted > slow

    def _possible_factors(self, cell: Cell) -> tuple[int, ...]:
        """Return the factors at which fio can do the work of a cell, as far as one of them is of use."""
        key = cell.workload.digest
        if key not in self._possible:
            work = cell.work
            fits = [slow for slow in FACTORS if not any(work.slow_problems(slow))]
            self._possible[key] = tuple(fits) if self._helps else FACTORS[:1]
        return self._possible[key]

    def _guess(self, cell: Cell) -> float:
        """Return how many times more its disks can do than this host, if the speed of such hosts was ever measured."""
        if not self._costs.measured:
            return 1.0
        work, stack = cell.work, cell.stack
        return rate(work, stack, self._fastest, _UNLIMITED) / rate(work, stack, None, self._costs)

    def _kind(self, cell: Cell) -> str:
        layers = [
            (one.kind, getattr(one, "level", None), getattr(one, "type", None)) for one in cell.stack.layers.value
        ]
        shape = (self._disks, layers, cell.stack.width, cell.workload.digest.hex())
        return digest(shape).hex()[:16]
