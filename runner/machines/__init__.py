"""Places where trials run. A machine is one file or package here and one line in `MACHINES`."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.machines.base import Leftover, Machine, MachineOptions

MACHINES = {
    "qemu": "runner.machines.qemu:Qemu",
    "vagrant": "runner.machines.vagrant:Vagrant",
    "local": "runner.machines.local:Local",
    "container": "runner.machines.container:Container",
    "ssh": "runner.machines.ssh:Ssh",
    "dry": "runner.machines.dry:Dry",
}
#: Machines that get physical disks of this host instead of making their own: their names and classes.
PASSTHROUGH = {"qemu": "qemu-passthrough", "vagrant": "vagrant-passthrough"}
_PASSED = {
    "qemu-passthrough": "runner.machines.qemu.passthrough:Passthrough",
    "vagrant-passthrough": "runner.machines.vagrant.passthrough:Passthrough",
}
#: Classes that replace a machine's class for users other than root.
_BY_SUDO = {"local": "runner.machines.sudo:Sudo"}
#: Functions that report what dead runs left of a machine and, unless `dry`, remove it.
SWEEPERS = {
    "vagrant": "runner.machines.vagrant.leftovers:sweep",
    "container": "runner.machines.container.leftovers:sweep",
}

#: Machines of which there are many.
WITH_HOSTS = frozenset({"ssh"})


@dataclass(frozen=True)
class Where:
    """A machine and, where there are many of its kind, the name of its host."""

    machine: str
    host: str = ""


def sweep(name: str, *, dry: bool = False) -> Iterator[Leftover]:
    if name in SWEEPERS:
        module, _, what = SWEEPERS[name].partition(":")
        yield from getattr(importlib.import_module(module), what)(dry=dry)


def machine(name: str, options: MachineOptions) -> Machine:
    module, _, kind = (MACHINES | _PASSED | (_BY_SUDO if os.geteuid() else {}))[name].partition(":")
    return cast("Machine", getattr(importlib.import_module(module), kind).from_options(options))
