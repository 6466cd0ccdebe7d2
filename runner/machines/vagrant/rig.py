"""A machine of Vagrant that is up, and its rig."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.machines import requirements
from runner.machines.base import RigLost
from runner.machines.shell import ShellRig
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.vagrantfile_settings import FIND, NODE, found, serial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runner.machines.base import RigSpec, Step, StepResult
    from runner.machines.vagrant.leftovers import Record
    from runner.machines.vagrant.nbd_disks import Bay
    from runner.simdisks.clib import Report

#: ssh joins its arguments and a shell over there splits them again: so they are quoted. $1: ssh's configuration; $2:
#: the socket of the connection.
INTO = 'config=$1 line=$2; shift 2; exec ssh -F "$config" -S "$line" node -- "$(printf "%q " sudo -n "$@")"'
#: The folder of scripts in the machine.
FOLDER = "/run/matrix/rig"
#: After tear-down no disk is in use, and the machine's cache of them is outdated.
FORGET = 'export PATH=$PATH:/usr/sbin:/sbin; for disk do blockdev --flushbufs "$disk"; done'
PATIENCE = 120.0


def entered(config: Path, line: Path) -> tuple[str, ...]:
    return ("bash", "-c", INTO, "into", str(config), str(line))


def master(config: Path, line: Path) -> list[str]:
    """Return the connection that all others share; it ends with this process, and they end with it."""
    return ["ssh", "-F", str(config), "-N", "-M", "-S", str(line), "-o", "ServerAliveInterval=15", NODE]


@dataclass(frozen=True)
class Up:
    record: Record
    bay: Bay
    enter: tuple[str, ...]
    made_of: Mapping[str, str]

    @property
    def where(self) -> str:
        return f"the machine {self.record.domain}"

    def said(self, script: str, *words: str) -> str:
        done = process.run([*self.enter, "bash", "-c", script, "matrix", *words], timeout=PATIENCE)
        if done.returncode:
            raise RigLost(
                f"no shell on {self.where}: status {done.returncode}",
                tail=f"{done.stderr.strip()[-2000:]}\n{libvirt.state_of(self.record.domain)}",
            )
        return done.stdout

    def disks(self) -> tuple[str, ...]:
        """Return the names of the disks in the machine."""
        count = len(self.bay.disks)
        names = found(self.said(FIND, *map(serial, range(count))), count)
        if not all(names):
            raise HarnessBroken(
                f"{self.where} shows no disk with the serial number {serial(names.index(''))}",
                resolution="does your own box have udev, and drivers for this bus?",
            )
        return names

    def emptied(self, disks: Sequence[str]) -> None:
        """Make its disks read as zeros again, between two arrays."""
        self.bay.emptied()
        self.said(FORGET, *disks)


class VagrantRig(ShellRig):
    """Runs each batch of steps in a new shell; disks may be simulated."""

    def __init__(self, up: Up, disks: Sequence[str], facts: Mapping[str, str]) -> None:
        super().__init__(up.enter, FOLDER, disks, facts, up.where)
        self._up = up

    def disk_reports(self) -> tuple[Report, ...]:
        return self._up.bay.reports()

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        """Run the steps as one script; without its disks the rig is lost."""
        try:
            results = await super().run(steps, expected=expected, deadline=deadline)
        except RigLost as lost:
            state = await asyncio.to_thread(libvirt.state_of, self._up.record.domain)
            raise RigLost(lost.brief, tail=f"{lost.tail}\n{state}".strip(), resolution=lost.resolution) from None
        if why := await self._up.bay.lacks_one():
            raise RigLost(why[0], resolution=why[1])
        return results


def fit(up: Up, spec: RigSpec) -> dict[str, str]:
    """Return the facts of a machine. Raise HarnessBroken if its box does not have what the rig needs."""
    said = requirements.query(up.enter, spec, up.where)
    lacking = [
        one for one in requirements.refusals(said, up.where) if "has no" in one.brief and "kernel of" not in one.brief
    ]
    if lacking:
        raise HarnessBroken(
            f"{up.where} lacks programs",
            details="\n".join(f"- {one.message}" for one in lacking),
            resolution="put them into your box, or let `matrix` make one (without MATRIX_BOX)",
        )
    return {**requirements.facts(said), "without": without(said), **up.made_of}


def without(said: str) -> str:
    """Return the missing modules: layouts that need one are left out, with that as the reason."""
    return " ".join(line.split()[1] for line in said.splitlines() if line.startswith("no-module "))
