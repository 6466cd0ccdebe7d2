"""What a disk is: its size, the bus it hangs on, and the physics by which it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.simdisks.physics import Physics

Bus = Literal["virtio", "scsi", "sata", "nvme"]


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk of a rig."""

    size: int
    bus: Bus = "virtio"
    #: None: as fast as the host's memory and disk are.
    physics: Physics | None = None
    #: What it shares the way to the host with; None: it has one of its own.
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A controller, a link or a bus that several disks share."""

    name: str
    #: Bytes a second.
    rate: float


def links_of(disks: Iterable[Disk]) -> tuple[Link, ...]:
    """Every link once, in the order in which disks hang on them."""
    return tuple(dict.fromkeys(disk.link for disk in disks if disk.link))
