"""The space of all cells of a matrix. Cells are made one at a time, from the factors."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from matrix_runner.base.findings import Findings, Flaw, Note, Path, drop_idle, few, place_of, report_idle
from matrix_runner.base.model import (
    Coords,
    Variant,
    choices,
    collapsed,
    constructed,
    digest,
    label_of,
    safe,
    texts,
    written,
)
from matrix_runner.base.quantities import format_size
from matrix_runner.language.disks import UNNAMED
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.period import of_period
from matrix_runner.language.tune import Tune, clashes, exclusive, impossible, meaningless, split, used
from matrix_runner.layers.geometry import Below, losses_of
from matrix_runner.simdisks.disk import Fault, slow_of
from matrix_runner.space.variants import Layers, Workloads, disks_at_work, disks_of, levels, stack_variants, top_of
from matrix_runner.work.fio.bounds import TRIMS
from matrix_runner.work.fio.keys import FileSet
from matrix_runner.work.workload import Workload


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack on a kernel, with faults: built once for all cells that share it."""

    kernel: str | None
    cmdline: str
    disks: Below
    layers: Variant[Layers]
    faults: tuple[Fault, ...]  # faults of its disks in every trial. With faults, each trial sets up the stack again.
    tunes: tuple[Variant[Tune], ...]
    workloads: tuple[Variant[Workload], ...]
    coords: Coords
    also: tuple[Coords, ...]  # the coordinates of other spellings
    label: str
    digest: bytes
    room: int  # usable bytes at the top of the stack: a file system, or one or several devices
    tops: int  # number of devices at the top
    in_files: bool
    slow: int = 1  # how many times slower than real time its disks work
    width: int = 1  # number of disks that one large request keeps busy
    losses: int | None = 0  # how many disks may fail, whichever they are, before data is lost; None if unknown

    @property
    def spellings(self) -> tuple[Coords, ...]:
        return (self.coords, *self.also)

    @property
    def assumes_zeros(self) -> bool:
        return any(layer.assumes_zeros for layer in self.layers.value)

    @property
    def key(self) -> str:
        return self.digest.hex()[:16]


@dataclass(frozen=True, slots=True)
class Cell:
    stack: Stack
    tune: Variant[Tune]
    workload: Variant[Workload]

    @property
    def id(self) -> str:
        # Computed on demand: a plan of a million cells does not need it.
        content = self.stack.digest + self.tune.digest + self.workload.digest
        return blake2b(content, digest_size=8).hexdigest()

    @property
    def name(self) -> str:
        """The readable name, from the disks up to the workload. It is also the folder of the cell."""
        return "/".join(filter(None, (self.stack.label, self.tune.label, self.workload.label)))

    @property
    def work(self) -> Workload:
        """Return the workload on this stack. The sizes of a rebuild depend on the stack."""
        return self.workload.value.onto(levels(self.stack.layers.value, self.stack.disks))

    @property
    def files(self) -> FileSet | None:
        work = self.workload.value
        return work.fileset(self.stack.room) if self.stack.in_files and work.uses_files else None

    @property
    def leaves_files(self) -> bool:
        """Return whether a trial leaves its files as before on disk, so that other cells can use them again."""
        top, work = self.stack.layers.value[-1], self.workload.value
        return not (work.new or (work.write_share and not top.in_place))

    @property
    def span(self) -> int:
        return self.files.span if self.files else self.workload.value.span(self.stack.room, self.stack.tops)

    @property
    def axes(self) -> dict[str, str]:
        return dict((*self.stack.coords, *self.tune.coords, *self.workload.coords))


