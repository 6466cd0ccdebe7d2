"""Limits on the number of cells, counted before any is made; and impossible cells: sizes, memory, late faults."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matrix_runner.base.findings import Findings, Flaw, Path, few, place_of
from matrix_runner.base.model import Coords, Variant, choices, distinct, written
from matrix_runner.base.quantities import format_size, format_time
from matrix_runner.language.find import written_workload
from matrix_runner.language.layouts import layers_of
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.tune import split
from matrix_runner.layers import Problem
from matrix_runner.layers.md import PAGE
from matrix_runner.space.select import Ruled, values_of
from matrix_runner.space.space import Space, Stack
from matrix_runner.space.variants import Layers, axis_names, top_of
from matrix_runner.work.fio.variants import PRESETS
from matrix_runner.work.jobs.variants import steps
from matrix_runner.work.pts.output import TESTS
from matrix_runner.work.workload import Workload

# Each limit keeps `matrix validate` below 10 s and 500 MB on two slow processors.
MOST_STACKS, MOST_TUNES, MOST_WORKLOADS = 5_000, 10_000, 10_000
MOST_PAIRS = 1_000_000  # of a stack and a workload: each is checked for its size
MOST_LINES = 1_000_000  # of fio jobs, for each variant and key of `set`; a job or key of a `jobs:` map counts as ten
MOST_RULES = 1_000_000  # a rule or guideline is compared with each stack, setting and workload
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    path: Path
    values: int


@dataclass(frozen=True, slots=True)
class Part:
    """One layout, the tunables or one workload: a variant for each combination of its axes."""

    axes: tuple[Axis, ...] = ()
    lines: int = 0  # of fio jobs
    jobs: int = 1

    @property
    def variants(self) -> int:
        return math.prod(axis.values for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Factor:
    """A sum of parts, like all workloads, for each combination of the common axes."""

    name: str
    parts: tuple[Part, ...]
    common: Part = Part()

    @property
    def variants(self) -> int:
        return self.common.variants * sum(part.variants for part in self.parts)

    def total(self, size: Callable[[Part], int]) -> int:
        return sum(part.variants * size(part) for part in self.parts)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (*self.common.axes, *max(self.parts, key=lambda part: part.variants).axes)


def factors(matrix: Matrix) -> tuple[Factor, Factor, Factor]:
    layouts = tuple(_layout(matrix, name) for name in matrix.layouts)
    machine = [(name, ("machine", name), getattr(matrix.machine, name) or ()) for name in ("kernel", "cmdline")]
    named = [*machine, ("faults", ("faults",), matrix.faults)]
    common = Part(tuple(Axis(name, path, len(set(values))) for name, path, values in named if values))
    tune = Part(tuple(_axes("tune.", ("tune",), written(matrix.tune))))
    workloads = tuple(_workload(name, written_workload(work)) for name, work in matrix.workloads.items())
    return Factor("stacks", layouts, common), Factor("sets of tunables", (tune,)), Factor("workloads", workloads)


def _layout(matrix: Matrix, name: str) -> Part:
    found: list[Axis] = []
    layers = layers_of(name, matrix.layouts[name])
    for axis, (path, _, layer) in zip(axis_names(kind for _, kind, _ in layers), layers, strict=True):
        found += _axes(f"{axis}.", path, written(layer))
    return Part(tuple(found))


def _workload(name: str, axes: Mapping[str, tuple[Any, ...]]) -> Part:
    base: Path = ("workloads", name)
    found = list(_axes("workload.", base, axes))
    if tests := [TESTS[preset] for preset in axes.get("preset", ()) if preset in TESTS]:
        points = max(len(test.mixes) * len(test.sizes) for test in tests)
        return Part((*found, Axis("workload.bs", base, max(len(test.sizes) for test in tests))), 12 * points, points)
    if presets := [str(preset) for preset in axes.get("preset", ())]:
        phases = max(len(PRESETS[preset].meant) for preset in presets)
        found += [] if "phase" in axes else [Axis("workload.phase", (*base, "preset"), phases)]
    keys = [name.split(".") for name in axes if name.startswith(("set.", "jobs."))]
    if files := axes.get("job"):
        sizes = [sum(len(section.options) + 1 for section in file.sections) for file in files]
        return Part(tuple(found), max(sizes) * (1 + len(keys)), max(len(file.sections) for file in files))
    jobs = len({job for _, job, *_ in keys})
    return Part(tuple(found), 10 * (len(keys) + jobs), max(1, jobs))


def _axes(prefix: str, base: Path, axes: Mapping[str, tuple[object, ...]]) -> Iterator[Axis]:
    for name, values in axes.items():
        yield Axis(f"{prefix}{name}", (*base, *steps(name)), len(distinct(values)))


def find_excess(matrix: Matrix) -> Iterator[Flaw]:
    """Report the first number of variants, or the number of cells, that is too large to be enumerated."""
    stacks, _, workloads = every = factors(matrix)
    ruled = len(matrix.exclude) + len(matrix.only)
    compared = (ruled + len(matrix.guidelines)) * sum(factor.variants for factor in every)
    cells = math.prod(factor.variants for factor in every)
    for factor, most in zip(every, (MOST_STACKS, MOST_TUNES, MOST_WORKLOADS), strict=True):
        if factor.variants > most:
            yield _excess([factor], f"{factor.name} are {factor.variants:,} variants; at most {most:,}")
            return
    if cells > matrix.max_cells:
        counted = f"{_product(every)} are {cells:,} cells; at most {matrix.max_cells:,} (max_cells)"
        remedy = ", or raise max_cells"
        if ruled:
            remedy += "; `exclude` and `only` do not change this count"
        yield _excess(every, counted, remedy)
    elif (lines := workloads.total(lambda part: part.lines)) > MOST_LINES:
        yield _excess([workloads], f"all variants of the jobs have {lines:,} lines; at most {MOST_LINES:,}")
    elif (pairs := stacks.variants * workloads.total(lambda part: part.jobs + ruled)) > MOST_PAIRS:
        by_rules = f" × {ruled + 1:,} (rules and 1)" if ruled else ""
        pair = (stacks, workloads)
        yield _excess(pair, f"{_product(pair)}{by_rules} are {pairs:,} checks of sizes; at most {MOST_PAIRS:,}")
    elif compared > MOST_RULES:
        rules = f"{ruled:,} rules and {len(matrix.guidelines):,} guidelines"
        counted = f"{rules} are compared with variants {compared:,} times; at most {MOST_RULES:,}"
        yield _excess(every, counted, ", or write fewer rules or guidelines")


def _product(several: Iterable[Factor]) -> str:
    return " × ".join(f"{factor.variants:,} {factor.name}" for factor in several)


def _excess(several: Iterable[Factor], counted: str, remedy: str = "") -> Flaw:
    axes = sorted((axis for factor in several for axis in factor.axes if axis.values > 1), key=lambda one: -one.values)
    shown = " × ".join(f"{axis.name} {axis.values:,}" for axis in axes[:_SHOWN])
    more = f" and {len(axes) - _SHOWN} more" if len(axes) > _SHOWN else ""
    multiply = f". The axes multiply: {shown}{more}" if axes else ""
    return Flaw(axes[0].path if axes else ("layouts",), f"{counted}{multiply}; remove values{remedy}")


_GIB = 2**30
#: Memory for the kernel and the tools. Without it the machine runs into the OOM killer or a panic.
_REST = 192 * 1024 * 1024


def check_stripe_caches(space: Space, ruled: Ruled, findings: Findings) -> None:
    """Report stripe caches that do not fit into memory: the kernel allocates all of their pages at once."""
    tune = written(space.matrix.tune)
    axes = {name: values for name, values in tune.items() if split(name)[1] == "stripe_cache_size"}
    sizes = ((stack, stack_memory(stack.layers.value).get("stripe_cache_size", 0)) for stack in space.stacks)
    cached = [(stack, size // PAGE) for stack, size in sizes if size]
    memory = space.matrix.machine.memory
    wrong: list[tuple[Path, int, int, str]] = []
    for choice in choices(axes):
        for name, pages in choice.values.items():
            coord = (f"tune.{name}", str(pages))
            used = [(count, stack.label) for stack, count in cached if not ruled.out((*stack.coords, coord))]
            devices, label = max(used, key=lambda count_and_label: count_and_label[0], default=(0, ""))
            if isinstance(pages, int) and pages * PAGE * devices > memory - _REST:
                wrong.append((place_of(("tune",), choice, name), pages, devices, label))
    # One remedy for all of them: a user who follows the first must not get the next error.
    most = max((pages * devices for _, pages, devices, _ in wrong), default=0)
    enough = format_size(-(-(most * PAGE + _REST) // _GIB) * _GIB)
    for path, pages, devices, label in wrong:
        need = f"{pages} pages for each of {devices} devices of {label} are {format_size(pages * PAGE * devices)}"
        limit = f"too much for a machine with {format_size(memory)} of memory"
        findings.flaw(path, f"'{pages}': {need}, {limit}; write machine: {{memory: {enough}}} or fewer pages")


def stack_memory(stack: Layers) -> Counter[str]:
    """Return the bytes of memory of each unit of a tunable."""
    return sum((Counter(layer.memory) for layer in stack), Counter[str]())


def find_flaws(space: Space, findings: Findings) -> list[Flaw]:
    ruled = Ruled.of(space.matrix, values_of(space))
    _check_fit(space, ruled, findings)
    _check_possible(space, ruled, findings)
    _check_faults(space, findings)
    check_stripe_caches(space, ruled, findings)
    flaws = [*findings.flaws, *(flaw for coords, flaw in findings.impossible if not ruled.out(coords))]
    return list(dict.fromkeys(flaws))


def _check_fit(space: Space, ruled: Ruled, findings: Findings) -> None:
    misfits: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for stack in space.stacks:
        tops = top_of(stack.layers.value, space.matrix)
        sector = max(top.sector for top in tops)
        for workload in stack.workloads:
            work = workload.value
            why = work.misfit(stack.room, None if stack.in_files else len(tops), sector)
            why = why or _trim_problem(work, stack, space.matrix) or _nvme_problem(work, stack, space.matrix)
            if why and not all(ruled.out(coords) for coords in spellings(stack, workload)):
                place = dict(workload.coords)["workload"], why.field
                misfits.setdefault(place, []).append((stack.label, why.message))
    for (name, field), found in misfits.items():
        where = few(label for label, _ in found)
        findings.flaw(("workloads", name, *field.split(".")), f"does not fit on {where}: {found[0][1]}")


def _check_possible(space: Space, ruled: Ruled, findings: Findings) -> None:
    found: dict[tuple[str, str, str], list[str]] = {}
    for stack, workload in ((where, one) for where in space.stacks for one in where.workloads):
        why = workload.value.why_impossible(stack.layers.value, has_faults=bool(stack.faults))
        if why and not all(ruled.out(coords) for coords in spellings(stack, workload)):
            found.setdefault((dict(workload.coords)["workload"], why.field, why.message), []).append(stack.label)
    for (name, field, message), labels in found.items():
        findings.flaw(("workloads", name, field), f"impossible on {few(labels)}: {message}")


def _trim_problem(work: Workload, stack: Stack, matrix: Matrix) -> Problem | None:
    """Return why a workload with trims cannot run on a stack. A device of a host is checked before the measurement."""
    if not work.trims:
        return None
    why = next((why for layer in stack.layers.value if (why := layer.why_no_trims)), "")
    if why or (not matrix.needs and any(disk.physics and not disk.physics.ages for disk in matrix.every_disk())):
        return work.trim_problem(why)
    return None


def _nvme_problem(work: Workload, stack: Stack, matrix: Matrix) -> Problem | None:
    """Return why a workload cannot send commands or polled requests. Disks of a host are checked before a trial."""
    key = work.nvme_key
    if key == "ioengine" and (layer := next((one.kind for one in stack.layers.value if not one.selects), "")):
        return Problem(key, f"io_uring_cmd goes to disks past all layers, and this stack has `{layer}`")
    if key and not matrix.needs and any(disk.bus != "nvme" for disk in matrix.every_disk()):
        return Problem(key, "only NVMe disks have it; write `bus: nvme` below `disks:`")
    return None


def _check_faults(space: Space, findings: Findings) -> None:
    works = [workload.value for workload, _ in space.workloads]
    longest = max((math.inf if work.runtime is None else work.ramp + work.runtime for work in works), default=math.inf)
    for name, faults in space.matrix.faults.items():
        for at, fault in enumerate(faults):
            if fault.at >= longest:
                path = ("faults", *((name,) if name else ()), at, "at")
                end = f"ramp and runtime are {format_time(longest)} at most"
                findings.flaw(path, f"every workload has ended by then: {end}")


def spellings(stack: Stack, workload: Variant[Workload]) -> Iterator[Coords]:
    return ((*one, *work) for one, work in itertools.product(stack.spellings, workload.spellings))
