"""Impossible cells: sizes that do not fit, faults that come too late. Excluded cells may be impossible."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from runner.base.quantities import format_time
from runner.space.layouts import top_of
from runner.space.memory import check_stripe_caches
from runner.space.notes import few
from runner.space.select import Ruled, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.language.workload import Workload
    from runner.language.yaml_source import Flaw
    from runner.space.layouts import Findings
    from runner.space.space import Array, Space
    from runner.space.variants import Coords, Variant


def find_flaws(space: Space, findings: Findings) -> list[Flaw]:
    """Find everything impossible in a space, except in cells that its rules exclude."""
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
    """Report faults that would start after the end of all workloads."""
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
    """Yield the coordinates of an array with a workload in every spelling."""
    for stack, work in itertools.product((array.coords, *array.also), (workload.coords, *workload.also)):
        yield (*stack, *work)
