"""The factor of `slow: auto`: the first at which this host keeps up with the most demanding workloads."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.carry.rigs import rig_spec
from matrix_runner.carry.trial import StackOnRig
from matrix_runner.decide.costs import COSTS, rate
from matrix_runner.decide.estimate import costs_of
from matrix_runner.machines.base import KeepsRig
from matrix_runner.work.slow import FACTORS

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.decide.costs import Costs
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.machines.base import Machine
    from matrix_runner.session.selected_matrix import SelectedMatrix
    from matrix_runner.space.space import Cell

MOST_TRIED = 4  # workloads
_UNLIMITED = replace(COSTS["none"], bandwidth=1e18, requests=1e15)  # finite: an ideal disk has no limit


async def choose_slow(
    selected: SelectedMatrix, place: Machine, scratch: Path, kernel: str | None = None, own: Path | None = None
) -> int:
    """Measure one trial of each of the most demanding workloads, factor by factor, and record none of them."""
    try:
        for slow in FACTORS[:-1]:
            tried = selected.in_slow_motion(slow)
            for cell in most_demanding(tried, costs_of(place)):
                if not await _keeps_up(cell, tried.space.matrix, place, scratch, kernel, own):
                    break
            else:
                return slow
        return FACTORS[-1]
    finally:
        if isinstance(place, KeepsRig):
            await place.shut_down()


def most_demanding(selected: SelectedMatrix, costs: Costs) -> list[Cell]:
    """Return one cell of each workload: the one whose disks are fastest, compared with what the host can do."""
    models = [disk.physics for disk in selected.space.matrix.every_disk() if disk.physics]
    fastest = max(models, key=lambda model: model.rate(2**20, random=False, write=False))

    def demand(cell: Cell) -> float:
        work = cell.workload.value
        return rate(work, cell.stack, fastest, _UNLIMITED) / rate(work, cell.stack, None, costs)

    found: dict[str, Cell] = {}
    for stack in selected.stacks():
        for cell, _ in selected.selection.groups_of(stack):
            name = dict(cell.workload.coords)["workload"]
            found[name] = max(found.get(name, cell), cell, key=demand)
    return heapq.nlargest(MOST_TRIED, found.values(), key=demand)


async def _keeps_up(
    cell: Cell, matrix: Matrix, place: Machine, scratch: Path, kernel: str | None, own: Path | None
) -> bool:
    try:
        async with place.rig(rig_spec(matrix, cell.stack, kernel), scratch) as rig:
            built = await StackOnRig.build(matrix, cell.stack, rig, place, own)
            measured = await built.measure(cell, 1)
            if not place.disposable:
                await built.tear_down()
    except HarnessBroken:  # the run meets it again, and records it
        return True
    return not measured.facts.is_host_limited
