"""Partitions of every device below, in a GPT."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, create_model

from matrix_runner.base.model import Extent, Size
from matrix_runner.base.quantities import format_size, resolve_share
from matrix_runner.layers.base import BuildContext, Layer, Problem, View, as_uuid, mark
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.needs import Need

MIB = 2**20
SECTOR = 512  # the kernel counts in units of 512 bytes, for any sector size
TAIL = MIB  # the second copy of the table, and losses by rounding
ENTRIES = 128 * 128  # bytes of the table: it has a fixed number of entries


def table_end(sector: int) -> int:
    return 2 * sector + ENTRIES


class _Fields(Layer):
    """One partition of every device below, or `count` equal ones."""

    count: int | None = Field(None, ge=1, le=128, description="number of equal partitions on every device")
    to: Extent | None = Field(None, description="where the partition ends: a place, or a share of the device")
    at: Extent | None = Field(None, description="where the partition begins; the same as `from`")
    size: Extent | None = Field(None, description="how large the partition is")
    align: Annotated[Size, Field(ge=512, description="partitions begin at a multiple of it; 512B to misalign")] = MIB


if TYPE_CHECKING:
    _Ranged = _Fields
else:
    # `from` is a Python keyword, so the class above cannot declare it.
    _Ranged = create_model(
        "_Ranged",
        __base__=_Fields,
        **{"from": (Extent | None, Field(None, description="where the partition begins: a place, or a share"))},
    )


class Partition(_Ranged):
    """One partition of every device below (`from`, `to`, `size`), or `count` equal ones.

    With `count` above 1, the first partitions of all disks come first: four disks with `count: 4` are P1 of every disk,
    then P2 of every disk …
    """

    kind: ClassVar[str] = "partition"
    for_each: ClassVar[bool] = True
    noun: ClassVar[str] = "partitions"
    #: The script checks for `kpartx`, which only mappings need.
    needs: ClassVar[tuple[Need, ...]] = (Need(programs=("sfdisk",)),)

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        if values["count"] is None:
            return {}
        return dict.fromkeys(("from", "at", "to", "size"), "`count` divides the whole device")

    @property
    def start(self) -> int | str:
        begin: int | str | None = getattr(self, "from")
        return begin if begin is not None else self.at if self.at is not None else 0

    def resolve(self, below: Below) -> Self:  # noqa: ARG002
        if self.count is not None:
            return self
        return self.model_copy(update={"from": self.start, "at": None})

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.noun == self.noun:
            why = "the kernel ignores tables on them; make more of them below"
            yield Problem("count", f"partitions cannot be partitioned: {why}")
        if self.at is not None and getattr(self, "from") is not None:
            yield Problem("at", "`at` and `from` mean the same; write one of them")
        if self.size is not None and self.to is not None:
            yield Problem("size", "`size` and `to` both set the end; write one of them")
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
            where = f"between {format_size(begin)} and {format_size(end)}; its end must be after its start"
            yield Problem(field, f"the partition of a device of {format_size(size)} is empty: {where}")
        elif self._requested_end(size) > size:
            yield Problem(field, f"the partition ends beyond the device, which has {format_size(size)}")

    def _requested_end(self, size: int) -> int:
        if self.size is not None:
            return resolve_share(self.start, size) + resolve_share(self.size, size)
        return resolve_share(self.to, size) if self.to is not None else size

    def ranges(self, device: Shape) -> list[tuple[int, int]]:
        size = device.size
        head = -(-max(self.align, table_end(device.sector)) // self.align) * self.align
        room = (size - TAIL) // self.align * self.align
        if self.count is not None:
            each = (room - head) // self.count // self.align * self.align
            return [(head + at * each, head + (at + 1) * each) for at in range(self.count)]
        begin = max(head, -(-resolve_share(self.start, size) // self.align) * self.align)
        return [(begin, min(room, self._requested_end(size) // self.align * self.align))]

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        per_device = [
            [
                # Several partitions fail together, so the next layer cannot count them.
                replace(device, size=end - begin, losses=device.losses if self.count in {None, 1} else None)
                for begin, end in self.ranges(device)
            ]
            for device in below.devices
        ]
        return tuple(shape for several in zip(*per_device, strict=True) for shape in several)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        """Return the table of each device; `tops` are in the device's own order."""
        devices = zip(context.devices, context.below.devices, strict=True)
        return tuple(self._table(path, shape) for path, shape in devices)

    def _table(self, path: str, device: Shape) -> "TableView":
        ranges, sector, uuid = self.ranges(device), device.sector, as_uuid(mark(self, (path,)))
        paths = tuple(partition_path(path, number) for number in range(1, len(ranges) + 1))
        sizes = [(begin, end - begin) for begin, end in ranges]
        return TableView(
            members=(path,),
            tops=paths,
            holds=False,
            uuid=uuid,
            sector=sector,
            lines=(
                "label: gpt",
                # Without it, sfdisk begins at 1MiB at the earliest, and misalignment would be impossible.
                f"first-lba: {table_end(sector) // sector}",
                f"label-id: {uuid}",
                *(f"start={begin // sector}, size={size // sector}, name=matrix" for begin, size in sizes),
            ),
            parts=tuple(
                Part(part, str(begin // SECTOR), str(size // SECTOR))
                for part, (begin, size) in zip(paths, sizes, strict=True)
            ),
            mapped=path.startswith("/dev/mapper/"),
        )


def partition_path(disk: str, number: int) -> str:
    if disk.startswith(("/dev/disk/", "/dev/mapper/")):
        return f"{disk}-part{number}"
    return f"{disk}p{number}" if disk[-1].isdigit() else f"{disk}{number}"


@dataclass(frozen=True, slots=True)
class Part:
    path: str
    start: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView(View):
    kind: str = "partition"
    uuid: str
    sector: int  # the sector size of the device in bytes. The table counts in sectors.
    lines: tuple[str, ...]  # input of sfdisk: headers of the table, then one line for each partition
    parts: tuple[Part, ...]
    mapped: bool  # the device is a mapping, so kpartx makes a mapping of each partition

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.uuid,)
