"""dm-writecache: writes to the device below go to a part on faster disks first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from matrix_runner.base.model import Name, Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import BuildContext, DeviceMapping, DmView, Layer, Problem, View, mark, power_of_two
from matrix_runner.layers.geometry import Below, Shape, losses_of

MIB = 2**20
SECTOR = 512
OPTIONS = ("high_watermark", "low_watermark", "writeback_jobs")  # keys with the names of the kernel's options
LARGEST_BLOCK = 4096  # a page
MARK_BYTES = 4096  # the first page of the cache has the mark of this program; dm-writecache begins after it


class Writecache(Layer):
    """dm-writecache on the device below: a part caches its writes and writes them back later. Reads are not cached."""

    kind: ClassVar[str] = "writecache"
    noun: ClassVar[str] = "write-cached devices"
    also_called: ClassVar[Mapping[str, str]] = {"dm-writecache": "writecache: {cache: ssd}"}
    maps: ClassVar[bool] = True
    programs: ClassVar[tuple[str, ...]] = ("dmsetup",)
    modules: ClassVar[tuple[str, ...]] = ("dm_mod", "dm_writecache")
    cache: Name = Field(description="the group of disks or the part, of one device, that holds the writes")
    block_size: Size = Field(4096, description="size of a block of the cache")
    high_watermark: int = Field(
        50, ge=1, le=100, description="percent of used blocks at which the kernel begins to write back"
    )
    low_watermark: int = Field(45, ge=0, le=100, description="percent of used blocks at which it stops")
    writeback_jobs: int | None = Field(
        None, ge=1, le=65536, description="most blocks that are written back at a time; no limit if not given"
    )

    @property
    def parts(self) -> Mapping[str, str]:
        return {self.cache: "cache"}

    def problems(self, below: Below) -> Iterator[Problem]:
        yield from power_of_two("block_size", self.block_size, SECTOR, "a block")
        if self.block_size > LARGEST_BLOCK:
            yield Problem("block_size", "the kernel takes no blocks larger than a page of memory, which is 4KiB")
        if self.low_watermark > self.high_watermark:
            yield Problem("low_watermark", f"must be at most high_watermark ({self.high_watermark})")
        if below.own.count != 1:
            yield Problem("", f"it caches one device, but {below.own.description}; put md or lvm below it, or `pick`")
        if below.named != 1:
            yield Problem("cache", f"the cache is on one device, and {self.cache} has {below.named}; `pick` one")
        elif below.devices[-1].size < MIB:
            yield Problem("cache", f"{format_size(below.devices[-1].size)} are too small for a cache")
        if self.block_size < (sector := max(device.sector for device in below.devices)):
            yield Problem("block_size", f"blocks are no smaller than sectors, which are {format_size(sector)} here")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        (device,) = below.own.devices
        sector, losses = max(device.sector, self.block_size), losses_of(below.devices, 0)
        return (Shape(device.size // sector * sector, device.chunk, device.stripes, sector=sector, losses=losses),)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        origin, cache = context.devices
        digits = mark(self, context.devices)
        name = f"{context.name(0, 1)}-{digits[:8]}"
        uuid = f"MATRIX-WRITECACHE-{name}"
        options = {name: str(value) for name in OPTIONS if (value := getattr(self, name)) is not None}
        words = ("start_sector", str(MARK_BYTES // SECTOR), *(word for pair in options.items() for word in pair))
        mapping = DeviceMapping(origin, name, f"matrix {digits}", uuid, uuid, 0)
        view = WritecacheView(
            members=context.devices,
            tops=(mapping.path,),
            mappings=(mapping,),
            open_options=(),
            cache=cache,
            target=("writecache", "s", *context.devices, str(self.block_size), str(len(words)), *words),
            block_size=self.block_size,
            options=options,
        )
        return (view,)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritecacheView(DmView):
    kind: str = "writecache"
    cache: str
    target: tuple[str, ...]  # its line in the table of the device mapper, without start and length
    block_size: int
    options: Mapping[str, str]
