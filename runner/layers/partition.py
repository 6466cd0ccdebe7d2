"""Partitions of every device below, in a GPT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, create_model

from runner.base.quantities import format_size, resolve_share
from runner.base.units import Extent, Size
from runner.layers.base import Ground, Layer, Problem, View, as_uuid, mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.layers.geometry import Below, Shape


MIB = 2**20
#: The second copy of the table, and what rounding takes.
TAIL = MIB
#: What a table has entries for, so that there is room for as many.
ENTRIES = 128 * 128


def table_end(sector: int) -> int:
    """Where the table ends at the beginning of a device, and data may begin at the earliest."""
    return 2 * sector + ENTRIES


class _Fields(Layer):
    """One partition of every device below, or `count` equal ones."""

    count: Annotated[int | None, Field(ge=1, le=128, description="so many equal partitions on every device")] = None
    to: Annotated[Extent | None, Field(description="where the partition ends: a place, or a share of the device")] = (
        None
    )
    at: Annotated[Extent | None, Field(description="where the partition begins; another word for from")] = None
    size: Annotated[Extent | None, Field(description="how large the partition is")] = None
    align: Annotated[
        Size, Field(ge=512, description="partitions begin at a multiple of it; 1MiB if not given, 512B to misalign")
    ] = MIB


if TYPE_CHECKING:
    _Ranged = _Fields
else:
    # `from` is a word of Python's, so it cannot be written as a field above.
    _Ranged = create_model(
        "_Ranged",
        __base__=_Fields,
        **{
            "from": (
                Annotated[Extent | None, Field(description="where the partition begins: a place, or a share")],
                None,
            )
        },
    )


class Partition(_Ranged):
    """One partition of every device below (`from`, `to`, `size`), or `count` equal ones.

    With several, all first ones come first: four disks with `count: 4` are P1 of every disk, then P2 of every disk …
    """

    kind: ClassVar[str] = "partition"
    noun: ClassVar[str] = "partitions"

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """A range means nothing where a count decides."""
        if values["count"] is None:
            return {}
        return dict.fromkeys(("from", "at", "to", "size"), "`count` divides the whole device")

    @property
    def programs(self) -> tuple[str, ...]:
        """What writes tables; `kpartx`, which only mappings need, is asked for by the script."""
        return ("sfdisk",)

    @property
    def begins(self) -> int | str:
        """Where the first partition begins."""
        begin: int | str | None = getattr(self, "from")
        return begin if begin is not None else self.at if self.at is not None else 0

    def settled(self, below: Below) -> Self:  # noqa: ARG002
        """A range from and to, or a count."""
        if self.count is not None:
            return self
        return self.model_copy(update={"from": self.begins, "at": None})

    def problems(self, below: Below) -> Iterator[Problem]:
        """A range that is none, or devices that cannot be parted again."""
        if below.noun == self.noun:
            yield Problem(
                "count",
                "partitions cannot be partitioned: the kernel looks for no table on them; make more of them below",
            )
        if self.at is not None and getattr(self, "from") is not None:
            yield Problem("at", "`at` and `from` say the same; write one of them")
        if self.size is not None and self.to is not None:
            yield Problem("size", "`size` and `to` both say where it ends; write one of them")
            return
        sector = max(device.sector for device in below.devices)
        if self.align % sector:
            yield Problem("align", f"partitions begin at whole sectors of {format_size(sector)}")
        else:
            yield from self._range_problems(min(below.devices, key=lambda device: device.size))

    def _range_problems(self, device: Shape) -> Iterator[Problem]:
        size = device.size
        if self.count is not None:
            if self.count * 4 * MIB > size:
                yield Problem("count", f"{self.count} partitions are too many for a device of {format_size(size)}")
            return
        begin, end = self.ranges(device)[0]
        field = next((name for name in ("size", "to", "at") if getattr(self, name) is not None), "from")
        if end <= begin:
            where = f"between {format_size(begin)} and {format_size(end)}"
            yield Problem(
                field,
                f"nothing is left of a device of {format_size(size)} {where}; a partition ends behind where it begins",
            )
        elif self._asked_end(size) > size:
            yield Problem(field, f"ends beyond the device, which has {format_size(size)}")

    def _asked_end(self, size: int) -> int:
        if self.size is not None:
            return resolve_share(self.begins, size) + resolve_share(self.size, size)
        return resolve_share(self.to, size) if self.to is not None else size

    def ranges(self, device: Shape) -> list[tuple[int, int]]:
        """Where partitions begin and end on a device, in bytes: aligned, and clear of the table at either end."""
        size = device.size
        head = -(-max(self.align, table_end(device.sector)) // self.align) * self.align
        room = (size - TAIL) // self.align * self.align
        if self.count is not None:
            each = (room - head) // self.count // self.align * self.align
            return [(head + at * each, head + (at + 1) * each) for at in range(self.count)]
        begin = max(head, -(-resolve_share(self.begins, size) // self.align) * self.align)
        return [(begin, min(room, self._asked_end(size) // self.align * self.align))]

    def above(self, below: Below) -> tuple[Shape, ...]:
        """First partitions first."""
        per_device = [
            [replace(device, size=end - begin) for begin, end in self.ranges(device)] for device in below.devices
        ]
        return tuple(shape for several in zip(*per_device, strict=True) for shape in several)

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        return _views(self, ground)


def partition_path(disk: str, number: int) -> str:
    """Return the name of a partition: the kernel's, udev's for a link of udev, or ours."""
    if disk.startswith(("/dev/disk/", "/dev/mapper/")):
        return f"{disk}-part{number}"
    return f"{disk}p{number}" if disk[-1].isdigit() else f"{disk}{number}"


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


def _views(layer: Partition, ground: Ground) -> tuple[View, ...]:
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
