"""What templates see of a stack: devices by path, and what the kernel must say of each layer once it is built."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from runner.model.layers import DiskLayer, Layer, Md

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.expand.layouts import Stack


@dataclass(frozen=True, slots=True)
class Expectation:
    """A file under a block device's sysfs folder, and what it must hold (None: only recorded)."""

    setting: str
    file: str
    wanted: str | None


@dataclass(frozen=True, slots=True)
class DiskView:
    """A bare disk as the top of a layout."""

    kind: str
    device: str


@dataclass(frozen=True, slots=True)
class MdView:
    """An array as mdadm is told to build it and as sysfs must show it."""

    kind: str
    device: str
    name: str
    uuid: str
    members: tuple[str, ...]
    options: tuple[str, ...]
    assume_clean: bool
    redundant: bool
    expects: tuple[Expectation, ...]


View = DiskView | MdView


@dataclass(frozen=True, slots=True)
class Built:
    """A whole stack: its layers from the bottom up, its top device, the disks it uses."""

    layers: tuple[View, ...]
    top: str
    disks: tuple[str, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """Every block device of it, from the top down."""
        return tuple(dict.fromkeys((*(layer.device for layer in reversed(self.layers)), *self.disks)))


def built(stack: Stack, disks: Sequence[str], *, zeroed: bool) -> Built:
    """The stack on these disks. `zeroed`: they are known to read as zeros, so a first resync may be ruled out."""
    devices = tuple(disks)
    layers: list[View] = []
    used: tuple[str, ...] = ()
    for depth, layer in enumerate(stack):
        taken, view = _view(layer, devices, depth, zeroed)
        used = used or taken
        layers.append(view)
        devices = (view.device,)
    return Built(tuple(layers), devices[0], used)


@singledispatch
def _view(layer: Layer, _devices: tuple[str, ...], _depth: int, _zeroed: bool) -> tuple[tuple[str, ...], View]:
    raise TypeError(f"no view for {layer!r}")


@_view.register
def _(layer: DiskLayer, devices: tuple[str, ...], depth: int, zeroed: bool) -> tuple[tuple[str, ...], View]:  # noqa: ARG001
    device = devices[layer.number]
    return (device,), DiskView("disk", device)


@_view.register
def _(layer: Md, devices: tuple[str, ...], depth: int, zeroed: bool) -> tuple[tuple[str, ...], View]:
    members = devices[: layer.active(len(devices)) + layer.spare]
    name = f"matrix-{depth}"
    view = MdView(
        kind="md",
        device=f"/dev/md/{name}",
        name=name,
        uuid=_uuid(layer, members),
        members=members,
        options=_options(layer),
        assume_clean=zeroed if layer.sync == "auto" else layer.sync == "assume-clean",
        redundant=layer.level != 0,
        expects=tuple(_md_expectations(layer)),
    )
    return members, view


def _uuid(layer: Md, members: tuple[str, ...]) -> str:
    """The array's own mark: with it a second set-up tells our leftovers from somebody else's array."""
    content = f"matrix {layer.model_dump_json()} {' '.join(members)}"
    digest = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
    return ":".join(digest[at : at + 8] for at in range(0, 32, 8))


def _options(layer: Md) -> tuple[str, ...]:
    """What mdadm --create is told, beyond the members."""
    options = [f"--level={layer.level}", f"--raid-devices={layer.devices}", f"--metadata={layer.metadata}"]
    if layer.chunk is not None:
        options.append(f"--chunk={layer.chunk // 1024}K")
    if layer.layout is not None:
        options.append(f"--layout={layer.layout}")
    if layer.spare:
        options.append(f"--spare-devices={layer.spare}")
    if layer.level != 0:
        options.append(f"--bitmap={layer.bitmap}")
    return tuple(options)


def _md_expectations(layer: Md) -> list[Expectation]:
    """What /sys/block/mdX/md must hold."""
    found = [
        Expectation("md.level", "md/level", f"raid{layer.level}"),
        Expectation("md.devices", "md/raid_disks", str(layer.devices)),
        Expectation("md.metadata", "md/metadata_version", layer.metadata),
    ]
    if layer.chunk is not None:
        found.append(Expectation("md.chunk", "md/chunk_size", str(layer.chunk)))
    if layer.layout is not None:
        found.append(Expectation("md.layout", "md/layout", str(raid10_layout(layer.layout))))
    if layer.level != 0:
        found += [
            Expectation("md.degraded", "md/degraded", "0"),
            Expectation("md.sync_action", "md/sync_action", "idle"),
            Expectation("md.bitmap", "md/bitmap/location", layer.bitmap),
        ]
    if layer.level in {4, 5, 6}:
        found.append(Expectation("md.consistency_policy", "md/consistency_policy", None))
    return found


def raid10_layout(layout: str) -> int:
    """The kernel's number for n2, f2, o2 …: near copies in the low byte, far copies in the next, bit 16 for offset."""
    copies = int(layout[1:])
    near = copies if layout[0] == "n" else 1
    far = copies if layout[0] != "n" else 1
    return near | far << 8 | (0x10000 if layout[0] == "o" else 0)
