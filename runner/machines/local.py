"""The machine `local`: this host, with its own kernel and physical disks."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import HarnessBroken
from runner.hosts.identity import identity_check
from runner.machines import requirements
from runner.machines.base import ConfiguredMachine, Refusal
from runner.machines.shell import ShellRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from runner.machines.base import MachineOptions, RigSpec

WHERE = "this host"


class Local(ConfiguredMachine):
    name: ClassVar[str] = "local"

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*model_refusals(spec), *host_refusals(spec)]

    def kernel_refusal(self, kernel: str) -> str:
        return f"{WHERE} runs its own kernel ({os.uname().release}), not {kernel}"

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        folder, disks = (scratch / "rig").absolute(), self.options.disks[: len(spec.disks)]
        facts = requirements.facts(requirements.query((), spec, WHERE))
        try:
            yield ShellRig((), str(folder), disks, facts, WHERE, before=identity_script(self.options))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def host_refusals(spec: RigSpec, ignored: str = "nothing") -> list[Refusal]:
    try:
        answer = requirements.query((), spec, WHERE)
    except HarnessBroken as error:
        return [Refusal(error.brief, error.details or error.resolution)]
    lines = [line for line in answer.splitlines() if not line.startswith(ignored)]
    return list(requirements.refusals("\n".join(lines), WHERE))


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
