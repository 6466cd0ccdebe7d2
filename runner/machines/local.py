"""The machine `local`: this host, with its own kernel and physical disks."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Self

from runner.base.errors import HarnessBroken
from runner.hosts.identity import identity_check
from runner.machines import requirements
from runner.machines.base import MachineOptions, Refusal
from runner.machines.shell import ShellRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from runner.machines.base import RigSpec

WHERE = "this host"
#: The command prefix that leads there: empty, as it is this host.
ENTER: tuple[str, ...] = ()
NO_OPTIONS = MachineOptions()


class Local:
    name: ClassVar[str] = "local"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False
    synthetic: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        self.options = options

    @classmethod
    def from_options(cls, options: MachineOptions) -> Self:
        return cls(options)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*model_refusals(spec), *self._unfit(spec)]

    def _unfit(self, spec: RigSpec) -> list[Refusal]:
        try:
            return list(requirements.refusals(requirements.query(ENTER, spec, WHERE), WHERE))
        except HarnessBroken as error:
            return [Refusal(error.brief, error.details or error.resolution)]

    def kernel_refusal(self, kernel: str) -> str:
        return f"{WHERE} runs its own kernel ({os.uname().release}), not {kernel}"

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 1

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        folder = (scratch / "rig").absolute()
        facts = requirements.facts(requirements.query(ENTER, spec, WHERE))
        try:
            yield ShellRig(
                ENTER,
                str(folder),
                self.options.disks[: len(spec.disks)],
                facts,
                WHERE,
                before=identity_script(self.options),
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# Run before each script, so that none works on a disk that took the place of a leased one.
def identity_script(options: MachineOptions) -> str:
    return identity_check(zip(options.disks, (one.node for one in options.held), strict=False))


def model_refusals(spec: RigSpec) -> list[Refusal]:
    found = disk_model_refusals(spec)
    if spec.kernel:
        found.append(
            Refusal(f"a running host cannot boot {spec.kernel}", "run this matrix on qemu, or remove `kernel`")
        )
    return found


def disk_model_refusals(spec: RigSpec) -> list[Refusal]:
    found = []
    if any(disk.physics for disk in spec.disks):
        found.append(
            Refusal("physical disks have no model", "remove `model:` from `disks:`, or run this matrix on qemu")
        )
    if any(disk.link for disk in spec.disks):
        found.append(Refusal("physical disks have no simulated bus limit", "remove `bus_limit:` from `disks:`"))
    return found