@dataclass(frozen=True)
class Space:
    matrix: Matrix
    stacks: tuple[Stack, ...]
    remarks: tuple[Note, ...]
    workloads: tuple[tuple[Variant[Workload], bool], ...]  # every different workload, and whether it uses files
    impossible: tuple[Coords, ...] = ()  # coordinates of impossible cells: rules may name them to exclude them

    @property
    def notes(self) -> tuple[str, ...]:
        return self.notes_on(self.matrix.layouts)

    def notes_on(self, layouts: Collection[str], *, simulated: bool = True) -> tuple[str, ...]:
        remarks = (remark.text_for(layouts) for remark in self.remarks if simulated or not remark.simulated)
        return tuple(filter(None, remarks))

    def pairs(self, stack: Stack) -> Iterator[tuple[Variant[Tune], Variant[Workload]]]:
        return itertools.product(stack.tunes, stack.workloads)

    def values_of(self, axis: str, workload: str) -> set[str]:
        """Return the values of an axis at one workload."""
        works = (work.coords for stack in self.stacks for work in stack.workloads)
        of_work = (coords for coords in works if ("workload", workload) in coords)
        others = (coords for stack in self.stacks for coords in (stack.coords, *(one.coords for one in stack.tunes)))
        return {value for coords in (*of_work, *others) for name, value in coords if name == axis}

    def cells(self) -> Iterator[Cell]:
        return (Cell(stack, *pair) for stack in self.stacks for pair in self.pairs(stack))

    def count(self) -> int:
        return sum(len(stack.tunes) * len(stack.workloads) for stack in self.stacks)


def expand(matrix: Matrix) -> tuple[Space, Findings]:
    findings = Findings()
    for path, message in (*matrix.misplaced_disks(), *matrix.unknown_weights()):
        findings.flaw(path, message)
    declared = stack_variants(matrix, findings)
    workloads = Workloads(matrix, declared, findings)
    tunes = _Tunes(matrix, declared, findings)
    faulty = _faults(matrix)
    findings.notes += map(Note, (*_same_faults(faulty), *_same("layout", declared)))
    findings.notes += idle_tunables(matrix, workloads.every)
    findings.notes += map(Note, _same("workload", [work for work, _ in workloads.every]))
    findings.notes += _held_by_caches(matrix, declared, workloads.every)
    stacks = tuple(
        _stack(matrix, boot, layers, faults, tunes.of(layers), workloads.of(layers))
        for boot, layers, faults in itertools.product(_boots(matrix), declared, faulty)
    )
    impossible = tuple(coords for coords, _ in findings.impossible)
    return Space(matrix, stacks, tuple(findings.notes), workloads.every, impossible), findings


class Boot(NamedTuple):
    kernel: str | None
    cmdline: str  # more parameters of the kernel


def _boots(matrix: Matrix) -> tuple[Variant[Boot], ...]:
    kernels, lines = matrix.machine.kernel or (None,), matrix.machine.cmdline or (None,)
    several = len(set(kernels)) > 1, len(set(lines)) > 1  # a single value is not part of the names of cells
    return collapsed(
        Variant(
            Boot(kernel, "" if line == "default" else line or ""),
            tuple((axis, value) for axis, value in (("kernel", kernel), ("cmdline", line)) if value),
            "/".join([*[_name_of(kernel or "")] * several[0], *[f"cmdline={safe(line or '')}"] * several[1]]),
            digest([kernel, line]),
        )
        for kernel, line in itertools.product(kernels, lines)
    )


def _name_of(kernel: str) -> str:
    # A path may begin with dots, and the folders `.` and `..` must not become names.
    return safe(kernel).lstrip(".") or "_"


def _faults(matrix: Matrix) -> tuple[Variant[tuple[Fault, ...]], ...]:
    sets = matrix.fault_sets()
    return collapsed(
        Variant(
            faults,
            (("faults", name),) if name else (),
            f"faults={safe(name)}" if len(sets) > 1 else "",
            digest([fault.content() for fault in faults]),
        )
        for name, faults in sets.items()
    )


def _same_faults(variants: Iterable[Variant[tuple[Fault, ...]]]) -> Iterator[str]:
    """Report sets of faults with several names: they are measured once."""
    for variant in variants:
        first, *others = [dict(coords).get("faults", UNNAMED) for coords in variant.spellings]
        if others:
            be, count = ("are", "count") if len(others) > 1 else ("is", "counts")
            yield f"faults: {' and '.join(others)} {be} the same as {first}, and {count} once"


def _same(axis: str, variants: Iterable[Variant[Any]]) -> Iterator[str]:
    pairs: Counter[tuple[str, str]] = Counter()
    for one in variants:
        first, *others = dict.fromkeys(dict(coords)[axis] for coords in one.spellings)
        pairs.update((first, other) for other in others)
    for (first, other), times in pairs.items():
        where = f" {times} times" if times > 1 else ""
        yield f"{axis} {other} is the same as {first}{where}: it is measured once, as {first}"


