"""Limits on the number of cells and variants, counted before any is made."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matrix_runner.base.axes import written
from matrix_runner.base.findings import Flaw, Path
from matrix_runner.base.variants import distinct
from matrix_runner.language.find import written_workload
from matrix_runner.language.layouts import layers_of
from matrix_runner.language.matrix import Matrix
from matrix_runner.space.variants import axis_names
from matrix_runner.work.fio.variants import PRESETS
from matrix_runner.work.jobs.variants import steps
from matrix_runner.work.pts.specification import TESTS

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
