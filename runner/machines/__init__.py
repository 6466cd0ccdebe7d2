"""Where trials run. A machine is one file here and one line in `MACHINES`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from runner.machines.seam import Machine, Wishes

MACHINES = {
    "qemu": "runner.machines.qemu:Qemu",
    "local": "runner.machines.local:Local",
    "dry": "runner.machines.dry:Dry",
}


def machine(name: str, wishes: Wishes) -> Machine:
    """The machine of this name."""
    module, _, kind = MACHINES[name].partition(":")
    return cast("Machine", getattr(importlib.import_module(module), kind).wished(wishes))
