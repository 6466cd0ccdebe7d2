"""A whole stack as templates see it: everything that is built, from the bottom up, on disks that are there."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.layers.base import BuildContext, View, tops
from runner.layers.fs import FsView
from runner.space.layouts import axis_names, levels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.layers.geometry import Below
    from runner.space.layouts import Stack


#: Disks that we gave a machine, or a reader: nobody else's are beside them. On a host there may be another run, whose
#: arrays must be called otherwise.
_GIVEN = re.compile(r"matrix-(disk)?\d+$")


@dataclass(frozen=True, slots=True)
class Built:
    """Everything that is built, the highest devices of it, the disks it uses."""

    layers: tuple[View, ...]
    tops: tuple[str, ...]
    disks: tuple[str, ...]
    #: What every device of it is called in readings.
    names: Mapping[str, str]
    #: Those of the disks that have a queue whose depth can be set.
    queued: frozenset[str]
    #: Names what the host keeps for whoever has these disks: mount points, and what knobs were.
    bay: str

    @property
    def directory(self) -> str | None:
        """Where its file system is mounted; None where work is done on the devices themselves."""
        return next((layer.directory for layer in self.layers if isinstance(layer, FsView)), None)

    @property
    def marks(self) -> frozenset[str]:
        """By what all that is written on disks for it is known again."""
        return frozenset(mark for layer in self.layers for mark in layer.marks)

    @property
    def bare(self) -> tuple[str, ...]:
        """Those of the disks that nothing was built on, or partitions alone: the kernel has them for nobody."""
        had: set[str] = set()
        for layer in reversed(self.layers):
            # Who has a partition has its disk.
            if layer.holds or had.intersection(set(layer.tops) - set(layer.members)):
                had.update(layer.members)
        return tuple(disk for disk in self.disks if disk not in had)

    @property
    def devices(self) -> tuple[str, ...]:
        """Every block device of it, from the top down."""
        made = (device for layer in reversed(self.layers) for device in layer.tops)
        return tuple(dict.fromkeys((*self.tops, *made, *self.disks)))


def built(stack: Stack, disks: Sequence[str], below: Below, *, zeroed: bool) -> Built:
    """The stack on these disks. `zeroed`: they are known to read as zeros, so a first resync may be ruled out."""
    devices, layers = tuple(disks), list[View]()
    names = {disk: f"disk{number}" for number, disk in enumerate(disks)}
    axes = axis_names(layer.kind for layer in stack)
    bay = bay_of(disks)
    prefix = "matrix" if all(map(_GIVEN.search, disks)) else f"matrix-{bay}"
    for depth, (layer, ground) in enumerate(levels(stack, below)):
        made = _named(layer.views(BuildContext(devices, ground, depth, zeroed, bay, prefix)), axes[depth])
        for view in made:
            names = {**dict(zip(view.tops, view.names, strict=False)), **names}  # what only passes on renames nothing
        devices = tops(made) or devices  # a file system leaves no device
        layers += made
        zeroed = zeroed and layer.keeps_zeros
    used = {member for layer in layers for member in layer.members}
    queued = frozenset(disk for disk, shape in zip(disks, below.devices, strict=False) if shape.queued)
    return Built(tuple(layers), devices, tuple(disk for disk in disks if disk in used), names, queued, bay)


def bay_of(disks: Sequence[str]) -> str:
    """The same for all layouts on the same disks, whatever their order."""
    return hashlib.blake2b(" ".join(sorted(disks)).encode(), digest_size=4).hexdigest()


def _named(made: tuple[View, ...], axis: str) -> tuple[View, ...]:
    """What a layer made, each of its devices with its name in readings; they are counted as `pick` counts them."""
    order = tops(made)
    if len(order) < 2:
        return tuple(replace(view, names=(axis,)) for view in made)
    places = {path: f"{axis}[{number}]" for number, path in enumerate(order, start=1)}
    return tuple(replace(view, names=tuple(places[path] for path in view.tops)) for view in made)
