"""Where trials run. A machine is one file here and one line in `MACHINES`."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.machines.base import Machine, Swept, Wishes

MACHINES = {
    "qemu": "runner.machines.qemu:Qemu",
    "vagrant": "runner.machines.vagrant:Vagrant",
    "local": "runner.machines.local:Local",
    "container": "runner.machines.container:Container",
    "ssh": "runner.machines.ssh:Ssh",
    "dry": "runner.machines.dry:Dry",
}
#: What a machine is called that is given disks of this host instead of making its own, and where that is.
PASSTHROUGH = {"qemu": "qemu-passthrough", "vagrant": "vagrant-passthrough"}
_PASSED = {
    "qemu-passthrough": "runner.machines.qemu.passthrough:Passthrough",
    "vagrant-passthrough": "runner.machines.vagrant.passthrough:Passthrough",
}
#: What is another one for whoever is not root.
_BY_SUDO = {"local": "runner.machines.sudo:Sudo"}
#: Where something of a machine may be left although its run is gone: says so, and takes it away unless `dry`.
SWEEPERS = {
    "vagrant": "runner.machines.vagrant.leftovers:swept",
    "container": "runner.machines.container.leftovers:swept",
}

#: Machines of which there are many.
WITH_HOSTS = frozenset({"ssh"})


@dataclass(frozen=True)
class Where:
    """A machine, and which of them if there are many of its kind."""

    machine: str
    host: str = ""


def swept(name: str, *, dry: bool = False) -> Iterator[Swept]:
    """What was left behind by runs that are gone, and what became of it."""
    if name in SWEEPERS:
        module, _, what = SWEEPERS[name].partition(":")
        yield from getattr(importlib.import_module(module), what)(dry=dry)


def machine(name: str, wishes: Wishes) -> Machine:
    """The machine of this name."""
    module, _, kind = (MACHINES | _PASSED | (_BY_SUDO if os.geteuid() else {}))[name].partition(":")
    return cast("Machine", getattr(importlib.import_module(module), kind).wished(wishes))
