"""Impossible cells: sizes that do not fit, too little memory, faults that come too late."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runner.base.quantities import format_size, format_time
from runner.language.axes import written
from runner.language.tune import split
from runner.layers import Md
from runner.layers.md import PARITY
from runner.space.layouts import Findings, Stack, place_of, top_of
from runner.space.notes import few
from runner.space.select import Ruled, values_of
from runner.space.variants import Coords, Variant, choices

if TYPE_CHECKING:
    from runner.language.workload import Workload
    from runner.language.yaml_source import Flaw, Path
    from runner.space.space import Array, Space

_PAGE = 4096
_GIB = 2**30
#: Memory for the kernel and the tools. Without it the machine runs into the OOM killer or a panic.
_REST = 192 * 1024 * 1024


def check_stripe_caches(space: Space, ruled: Ruled, findings: Findings) -> None:
    """Report stripe caches that do not fit into memory: the kernel allocates all of their pages at once."""
    axes = {
        name: values for name, values in written(space.matrix.tune).items() if split(name)[1] == "stripe_cache_size"
    }
    cached = [(array, count) for array in space.arrays if (count := _cached_devices(array.stack.value))]
    memory = space.matrix.machine.memory
    wrong: list[tuple[Path, int, int, str]] = []
    for choice in choices(axes):
        for name, pages in choice.values.items():
            meant = [
                (count, one.label)
                for one, count in cached
                if not ruled.out((*one.coords, (f"tune.{name}", str(pages))))
            ]
            devices, label = max(meant, key=lambda one: one[0], default=(0, ""))
            if isinstance(pages, int) and pages * _PAGE * devices > memory - _REST:
                wrong.append((place_of(("tune",), choice, name), pages, devices, label))
    # One remedy for all of them: a user who follows the first must not get the next error.
    enough = format_size(_machine_for(max((pages * devices for _, pages, devices, _ in wrong), default=0)))
    for path, pages, devices, label in wrong:
        findings.flaw(
            path,
            f"'{pages}': {pages} pages for each of {devices} devices of {label} are "
            f"{format_size(pages * _PAGE * devices)}, too much for a machine with {format_size(memory)} of memory; "
            f"write machine: {{memory: {enough}}} or fewer pages",
        )


def _machine_for(pages: int) -> int:
    return -(-(pages * _PAGE + _REST) // _GIB) * _GIB


def _cached_devices(stack: Stack) -> int:
    arrays = (layer for layer in stack if isinstance(layer, Md) and layer.level in PARITY)
    return sum((array.devices or 0) * array.groups for array in arrays)


def find_flaws(space: Space, findings: Findings) -> list[Flaw]:
    ruled = Ruled.of(space.matrix, values_of(space))
    _check_fit(space, ruled, findings)
    _check_faults(space, findings)
    check_stripe_caches(space, ruled, findings)
    flaws = [*findings.flaws, *(flaw for coords, flaw in findings.impossible if not ruled.out(coords))]
    return list(dict.fromkeys(flaws))


def _check_fit(space: Space, ruled: Ruled, findings: Findings) -> None:
    misfits: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for array in space.arrays:
        tops = top_of(array.stack.value, space.matrix)
        sector = max(top.sector for top in tops)
        for workload in array.workloads:
            work = workload.value
            why = work.files_misfit(array.room) if array.in_files else work.misfit(array.room, len(tops))
            why = why or work.unaligned(sector)
            if why and not all(ruled.out(coords) for coords in spellings(array, workload)):
                place = dict(workload.coords)["workload"], why.field
                misfits.setdefault(place, []).append((array.label, why.message))
    for (name, field), found in misfits.items():
        where = few(label for label, _ in found)
        findings.flaw(("workloads", name, field), f"does not fit on {where}: {found[0][1]}")


def _check_faults(space: Space, findings: Findings) -> None:
    works = [workload.value for workload, _ in space.workloads]
    longest = max((math.inf if work.runtime is None else work.ramp + work.runtime for work in works), default=math.inf)
    for name, faults in space.matrix.faults.items():
        for at, fault in enumerate(faults):
            if fault.at >= longest:
                path = ("faults", *((name,) if name else ()), at, "at")
                findings.flaw(
                    path,
                    f"every workload has ended by then: ramp and runtime are {format_time(longest)} at most",
                )


def spellings(array: Array, workload: Variant[Workload]) -> Iterator[Coords]:
    for stack, work in itertools.product((array.coords, *array.also), (workload.coords, *workload.also)):
        yield (*stack, *work)
