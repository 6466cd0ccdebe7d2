"""The capacity of this host for virtual machines."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from runner.machines.base import Refusal, RigSpec
from runner.machines.qemu import template

#: An eighth of the memory is for the host, QEMU and the runner.
HOST_SHARE = 8
#: With more processors per processor of the host, the guest's kernel reports waiting processors as stuck.
MAX_CROWDING = 8
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Host:
    memory: int
    cpus: int
    locked: int = 0

    @property
    def spare(self) -> int:
        return max(0, self.memory - self.memory // HOST_SHARE - self.locked) // _MIB * _MIB


def this_host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(memory, len(os.sched_getaffinity(0)), _locked())


def _locked() -> int:
    home = template.home()
    mounts = os.fsdecode(Path("/proc/self/mounts").read_bytes())  # mount points may have any bytes
    if not home.is_dir() or file_system_of(home.resolve(), mounts) not in _IN_MEMORY:
        return 0
    return sum(size for _, size, _ in template.list_templates())


def file_system_of(path: Path, mounts: str) -> str:
    kinds = {}
    for line in filter(None, mounts.split("\n")):  # the kernel escapes only blanks, tabs, newlines and backslashes
        _, point, kind, *_ = line.split(" ")
        kinds[Path(_unescaped(point))] = kind  # a later mount covers an earlier one
    return next((kinds[folder] for folder in (path, *path.parents) if folder in kinds), "")


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)


def capacity_refusals(spec: RigSpec, host: Host) -> list[Refusal]:
    refused = []
    if spec.memory > host.spare:
        templates = f", and saved machines take {_mib(host.locked)} of it" if host.locked else ""
        refused.append(
            Refusal(
                f"this host cannot hold a machine with {_mib(spec.memory)} of memory: it has "
                f"{_mib(host.memory)}, of which an eighth is reserved{templates}",
                f"use at most machine: {{memory: {_mib(host.spare)}}}",
            )
        )
    if spec.cpus > MAX_CROWDING * host.cpus:
        refused.append(
            Refusal(
                f"a machine with {spec.cpus} processors is too large for this host, which has {host.cpus}",
                f"machine: {{cpus: {host.cpus}}} has one for each; the maximum is {MAX_CROWDING * host.cpus}",
            )
        )
    return refused


def max_machines(spec: RigSpec, host: Host) -> int:
    return max(1, min(host.spare // spec.memory, MAX_CROWDING * host.cpus // spec.cpus))


def crowding_notice(spec: RigSpec, host: Host) -> str:
    if spec.cpus <= host.cpus:
        return ""
    return (
        f"the machine has {spec.cpus} processors and this host {host.cpus}: they take turns, which affects results; "
        f"machine: {{cpus: {host.cpus}}} has one for each"
    )


def _mib(size: int) -> str:
    return f"{size // _MIB}MiB"
