"""A stack on given disks, as templates see it: its layers from the bottom up."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TypeVar

from matrix_runner.layers.bare import On
from matrix_runner.layers.base import BuildContext, View, tops
from matrix_runner.layers.fs import FsView
from matrix_runner.layers.geometry import Below
from matrix_runner.space.variants import Layers, axis_names, levels

T = TypeVar("T")

#: Names of disks in a machine of this program or in a recommended script. There no other run can use the same names;
#: on a host one can.
_PRIVATE = re.compile(r"matrix-(disk)?\d+$")


@dataclass(frozen=True, slots=True)
class StackView:
    layers: tuple[View, ...]
    #: Its highest devices, and the disks that it uses.
    tops: tuple[str, ...]
    disks: tuple[str, ...]
    #: The name of each device in readings.
    names: Mapping[str, str]
    #: Disks with a queue whose depth can be set.
    queued: frozenset[str]
    #: Part of the names of mount points and of remembered tunables on the host.
    bay: str
    #: How many times slower than real time its disks work.
    slow: int = 1
    #: It was built at another pace, so each trial sets what depends on it.
    retimed: bool = False
    #: Its disks are only read, and may have content.
    only_read: bool = False

    @property
    def directory(self) -> str | None:
        return next((layer.directory for layer in self.layers if isinstance(layer, FsView)), None)

    @property
    def marks(self) -> frozenset[str]:
        return frozenset(mark for layer in self.layers for mark in layer.marks)

    @property
    def bare(self) -> tuple[str, ...]:
        """Return the disks that no layer holds open in the kernel: those without a layer or with partitions only."""
        held: set[str] = set()
        for layer in reversed(self.layers):
            # An open partition also keeps its disk open.
            if layer.holds or held.intersection(set(layer.tops) - set(layer.members)):
                held.update(layer.members)
        return tuple(disk for disk in self.disks if disk not in held)

    @property
    def devices(self) -> tuple[str, ...]:
        made = (device for layer in reversed(self.layers) for device in layer.tops)
        return tuple(dict.fromkeys((*self.tops, *made, *self.disks)))


def view_stack(stack: Layers, disks: Sequence[str], below: Below, *, zeroed: bool, slow: int = 1) -> StackView:
    """Put a stack on disks. `zeroed`: the disks are known to read as zeros, so md can skip the first resync."""
    devices, layers = tuple(disks), list[View]()
    names = {disk: f"disk{number}" for number, disk in enumerate(disks)}
    axes = axis_names(layer.kind for layer in stack)
    bay = bay_of(disks)
    prefix = "matrix" if all(map(_PRIVATE.search, disks)) else f"matrix-{bay}"
    parts = groups_of(disks, below)
    for depth, (layer, ground) in enumerate(levels(stack, below)):
        if isinstance(layer, On):
            parts[layer.keep] = devices
        given = (*devices, *chain.from_iterable(parts[name] for name in layer.parts))
        zeros = zeroed and not ground.scrambled_by
        made = _with_names(layer.views(BuildContext(given, ground, depth, zeros, bay, prefix, slow)), axes[depth])
        for view in made:
            # A layer that passes devices on keeps their names.
            names = dict(zip(view.tops, view.names, strict=False)) | names
        devices = tops(made) or devices  # a file system leaves no device
        layers += made
    used = {member for layer in layers for member in layer.members}
    queued = frozenset(disk for disk, shape in zip(disks, below.devices, strict=False) if shape.queued)
    return StackView(tuple(layers), devices, tuple(disk for disk in disks if disk in used), names, queued, bay, slow)


def groups_of(disks: Sequence[T], below: Below) -> dict[str, tuple[T, ...]]:
    """Return the disks of each named group."""
    ends = accumulate(part.top.count for part in below.parts)
    return {part.name: tuple(disks[end - part.top.count : end]) for part, end in zip(below.parts, ends, strict=True)}


def bay_of(disks: Sequence[str]) -> str:
    return hashlib.blake2b(" ".join(sorted(disks)).encode(errors="surrogateescape"), digest_size=4).hexdigest()


def _with_names(made: tuple[View, ...], axis: str) -> tuple[View, ...]:
    """Name the devices of a layer for readings, with the numbers that `pick` uses."""
    order = tops(made)
    if len(order) < 2:
        return tuple(replace(view, names=(axis,)) for view in made)
    places = {path: f"{axis}[{number}]" for number, path in enumerate(order, start=1)}
    return tuple(replace(view, names=tuple(places[path] for path in view.tops)) for view in made)