def _held_by_caches(
    matrix: Matrix, stacks: Iterable[Variant[Layers]], workloads: Iterable[tuple[Variant[Workload], bool]]
) -> Iterator[Note]:
    """Name the workloads whose data the caches of the simulated disks can hold."""
    disks = matrix.every_disk()
    caches = (sum(disk.physics.cache for disk in used(stack.value, disks) if disk.physics) for stack in stacks)
    cache, sizes = max(caches, default=0), dict[str, int]()
    for work, in_files in workloads if cache else ():  # a workload that also has a larger size compares them
        name, size = dict(work.coords)["workload"], work.value.fixed_size(in_files=in_files) or cache + 1
        sizes[name] = max(size, sizes.get(name, 0))
    if held := [name for name, size in sizes.items() if size <= cache]:
        text = f"the caches of the disks hold up to {format_size(cache)}, so perhaps all data of workload {few(held)}"
        yield Note(f"{text}; write a larger `size` to measure the disks", simulated=True)


def _stack(
    matrix: Matrix,
    boot: Variant[Boot],
    layers: Variant[Layers],
    faults: Variant[tuple[Fault, ...]],
    tunes: tuple[Variant[Tune], ...],
    workloads: tuple[Variant[Workload], ...],
) -> Stack:
    # `file`: disks had this content before there were models, and cell ids must not change.
    disks = [
        (disk.size, disk.bus, disk.physics.content() if disk.physics else "file")
        + ((disk.link.name, disk.link.rate) if disk.link else ())
        + (("slow", disk.slow) if disk.slow > 1 else ())
        for disk in matrix.every_disk()
    ]
    coords, *also = (
        tuple(itertools.chain(*spelling))
        for spelling in itertools.product(*(part.spellings for part in (boot, layers, faults)))
    )
    top = top_of(layers.value, matrix)
    return Stack(
        kernel=boot.value.kernel,
        cmdline=boot.value.cmdline,
        disks=disks_of(matrix),
        layers=layers,
        faults=faults.value,
        tunes=tunes,
        workloads=workloads,
        coords=coords,
        also=tuple(also),
        label="/".join(filter(None, (boot.label, layers.label, faults.label))),
        # Parts that were added later count only where they are used, so that ids of cells stay.
        digest=digest(
            [boot.value.kernel, disks, layers.digest.hex()]
            + ([faults.digest.hex()] if faults.value else [])
            + (["cmdline", boot.value.cmdline] if boot.value.cmdline else [])
        ),
        room=sum(shape.size for shape in top),
        tops=len(top),
        in_files=any(shape.files for shape in top),
        slow=slow_of(matrix.every_disk()),
        width=disks_at_work(layers.value, disks_of(matrix)),
        losses=losses_of(top, 0),
    )


class _Tunes:
    def __init__(self, matrix: Matrix, stacks: tuple[Variant[Layers], ...], findings: Findings) -> None:
        self.axes = written(matrix.tune)
        self.disks = matrix.every_disk()
        self.known: dict[frozenset[str], tuple[Variant[Tune], ...]] = {}
        for name in self.axes:
            self._report(name, stacks, findings)
        for name, message in exclusive(self.axes):
            findings.flaw(_path_of(name), message)
        self._check_clashes(stacks, findings)
        seen: list[dict[str, str]] = []
        on = tuple({disk for stack in stacks for disk in used(stack.value, self.disks)})
        for choice in choices(self.axes):
            values, idle = drop_idle(Tune, choice)
            seen.append(idle)
            for name, message in impossible(values, on).items():
                findings.flaw(place_of(("tune",), choice, name), f"'{values[name]}': {message}")
        report_idle(("tune",), self.axes, seen, findings, Note("tune"))

    def _report(self, name: str, stacks: tuple[Variant[Layers], ...], findings: Findings) -> None:
        without = [(stack, why) for stack in stacks if (why := meaningless(name, stack.value, self.disks))]
        if without and len(without) == len(stacks):
            findings.unused.append(Flaw(_path_of(name), f"'{name}' has no effect: {without[0][1]}"))
        elif without:
            where = tuple(dict(stack.coords)["layout"] for stack, _ in without)
            findings.notes.append(Note(f"{name} is not an axis for ", where, f": {without[0][1]}"))

    def _check_clashes(self, stacks: tuple[Variant[Layers], ...], findings: Findings) -> None:
        found: dict[tuple[str, str], list[str]] = {}
        for stack in stacks:
            for pair in clashes(self._meant(stack), stack.value):
                found.setdefault(pair, []).append(dict(stack.coords)["layout"])
        for (later, earlier), where in found.items():
            message = f"'{later}' and '{earlier}' set the same file of the same devices of {few(where)}; keep one"
            findings.flaw(_path_of(later), message)

    def _meant(self, stack: Variant[Layers]) -> list[str]:
        return [name for name in self.axes if not meaningless(name, stack.value, self.disks)]

    def of(self, stack: Variant[Layers]) -> tuple[Variant[Tune], ...]:
        meant = frozenset(self._meant(stack))
        if meant not in self.known:
            self.known[meant] = collapsed(self._variants(meant))
        return self.known[meant]

    def _variants(self, meant: frozenset[str]) -> Iterator[Variant[Tune]]:
        axes = {name: values for name, values in self.axes.items() if name in meant}
        several = [f"tune.{name}" for name, values in axes.items() if len(values) > 1]
        for choice in choices(axes):
            values, _ = drop_idle(Tune, choice)
            tune = constructed(Tune, values)
            coords = tuple((f"tune.{name}", text) for name, text in texts(tune, values).items())
            set_values = {name: value for name, value in values.items() if value != "default"}
            yield Variant(tune, coords, label_of(coords, several), digest(set_values))


