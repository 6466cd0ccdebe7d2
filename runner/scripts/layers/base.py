"""What templates see of any layer, and what a layer is given to make it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.language.base import Model
    from runner.language.geometry import Below


@dataclass(frozen=True, slots=True)
class Expectation:
    """A file under a block device's sysfs folder, and what it must hold (None: only recorded).

    Of a layer, `setting` is without the layer's name, which goes before it.
    """

    setting: str
    file: str
    wanted: str | None
    #: It was asked about, so it is told even where there is no such file.
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """What one layer is built on."""

    #: Paths of the devices below, in their order.
    devices: tuple[str, ...]
    #: The same devices by their shape.
    below: Below
    #: How many layers are below it: part of every name it gives.
    depth: int
    #: The disks are known to read as zeros, so a first resync may be ruled out.
    zeroed: bool
    #: Of all disks together: names what the host keeps for whoever has them.
    bay: str
    #: What all names begin with that it gives.
    prefix: str

    def parts(self, groups: int) -> list[Ground]:
        """The ground of each of several equal groups."""
        each = len(self.devices) // groups
        return [
            replace(self, devices=self.devices[at * each : (at + 1) * each], below=part)
            for at, part in enumerate(self.below.grouped(groups))
        ]

    def name(self, part: int, parts: int) -> str:
        """A name of ours for what is built here: `matrix-0`, or `matrix-0-1` for the second of several."""
        return f"{self.prefix}-{self.depth}" + (f"-{part}" if parts > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One thing to be built: `templates/set-up/<kind>.sh` and its like get it as `layer`."""

    kind: str
    #: The devices it is built of.
    members: tuple[str, ...]
    #: The devices that are there once it is built.
    tops: tuple[str, ...]
    #: What each of these is called in readings: as axes call the layer, with its number where the layer made several.
    names: tuple[str, ...] = ()
    #: What sysfs must say of each of its devices.
    expects: tuple[Expectation, ...] = ()
    #: How a first resync is dealt with: ruled out, waited for, or measured beside; empty where there is none.
    resync: str = ""
    #: Once it is built the kernel has its members for it alone; where it has not, others get them as well.
    holds: bool = True
    #: What must be going on while it is measured, beside answering; empty if nothing.
    under_way: str = ""

    @property
    def device(self) -> str:
        """Its first device; most have only one."""
        return self.tops[0]

    @property
    def marks(self) -> tuple[str, ...]:
        """UUIDs, or labels, that stand on its members once it is built; none if there is no place for any."""
        return ()


def mark(layer: Model, members: tuple[str, ...]) -> str:
    """Thirty-two hex digits of what it is and what it is made of: with it on disk, we know our own leftovers."""
    content = f"matrix {layer.model_dump_json()} {' '.join(members)}"
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def as_uuid(digits: str) -> str:
    """The digits as UUIDs are mostly written (version 4, as some tools insist)."""
    whole = f"{digits[:12]}4{digits[13:16]}8{digits[17:]}"
    return "-".join((whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:]))


def partition_path(disk: str, number: int) -> str:
    """What the n-th partition of a device is called: by the kernel, by udev if it is a link of udev's, or by us."""
    if disk.startswith(("/dev/disk/", "/dev/mapper/")):
        return f"{disk}-part{number}"
    return f"{disk}p{number}" if disk[-1].isdigit() else f"{disk}{number}"
