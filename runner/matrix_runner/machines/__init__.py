"""The registry of machines. A machine is one module or package here and one line in `MACHINES`.

Machines with physical disks of other hosts or in virtual machines also have a line in `WITH_HOSTS` or `PASSTHROUGH`:
session/disk_lease.py and session/run_request.py act on these names.
"""

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from matrix_runner.machines.base import Leftover, Machine, MachineOptions

MACHINES = {
    "qemu": "matrix_runner.machines.qemu:Qemu",
    "vagrant": "matrix_runner.machines.vagrant:Vagrant",
    "local": "matrix_runner.machines.local:Local",
    "container": "matrix_runner.machines.container:Container",
    "ssh": "matrix_runner.machines.local:Ssh",
    "dry": "matrix_runner.machines.dry:Dry",
}
#: Machines with a variant for physical disks of this host, and the name of that variant.
PASSTHROUGH = {"qemu": "qemu-passthrough", "vagrant": "vagrant-passthrough"}
_PASSTHROUGH_CLASSES = {
    "qemu-passthrough": "matrix_runner.machines.qemu:Passthrough",
    "vagrant-passthrough": "matrix_runner.machines.vagrant:Passthrough",
}
#: Classes that replace a machine's class for users other than root.
_BY_SUDO = {"local": "matrix_runner.machines.local:Sudo"}
#: Functions that report leftovers of dead runs, with `everything` also what later runs would use again. Unless `dry`,
#: they remove it.
SWEEPERS = {
    "vagrant": "matrix_runner.machines.vagrant.libvirt:sweep",
    "container": "matrix_runner.machines.container:sweep",
}

WITH_HOSTS = frozenset({"ssh"})


@dataclass(frozen=True)
class Where:
    machine: str
    host: str = ""


def sweep(name: str, *, dry: bool = False, everything: bool = False) -> Iterator[Leftover]:
    if name in SWEEPERS:
        module, _, function = SWEEPERS[name].partition(":")
        yield from getattr(importlib.import_module(module), function)(dry=dry, everything=everything)


def machine(name: str, options: MachineOptions) -> Machine:
    module, _, kind = (MACHINES | _PASSTHROUGH_CLASSES | (_BY_SUDO if os.geteuid() else {}))[name].partition(":")
    return cast("Machine", getattr(importlib.import_module(module), kind).from_options(options))
