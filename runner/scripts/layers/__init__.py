"""From a layer to what templates see of it. A layer is one file here, and one line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.scripts.layers.bare import one_disk, pick, some_disks
from runner.scripts.layers.base import Expectation, Ground, View
from runner.scripts.layers.dm import crypt, integrity
from runner.scripts.layers.fs import fs
from runner.scripts.layers.lvm import LvmView, lvm
from runner.scripts.layers.md import md
from runner.scripts.layers.partition import partition
from runner.scripts.layers.precondition import precondition

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.language.layers import Layer

VIEWS: dict[str, Callable[[Any, Ground], tuple[View, ...]]] = {
    "disk": one_disk,
    "disks": some_disks,
    "pick": pick,
    "partition": partition,
    "md": md,
    "lvm": lvm,
    "fs": fs,
    "crypt": crypt,
    "integrity": integrity,
    "precondition": precondition,
}


def views(layer: Layer, ground: Ground) -> tuple[View, ...]:
    """What is built for a layer, from its first device to its last."""
    return VIEWS[layer.kind](layer, ground)


def tops(built: tuple[View, ...]) -> tuple[str, ...]:
    """The devices on top of a layer, as the next one sees them: the first of each, then the second of each."""
    return tuple(path for several in zip(*(view.tops for view in built), strict=True) for path in several)


__all__ = ["Expectation", "Ground", "LvmView", "View", "tops", "views"]
