"""Disks on which nothing is built, while they are measured.

The kernel has a disk for whoever builds on it, and refuses all others. What fio writes on as it is, the kernel has for
nobody: mkfs and mount would get it in the middle of a trial. So we have it ourselves, from set-up to tear-down: the
scripts of those may want it exclusively, as `wipefs` and `sfdisk` do, and nothing between them does.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from runner.base.uncancelled import run_to_end
from runner.engine.trial import SetUpFailed
from runner.hosts.agent.client import AgentLost
from runner.hosts.exclusive import DisksRefused
from runner.machines.base import RigLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from runner.hosts.exclusive import LeasedDisk
    from runner.scripts.stack import StackView


class BareDisks:
    """Such disks of a run. `lent`: by what scripts call them; virtual machines hold theirs themselves."""

    def __init__(self, lent: Mapping[str, LeasedDisk]) -> None:
        self._lent = lent

    @asynccontextmanager
    async def opened_exclusively(self, stack: StackView) -> AsyncIterator[None]:
        """Nobody else gets them meanwhile. Raises SetUpFailed if somebody has one already, or RigLost."""
        mine = [self._lent[disk] for disk in stack.bare if disk in self._lent]
        if not mine:
            yield
            return
        try:
            await run_to_end(asyncio.to_thread(_take, mine))
            yield
        finally:
            await run_to_end(asyncio.to_thread(_let_go, mine))


def _take(disks: Sequence[LeasedDisk]) -> None:
    try:
        if told := list(_not_to_be_had(disks)):
            raise SetUpFailed(f"not alone with the disks that are to be measured: {'; '.join(told)}")
    except AgentLost as gone:
        raise RigLost(gone.brief, tail=gone.details) from gone


def _not_to_be_had(disks: Sequence[LeasedDisk]) -> Iterator[str]:
    for one in disks:
        try:
            one.reacquire()
        except DisksRefused as refused:
            yield from (f"{one.declared.id} is {why}" for why in refused.refusals)


def _let_go(disks: Sequence[LeasedDisk]) -> None:
    for one in disks:
        one.release()
