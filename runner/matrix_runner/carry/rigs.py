"""The rig of a stack, facts of its disks, exclusive use of bare disks, tear-down of stacks that outlive their rig."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from matrix_runner.base.model import digest, written
from matrix_runner.base.process import run_to_end
from matrix_runner.carry.trial import SetUpFailed, tear_down_remains
from matrix_runner.hosts.agent.client import AgentLost
from matrix_runner.hosts.exclusive import DisksRefused, LeasedDisk
from matrix_runner.language.tune import target_kind
from matrix_runner.machines.base import Rig, RigLost, RigSpec
from matrix_runner.records.environment import DiskFacts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from matrix_runner.carry.recorder import Shelf
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.scripts.cell import StackScripts
    from matrix_runner.scripts.stack import StackView
    from matrix_runner.simdisks.disk import Disk
    from matrix_runner.space.space import Stack


def rig_spec(matrix: Matrix, stack: Stack, kernel: str | None) -> RigSpec:
    wish = matrix.machine
    modules = tuple(sorted({name for layer in stack.layers.value for name in layer.modules}))
    programs = tuple(sorted({name for layer in stack.layers.value for name in layer.programs}))
    powers = powers_of(stack)
    return RigSpec(
        *(matrix.every_disk(), kernel or stack.kernel, wish.cpus, wish.memory, modules, programs, powers),
        cmdline=stack.cmdline,
    )


def specs_of(matrix: Matrix, stacks: Iterable[Stack], kernel: str | None) -> Iterator[RigSpec]:
    return (rig_spec(matrix, stack, kernel) for stack in stacks)


def simulated_disk_facts(disk: Disk) -> DiskFacts:
    link = f"{disk.link.name}, {disk.link.rate / 1e6:g} MB/s" if disk.link else ""
    if disk.physics is None:
        return DiskFacts(size=disk.size, bus=disk.bus, link=link)
    kind, numbers = disk.physics.kind, digest(disk.physics.characteristics).hex()
    return DiskFacts(
        size=disk.size,
        bus=disk.bus,
        model=kind,
        name=disk.model,
        fitted_to=disk.fitted_to,
        digest=numbers,
        link=link,
    )


def powers_of(stack: Stack) -> tuple[str, ...]:
    settings = [name for tune in stack.tunes for name in written(tune.value)]
    needed = {
        "faults": bool(stack.faults),
        "host": not all(target_kind(name, top="disk") for name in settings),
    }
    return tuple(name for name, is_needed in needed.items() if is_needed)


@asynccontextmanager
async def opened_exclusively(leased: Mapping[str, LeasedDisk], stack: StackView) -> AsyncIterator[None]:
    """Open the leased bare disks of a stack. Raise SetUpFailed if another program uses one, or RigLost."""
    disks = [leased[disk] for disk in stack.bare if disk in leased]
    if not disks:
        yield
        return
    try:
        await run_to_end(asyncio.to_thread(_acquire, disks))
        yield
    finally:
        await run_to_end(asyncio.to_thread(_release, disks))


def _acquire(disks: Sequence[LeasedDisk]) -> None:
    refusals: list[str] = []
    for one in disks:
        try:
            one.reacquire()
        except DisksRefused as refused:
            refusals += (f"{one.declared.id} is {why}" for why in refused.refusals)
        except AgentLost as gone:
            raise RigLost(gone.brief, tail=gone.details) from gone
    if refusals:
        raise SetUpFailed(f"other programs use disks of this stack: {'; '.join(refusals)}")


def _release(disks: Sequence[LeasedDisk]) -> None:
    for one in disks:
        one.release()


class Teardowns:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._built: dict[str, StackScripts] = {}
        self.leftovers: dict[str, StackScripts] = {}  # of lost rigs

    def keep(self, stack: str, scripts: StackScripts) -> None:
        """Save the scripts of a stack before it is built, because it may outlive its rig and this process."""
        self._shelf.keep_tear_down(stack, scripts.tear_down)
        self._built[stack] = scripts

    def lose(self, stack: str) -> None:
        if scripts := self._built.pop(stack, None):
            self.leftovers[stack] = scripts

    def forget(self, stack: str) -> None:
        built, leftover = self._built.pop(stack, None), self.leftovers.pop(stack, None)
        if built or leftover:
            self._shelf.forget_tear_down(stack)

    async def tear_down_leftovers(self, rig: Rig) -> None:
        """Take the remaining stacks apart; if one fails, the next set-up reports it."""
        for stack, scripts in list(self.leftovers.items()):
            if await tear_down_remains(rig, scripts):
                self.forget(stack)
