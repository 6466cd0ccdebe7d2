"""Exclusive use of bare disks during trials.

The kernel protects a disk that a layer is built on, but not a bare disk: mkfs or mount could open it during a trial.
So this process opens bare disks exclusively between set-up and tear-down. The scripts of both need exclusive access
themselves, for `wipefs` and `sfdisk`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from runner.base.process import run_to_end
from runner.engine.trial import SetUpFailed
from runner.hosts.agent.client import AgentLost
from runner.hosts.exclusive import DisksRefused
from runner.machines.base import RigLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from runner.hosts.exclusive import LeasedDisk
    from runner.scripts.stack import StackView


class BareDisks:
    """The bare disks of a run. `leased`: by their paths in scripts; virtual machines open theirs themselves."""

    def __init__(self, leased: Mapping[str, LeasedDisk]) -> None:
        self._leased = leased

    @asynccontextmanager
    async def opened_exclusively(self, stack: StackView) -> AsyncIterator[None]:
        """Open the bare disks of a stack. Raise SetUpFailed if another program uses one, or RigLost."""
        disks = [self._leased[disk] for disk in stack.bare if disk in self._leased]
        if not disks:
            yield
            return
        try:
            await run_to_end(asyncio.to_thread(_acquire, disks))
            yield
        finally:
            await run_to_end(asyncio.to_thread(_release, disks))


def _acquire(disks: Sequence[LeasedDisk]) -> None:
    try:
        if refusals := list(_refusals(disks)):
            raise SetUpFailed(f"other programs use disks of this stack: {'; '.join(refusals)}")
    except AgentLost as gone:
        raise RigLost(gone.brief, tail=gone.details) from gone


def _refusals(disks: Sequence[LeasedDisk]) -> Iterator[str]:
    for one in disks:
        try:
            one.reacquire()
        except DisksRefused as refused:
            yield from (f"{one.declared.id} is {why}" for why in refused.refusals)


def _release(disks: Sequence[LeasedDisk]) -> None:
    for one in disks:
        one.release()
