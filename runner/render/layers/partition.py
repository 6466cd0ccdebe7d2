"""Partition tables as sfdisk is told to write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.render.layers.base import Ground, View, as_uuid, mark, partition_path

if TYPE_CHECKING:
    from runner.model.layers import Partition

SECTOR = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView(View):
    """The table of one device."""

    uuid: str
    #: What sfdisk reads: one line a partition.
    lines: tuple[str, ...]
    #: Start and length of each partition in sectors, as sysfs must show them.
    sectors: tuple[tuple[str, str, str], ...]


def partition(layer: Partition, ground: Ground) -> tuple[View, ...]:
    """The table of each device; `tops` are in the device's own order."""
    return tuple(
        _table(layer, path, shape.size) for path, shape in zip(ground.devices, ground.below.devices, strict=True)
    )


def _table(layer: Partition, path: str, size: int) -> TableView:
    ranges = [(begin // SECTOR, (end - begin) // SECTOR) for begin, end in layer.ranges(size)]
    paths = tuple(partition_path(path, number) for number in range(1, len(ranges) + 1))
    return TableView(
        kind="partition",
        members=(path,),
        tops=paths,
        uuid=as_uuid(mark(layer, (path,))),
        lines=tuple(f"start={start}, size={length}, name=matrix" for start, length in ranges),
        sectors=tuple((one, str(start), str(length)) for one, (start, length) in zip(paths, ranges, strict=True)),
    )
