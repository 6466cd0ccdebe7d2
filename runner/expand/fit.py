"""What is impossible of the cells that are wanted: rules may leave out what a layout or a workload cannot do."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from runner.expand.layouts import top_of
from runner.expand.memory import check_stripe_caches
from runner.expand.notes import few
from runner.expand.select import Ruled, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.expand.layouts import Findings
    from runner.expand.space import Array, Space
    from runner.expand.variants import Coords, Variant
    from runner.model.source import Flaw
    from runner.model.workload import Workload


def flaws_of(space: Space, findings: Findings) -> list[Flaw]:
    """Everything impossible in a space, but for what its rules leave out."""
    ruled = Ruled.of(space.matrix, values_of(space))
    _check_fit(space, ruled, findings)
    check_stripe_caches(space, ruled, findings)
    flaws = [*findings.flaws, *(flaw for coords, flaw in findings.impossible if not ruled.out(coords))]
    return list(dict.fromkeys(flaws))


def _check_fit(space: Space, ruled: Ruled, findings: Findings) -> None:
    """A workload that is larger than a layout it would run on."""
    misfits: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for array in space.arrays:
        devices = len(top_of(array.stack.value, space.matrix))
        for workload in array.workloads:
            work = workload.value
            why = work.files_misfit(array.room) if array.in_files else work.misfit(array.room, devices)
            if why and not all(ruled.out(coords) for coords in spellings(array, workload)):
                place = dict(workload.coords)["workload"], why.field
                misfits.setdefault(place, []).append((array.label, why.message))
    for (name, field), found in misfits.items():
        where = few(label for label, _ in found)
        findings.flaw(("workloads", name, field), f"does not fit on {where}: {found[0][1]}")


def spellings(array: Array, workload: Variant[Workload]) -> Iterator[Coords]:
    """Where the cells of an array and a workload stand, however either was written."""
    for stack, work in itertools.product((array.coords, *array.stack.also), (workload.coords, *workload.also)):
        yield (*stack, *work)
