"""The space of all cells of a matrix: its factors are held, its cells are made one at a time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from runner.expand.layouts import (
    Findings,
    Stack,
    capacity,
    disks_of,
    place_of,
    report_idle,
    stack_variants,
    without_idle,
)
from runner.expand.memory import check_stripe_caches
from runner.expand.variants import Coords, Variant, choices, collapsed, digest, label_of, nested, texts
from runner.model.axes import written
from runner.model.tune import Tune, impossible, meaningless
from runner.model.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.model.matrix import Matrix
    from runner.model.shape import Below
    from runner.model.source import Flaw


@dataclass(frozen=True, slots=True)
class Array:
    """A stack on a kernel: what is built once for all cells that share it."""

    kernel: str | None
    disks: Below
    stack: Variant[Stack]
    tunes: tuple[Variant[Tune], ...]
    coords: Coords
    label: str
    digest: bytes

    @property
    def key(self) -> str:
        """Stable name of the array."""
        return self.digest.hex()[:16]


@dataclass(frozen=True, slots=True)
class Cell:
    """One fully resolved combination."""

    id: str
    array: Array
    tune: Variant[Tune]
    workload: Variant[Workload]

    @property
    def name(self) -> str:
        """The one readable name, from the disks up to the work; also its folder."""
        return "/".join(filter(None, (self.array.label, self.tune.label, self.workload.label)))

    @property
    def axes(self) -> dict[str, str]:
        """Where it stands on every axis it has."""
        return dict((*self.array.coords, *self.tune.coords, *self.workload.coords))


@dataclass(frozen=True)
class Space:
    """All cells of a matrix, lazily."""

    matrix: Matrix
    arrays: tuple[Array, ...]
    workloads: tuple[Variant[Workload], ...]
    notes: tuple[str, ...]

    def pairs(self, array: Array) -> Iterator[tuple[Variant[Tune], Variant[Workload]]]:
        """What is measured on one array."""
        return itertools.product(array.tunes, self.workloads)

    def cells(self) -> Iterator[Cell]:
        """Every cell, in declared order."""
        for array in self.arrays:
            for tune, workload in self.pairs(array):
                yield cell_of(array, tune, workload)

    def count(self) -> int:
        """How many there are, without making one."""
        return sum(len(array.tunes) for array in self.arrays) * len(self.workloads)


def cell_of(array: Array, tune: Variant[Tune], workload: Variant[Workload]) -> Cell:
    """The cell of an array, its tunables and a workload; its id is a hash of what they are."""
    return Cell(blake2b(array.digest + tune.digest + workload.digest, digest_size=8).hexdigest(), array, tune, workload)


def expand(matrix: Matrix, *, whole: bool = True) -> tuple[Space, list[Flaw]]:
    """The space of a matrix and all that is impossible in it; not `whole` where malformed parts were cut out."""
    findings = Findings()
    stacks = stack_variants(matrix, findings)
    workloads = collapsed(
        itertools.chain.from_iterable(_workloads(matrix, name, findings) for name in matrix.workloads)
    )
    tunes = _Tunes(matrix, stacks, findings, whole=whole)
    _check_fit(matrix, stacks, workloads, findings)
    check_stripe_caches(matrix, stacks, findings)
    arrays = tuple(
        _array(matrix, kernel, stack, tunes.of(stack))
        for kernel in matrix.machine.kernel or (None,)
        for stack in stacks
    )
    return Space(matrix, arrays, workloads, tuple(findings.notes)), list(dict.fromkeys(findings.flaws))


def _array(matrix: Matrix, kernel: str | None, stack: Variant[Stack], tunes: tuple[Variant[Tune], ...]) -> Array:
    kernels = matrix.machine.kernel or ()
    label = "/".join(filter(None, (kernel.replace("/", "_") if kernel and len(kernels) > 1 else "", stack.label)))
    coords = (*((("kernel", kernel),) if kernel else ()), *stack.coords)
    disks = [[disk.size, disk.bus, disk.model] for disk in matrix.disks.each()]
    return Array(kernel, disks_of(matrix), stack, tunes, coords, label, digest([kernel, disks, stack.digest.hex()]))


def _workloads(matrix: Matrix, name: str, findings: Findings) -> Iterator[Variant[Workload]]:
    axes = written(matrix.workloads[name])
    seen: list[dict[str, str]] = []
    several = [f"workload.{axis}" for axis, values in axes.items() if len(values) > 1]
    for choice in choices(axes):
        values, idle = without_idle(Workload, choice)
        seen.append(idle)
        workload = Workload.model_construct(**nested(values)).settled()
        problems = list(workload.problems())
        for problem in problems:
            findings.flaw(place_of(("workloads", name), choice, problem.field), problem.message)
        if not problems:
            coords = (
                ("workload", name),
                *((f"workload.{axis}", text) for axis, text in texts(workload, values).items()),
            )
            label = "/".join(filter(None, (name, label_of(coords, several))))
            yield Variant(workload, coords, label, digest(workload.model_dump(mode="json", exclude_defaults=True)))
    report_idle(("workloads", name), axes, seen, findings, f"workload {name}")


class _Tunes:
    """The tunables of each stack: only those that mean something there, computed once for each set of them."""

    def __init__(self, matrix: Matrix, stacks: tuple[Variant[Stack], ...], findings: Findings, *, whole: bool) -> None:
        self.axes = written(matrix.tune)
        self.disks = matrix.disks.each()
        self.known: dict[frozenset[str], tuple[Variant[Tune], ...]] = {}
        for name in self.axes:
            self._report(name, stacks, findings, whole=whole)
        for choice in choices(self.axes):
            for field, message in impossible(Tune.model_construct(**choice.values), self.disks).items():
                findings.flaw(place_of(("tune",), choice, field), f"'{choice.values[field]}': {message}")

    def _report(self, name: str, stacks: tuple[Variant[Stack], ...], findings: Findings, *, whole: bool) -> None:
        without = [(stack, why) for stack in stacks if (why := meaningless(name, stack.value, self.disks))]
        if without and len(without) == len(stacks) and whole:
            findings.flaw(("tune", name), f"nothing uses '{name}': {without[0][1]}")
        elif without:
            where = _few(dict(stack.coords)["layout"] for stack, _ in without)
            findings.notes.append(f"{name} is no axis for {where}: {without[0][1]}")

    def of(self, stack: Variant[Stack]) -> tuple[Variant[Tune], ...]:
        """The variants for a stack."""
        meant = frozenset(name for name in self.axes if not meaningless(name, stack.value, self.disks))
        if meant not in self.known:
            self.known[meant] = collapsed(self._variants(meant))
        return self.known[meant]

    def _variants(self, meant: frozenset[str]) -> Iterator[Variant[Tune]]:
        axes = {name: values for name, values in self.axes.items() if name in meant}
        several = [f"tune.{name}" for name, values in axes.items() if len(values) > 1]
        for choice in choices(axes):
            tune = Tune.model_construct(**choice.values)
            coords = tuple((f"tune.{name}", text) for name, text in texts(tune, axes).items())
            set_values = {name: value for name, value in choice.values.items() if value != "default"}
            yield Variant(tune, coords, label_of(coords, several), digest(set_values))


def _check_fit(
    matrix: Matrix, stacks: tuple[Variant[Stack], ...], workloads: tuple[Variant[Workload], ...], findings: Findings
) -> None:
    """A workload that is larger than a layout it would run on."""
    for workload in workloads:
        misfits = [(stack, why) for stack in stacks if (why := workload.value.too_large(capacity(stack.value, matrix)))]
        if misfits:
            name = dict(workload.coords)["workload"]
            where = _few(stack.label for stack, _ in misfits)
            findings.flaw(("workloads", name, "size"), f"does not fit on {where}: {misfits[0][1]}")


def _few(labels: Iterable[str]) -> str:
    """At most five of them by name."""
    unique = list(dict.fromkeys(labels))
    return ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
