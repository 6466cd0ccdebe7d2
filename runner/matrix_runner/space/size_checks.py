"""Impossible cells: sizes that do not fit, too little memory, faults that come too late."""

import itertools
import math
from collections.abc import Iterator

from matrix_runner.base.axes import written
from matrix_runner.base.findings import Findings, Flaw, Path, few, place_of
from matrix_runner.base.quantities import format_size, format_time
from matrix_runner.base.variants import Coords, Variant, choices
from matrix_runner.language.matrix import Matrix
from matrix_runner.language.tune import split
from matrix_runner.layers import Md, Problem
from matrix_runner.layers.md import PARITY
from matrix_runner.space.select import Ruled, values_of
from matrix_runner.space.space import Space, Stack
from matrix_runner.space.variants import Layers, top_of
from matrix_runner.work.workload import Workload

_PAGE = 4096
_GIB = 2**30
#: Memory for the kernel and the tools. Without it the machine runs into the OOM killer or a panic.
_REST = 192 * 1024 * 1024


def check_stripe_caches(space: Space, ruled: Ruled, findings: Findings) -> None:
    """Report stripe caches that do not fit into memory: the kernel allocates all of their pages at once."""
    tune = written(space.matrix.tune)
    axes = {name: values for name, values in tune.items() if split(name)[1] == "stripe_cache_size"}
    cached = [(stack, count) for stack in space.stacks if (count := _count_cached_devices(stack.layers.value))]
    memory = space.matrix.machine.memory
    wrong: list[tuple[Path, int, int, str]] = []
    for choice in choices(axes):
        for name, pages in choice.values.items():
            coord = (f"tune.{name}", str(pages))
            used = [(count, stack.label) for stack, count in cached if not ruled.out((*stack.coords, coord))]
            devices, label = max(used, key=lambda count_and_label: count_and_label[0], default=(0, ""))
            if isinstance(pages, int) and pages * _PAGE * devices > memory - _REST:
                wrong.append((place_of(("tune",), choice, name), pages, devices, label))
    # One remedy for all of them: a user who follows the first must not get the next error.
    most = max((pages * devices for _, pages, devices, _ in wrong), default=0)
    enough = format_size(-(-(most * _PAGE + _REST) // _GIB) * _GIB)
    for path, pages, devices, label in wrong:
        need = f"{pages} pages for each of {devices} devices of {label} are {format_size(pages * _PAGE * devices)}"
        limit = f"too much for a machine with {format_size(memory)} of memory"
        findings.flaw(path, f"'{pages}': {need}, {limit}; write machine: {{memory: {enough}}} or fewer pages")


def _count_cached_devices(stack: Layers) -> int:
    mds = (layer for layer in stack if isinstance(layer, Md) and layer.level in PARITY)
    return sum((md.devices or 0) * md.groups for md in mds)


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
            why = why or _trim_problem(work, stack, space.matrix)
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
