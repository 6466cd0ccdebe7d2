"""Partition tables as sfdisk is told to write them, and partitions as the kernel must show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.language.layers.partition import table_end
from runner.scripts.layers.base import Ground, View, as_uuid, mark, partition_path

if TYPE_CHECKING:
    from runner.language.geometry import Shape
    from runner.language.layers import Partition

#: What the kernel counts in, whatever the sectors of a device.
SECTOR = 512


@dataclass(frozen=True, slots=True)
class Part:
    """One partition: where it is, and where it begins and how long it is as the kernel counts."""

    path: str
    start: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView(View):
    """The table of one device."""

    uuid: str
    #: Bytes of a sector of the device, in which the table counts.
    sector: int
    #: What sfdisk reads: what is true of the table, then one line a partition.
    lines: tuple[str, ...]
    parts: tuple[Part, ...]
    #: What stands on a mapping the kernel does not part: kpartx maps each partition by a table of its own.
    mapped: bool

    @property
    def marks(self) -> tuple[str, ...]:
        """Of the table."""
        return (self.uuid,)


def partition(layer: Partition, ground: Ground) -> tuple[View, ...]:
    """The table of each device; `tops` are in the device's own order."""
    return tuple(_table(layer, path, shape) for path, shape in zip(ground.devices, ground.below.devices, strict=True))


def _table(layer: Partition, path: str, device: Shape) -> TableView:
    ranges = layer.ranges(device)
    paths = tuple(partition_path(path, number) for number in range(1, len(ranges) + 1))
    uuid, sector = as_uuid(mark(layer, (path,))), device.sector
    # Without the first line sfdisk begins at 1MiB at the earliest, and nothing could be misaligned.
    head = ("label: gpt", f"first-lba: {table_end(sector) // sector}", f"label-id: {uuid}")
    return TableView(
        kind="partition",
        members=(path,),
        tops=paths,
        holds=False,
        uuid=uuid,
        sector=sector,
        lines=(
            *head,
            *(f"start={begin // sector}, size={(end - begin) // sector}, name=matrix" for begin, end in ranges),
        ),
        parts=tuple(
            Part(one, str(begin // SECTOR), str((end - begin) // SECTOR))
            for one, (begin, end) in zip(paths, ranges, strict=True)
        ),
        mapped=path.startswith("/dev/mapper/"),
    )