def _path_of(tunable: str) -> Path:
    return ("tune", *tunable.split("."))


_READS = "it acts on buffered reads only (`direct: false`)"
_WRITES = "it acts on buffered writes only (`direct: false`)"
_CACHED = "it acts on buffered I/O only (`direct: false`)"
_FILES = "it acts on file systems and buffered I/O only"
#: Buses with one queue per CPU. The kernel's default for several queues is no scheduler.
_UNSCHEDULED = frozenset({"virtio", "nvme"})


def idle_tunables(matrix: Matrix, workloads: Iterable[tuple[Variant[Workload], bool]]) -> Iterator[Note]:
    works = list(workloads)
    buses = {disk.bus for disk in matrix.every_disk()}
    # Physical disks have their own bus. The one that `disks:` declares does not count.
    unscheduled = not matrix.needs and buses <= _UNSCHEDULED and matrix.machine.cpus > 1
    period = of_period(matrix.period)
    for name, values in written(matrix.tune).items():
        if set(values) in ({"default"}, {period.get(name)}):
            continue
        yield from _idle_for(name, len(values), works)
        if unscheduled and split(name)[1] == "scheduler" and {"default", "none"} <= set(values):
            where = " and ".join(sorted(buses))
            text = f"{name}: default and none are the same for disks on {where}: none is the kernel's default"
            yield Note(text, simulated=True)


def _idle_for(name: str, values: int, works: list[tuple[Variant[Workload], bool]]) -> Iterator[Note]:
    reasons: dict[str, set[str]] = {}
    for work, in_files in works:
        reasons.setdefault(dict(work.coords)["workload"], set()).add(no_effect(name, work.value, in_files=in_files))
    idle = [one for one, why in reasons.items() if "" not in why]
    if idle and (values > 1 or len(idle) == len(reasons)):
        (why, *_) = reasons[idle[0]]
        which = "any workload" if len(idle) == len(reasons) else f"workload {few(idle)}"
        again = f"; its {values} values give the same result" if values > 1 else ""
        yield Note(f"{name} has no effect on {which}: {why}{again}")


def no_effect(tunable: str, work: Workload, *, in_files: bool) -> str:
    key = split(tunable)[1]
    buffered = not work.direct
    if key == "readahead":
        # mmap reads a page before it writes to it.
        reads = (work.write_share < 1 and work.rw not in TRIMS) or work.ioengine == "mmap"
        return "" if buffered and reads else _READS
    if key == "wbt_lat_usec" or key.startswith("vm.dirty_"):
        cached = buffered or (in_files and work.new)  # new files have metadata, which is always cached
        return "" if cached and work.write_share else _WRITES
    if key == "vm.swappiness":
        return "" if buffered else _CACHED
    if key == "vm.vfs_cache_pressure":
        return "" if buffered or in_files else _FILES
    return ""
