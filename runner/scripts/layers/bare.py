"""Disks as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.scripts.layers.base import Ground, View

if TYPE_CHECKING:
    from runner.language.layers import OneDisk, Pick, SomeDisks


def one_disk(layer: OneDisk, ground: Ground) -> tuple[View, ...]:
    """The disk it names."""
    disk = ground.devices[layer.number]
    return (View(kind="disk", members=(disk,), tops=(disk,), holds=False),)


def some_disks(layer: SomeDisks, ground: Ground) -> tuple[View, ...]:
    """The first of them."""
    disks = ground.devices[: layer.count]
    return (View(kind="disk", members=disks, tops=disks, holds=False),)


def pick(layer: Pick, ground: Ground) -> tuple[View, ...]:
    """One of the devices; nothing is built."""
    chosen = ground.devices[layer.number - 1]
    return (View(kind="pick", members=(chosen,), tops=(chosen,), holds=False),)
