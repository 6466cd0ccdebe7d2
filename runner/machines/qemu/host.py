"""What this host has for virtual machines, and how many of them it can hold."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from runner.machines.base import Refusal, RigSpec
from runner.machines.qemu import template

#: An eighth of the memory is the host's own, and QEMU's, and fio's and ours.
OWN = 8
#: With so many times the processors of the host, a guest takes those that wait for their turn for stuck.
MOST_CROWDED = 8
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Host:
    memory: int
    cpus: int
    locked: int = 0

    @property
    def spare(self) -> int:
        return max(0, self.memory - self.memory // OWN - self.locked) // _MIB * _MIB


def this_host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(memory, len(os.sched_getaffinity(0)), _locked())


def _locked() -> int:
    home = template.home()
    mounts = os.fsdecode(Path("/proc/self/mounts").read_bytes())  # names are whatever somebody wrote
    if not home.is_dir() or kind_of(home.resolve(), mounts) not in _IN_MEMORY:
        return 0
    return sum(size for _, size, _ in template.known())


def kind_of(path: Path, mounts: str) -> str:
    kinds = {}
    for line in filter(None, mounts.split("\n")):  # no other kind of space or of line's end is escaped
        _, point, kind, *_ = line.split(" ")
        kinds[Path(_unescaped(point))] = kind  # what is mounted later lies over what was there
    return next((kinds[folder] for folder in (path, *path.parents) if folder in kinds), "")


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)


def beyond(spec: RigSpec, host: Host) -> list[Refusal]:
    refused = []
    if spec.memory > host.spare:
        templates = f", and saved machines take {_mib(host.locked)} of it" if host.locked else ""
        refused.append(
            Refusal(
                f"a machine with {_mib(spec.memory)} of memory is more than this host can hold: it has "
                f"{_mib(host.memory)}, of which an eighth stays its own{templates}",
                f"at most machine: {{memory: {_mib(host.spare)}}}",
            )
        )
    if spec.cpus > MOST_CROWDED * host.cpus:
        refused.append(
            Refusal(
                f"a machine with {spec.cpus} processors is too much for this host, which has {host.cpus}",
                f"machine: {{cpus: {host.cpus}}} has one for each; {MOST_CROWDED * host.cpus} is the most",
            )
        )
    return refused


def room(spec: RigSpec, host: Host) -> int:
    return max(1, min(host.spare // spec.memory, MOST_CROWDED * host.cpus // spec.cpus))


def crowded(spec: RigSpec, host: Host) -> str:
    if spec.cpus <= host.cpus:
        return ""
    return (
        f"the machine has {spec.cpus} processors and this host {host.cpus}: they take turns, which the figures show; "
        f"machine: {{cpus: {host.cpus}}} has one for each"
    )


def _mib(size: int) -> str:
    return f"{size // _MIB}MiB"
