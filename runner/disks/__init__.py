"""What a disk is: its size, the bus it hangs on, and the model that answers for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Bus = Literal["virtio", "scsi", "sata"]


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk of a rig."""

    size: int
    bus: Bus = "virtio"
    model: str = "file"
