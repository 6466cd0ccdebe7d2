"""A running machine of Vagrant, and its rig."""

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
from runner.machines.vagrant.vagrantfile_settings import FIND, NODE, parse_names, serial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runner.machines.base import RigSpec, Step, StepResult
    from runner.machines.vagrant.leftovers import Record
    from runner.machines.vagrant.nbd_disks import DiskServers
    from runner.simdisks.clib import Report

#: The arguments are quoted, because ssh joins them and the shell in the machine splits them again. $1: ssh's
#: configuration; $2: the socket of the connection.
INTO = 'config=$1 line=$2; shift 2; exec ssh -F "$config" -S "$line" node -- "$(printf "%q " sudo -n "$@")"'
#: The folder of scripts in the machine.
FOLDER = "/run/matrix/rig"
#: After the runner has emptied the disks, the machine's cache of them is outdated.
FORGET = 'export PATH=$PATH:/usr/sbin:/sbin; for disk do blockdev --flushbufs "$disk"; done'
PATIENCE = 120.0


def enter_command(config: Path, line: Path) -> tuple[str, ...]:
    return ("bash", "-c", INTO, "into", str(config), str(line))


def connection_command(config: Path, line: Path) -> list[str]:
    """Return the command of the connection that all scripts share. It ends with this process, and they end with it."""
    return ["ssh", "-F", str(config), "-N", "-M", "-S", str(line), "-o", "ServerAliveInterval=15", NODE]


@dataclass(frozen=True)
class RunningMachine:
    record: Record
    servers: DiskServers
    enter: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def where(self) -> str:
        return f"the machine {self.record.domain}"

    def run_script(self, script: str, *words: str) -> str:
        done = process.run([*self.enter, "bash", "-c", script, "matrix", *words], timeout=PATIENCE)
        if done.returncode:
            raise RigLost(
                f"no shell on {self.where}: status {done.returncode}",
                tail=f"{done.stderr.strip()[-2000:]}\n{libvirt.describe_state(self.record.domain)}",
            )
        return done.stdout

    def disks(self) -> tuple[str, ...]:
        """Return the names of the disks in the machine."""
        count = len(self.servers.disks)
        names = parse_names(self.run_script(FIND, *map(serial, range(count))), count)
        if not all(names):
            raise HarnessBroken(
                f"{self.where} shows no disk with the serial number {serial(names.index(''))}",
                resolution="add udev and the drivers of this bus to your own box",
            )
        return names

    def empty_disks(self, disks: Sequence[str]) -> None:
        """Make its disks read as zeros again, between two stacks."""
        self.servers.empty()
        self.run_script(FORGET, *disks)


class VagrantRig(ShellRig):
    """A rig with disk servers: it is lost when one of them ends."""

    def __init__(self, up: RunningMachine, disks: Sequence[str], facts: Mapping[str, str]) -> None:
        super().__init__(up.enter, FOLDER, disks, facts, up.where)
        self._up = up

    def disk_reports(self) -> tuple[Report, ...]:
        return self._up.servers.reports()

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        try:
            results = await super().run(steps, expected=expected, deadline=deadline)
        except RigLost as lost:
            state = await asyncio.to_thread(libvirt.describe_state, self._up.record.domain)
            raise RigLost(lost.brief, tail=f"{lost.tail}\n{state}".strip(), resolution=lost.resolution) from None
        if why := await self._up.servers.find_ended_server():
            raise RigLost(why[0], resolution=why[1])
        return results


def query_facts(up: RunningMachine, spec: RigSpec) -> dict[str, str]:
    """Return the facts of a machine. Raise HarnessBroken if its box lacks programs."""
    answer = requirements.query(up.enter, spec, up.where)
    lacking = [
        one for one in requirements.refusals(answer, up.where) if "has no" in one.brief and "kernel of" not in one.brief
    ]
    if lacking:
        raise HarnessBroken(
            f"{up.where} lacks programs",
            details="\n".join(f"- {one.message}" for one in lacking),
            resolution="add them to your box, or unset MATRIX_BOX and let `matrix` build one",
        )
    return {**requirements.facts(answer), "without": missing_modules(answer), **up.facts}


def missing_modules(output: str) -> str:
    """Return the missing modules, separated by blanks. Layouts that need one are left out."""
    return " ".join(line.split()[1] for line in output.splitlines() if line.startswith("no-module "))
