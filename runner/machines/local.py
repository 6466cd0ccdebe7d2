"""The host itself: its own kernel, and disks of it that somebody said may be used."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Self

from runner.base.errors import HarnessBroken
from runner.hosts.identity import identity_check
from runner.machines import requirements as fitness
from runner.machines.base import Refusal, Wishes
from runner.machines.shell import ShellRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from runner.machines.base import RigSpec

WHERE = "this host"
#: Nothing has to be gone through to get there.
ENTER: tuple[str, ...] = ()
AS_USUAL = Wishes()


class Local:
    """See the module."""

    name: ClassVar[str] = "local"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False
    made_up: ClassVar[bool] = False

    def __init__(self, wishes: Wishes = AS_USUAL) -> None:
        self.wishes = wishes

    @classmethod
    def wished(cls, wishes: Wishes) -> Self:
        """As asked for on the command line."""
        return cls(wishes)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """What such disks cannot do, and what the host does not have."""
        return [*unreal(spec), *self._unfit(spec)]

    def _unfit(self, spec: RigSpec) -> list[Refusal]:
        try:
            return list(fitness.refusals(fitness.found(ENTER, spec, WHERE), WHERE))
        except HarnessBroken as error:
            return [Refusal(error.brief, error.details or error.resolution)]

    def lacks(self, kernel: str) -> str:
        """It has one kernel, which runs."""
        return f"{WHERE} runs its own kernel ({os.uname().release}), not {kernel}"

    def room(self, spec: RigSpec) -> int:  # noqa: ARG002
        """There is one of it."""
        return 1

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        """It is up already. What it needs to work lies with the run while it does."""
        folder = (scratch / "rig").absolute()
        facts = fitness.facts(fitness.found(ENTER, spec, WHERE))
        try:
            yield ShellRig(
                ENTER, str(folder), self.wishes.disks[: len(spec.disks)], facts, WHERE, before=unswapped(self.wishes)
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def unswapped(wishes: Wishes) -> str:
    """What comes before every script, so that none works on a disk that took the place of one that was lent."""
    return identity_check(zip(wishes.disks, (one.node for one in wishes.held), strict=False))


def unreal(spec: RigSpec) -> list[Refusal]:
    """What only a machine that makes its disks, or brings its kernel, can have."""
    found = unreal_disks(spec)
    if spec.kernel:
        found.append(
            Refusal(f"{spec.kernel} cannot be run on a host that is up", "run it on qemu, or leave `kernel` out")
        )
    return found


def unreal_disks(spec: RigSpec) -> list[Refusal]:
    """What only a machine that makes its disks can have."""
    found = []
    if any(disk.physics for disk in spec.disks):
        found.append(
            Refusal("disks that exist follow no model", "take `model:` out of its `disks:`, or run it on qemu")
        )
    if any(disk.link for disk in spec.disks):
        found.append(Refusal("disks that exist share the links that they share", "take `bus_limit:` out"))
    return found
