"""A simulated disk: its size, bus, link and physics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.simdisks.physics import Physics

Bus = Literal["virtio", "scsi", "sata", "nvme"]


@dataclass(frozen=True, slots=True)
class Disk:
    size: int
    bus: Bus = "virtio"
    #: None: as fast as the host's memory and disk.
    physics: Physics | None = None
    #: The shared link to the host; None: it has its own.
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A controller, link or bus that several disks share."""

    name: str
    #: Bytes per second.
    rate: float


def links_of(disks: Iterable[Disk]) -> tuple[Link, ...]:
    """Return every link once, in the order of the disks."""
    return tuple(dict.fromkeys(disk.link for disk in disks if disk.link))
