"""bcache: a part caches reads and writes of the device below."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from matrix_runner.base.model import Name, Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import BuildContext, Expectation, Layer, Problem, View, as_uuid, mark, power_of_two
from matrix_runner.layers.geometry import SECTOR, Below, Shape, losses_of
from matrix_runner.layers.needs import Need

KIB, MIB = 1024, 2**20
_HEADER = 8 * KIB  # before the data of the device below
_LEAST_BUCKETS = 513  # with fewer, the kernel attaches no cache: a 1,024th of the next power of two is its reserve
_LARGEST_BUCKET = 16 * MIB  # its size is stored as a 16-bit number of sectors


class Bcache(Layer):
    """bcache on the device below: a part caches its reads and writes. Sequential and slow requests can bypass it."""

    kind: ClassVar[str] = "bcache"
    noun: ClassVar[str] = "cached devices"
    needs: ClassVar[tuple[Need, ...]] = (
        Need(modules=("bcache",), programs=("make-bcache", "bcache-super-show"), own_kernel=True),
    )
    cache: Name = Field(description="the group of disks or the part, of one device, that is the cache")
    cache_mode: Literal["writethrough", "writeback", "writearound"] = Field(
        "writethrough", description="whether a write ends when both devices have it, when the cache has it, or past it"
    )
    sequential_cutoff: Size = Field(
        4 * MIB, description="sequential requests bypass the cache from this size on; 0: they do not"
    )
    congested: bool = Field(True, description="requests bypass a cache that answers slowly, as by default")
    bucket: Size = Field(512 * KIB, description="unit in which the cache is allocated")
    writeback_percent: int = Field(
        10, ge=0, le=40, description="percent of dirty data that the kernel keeps in a `writeback` cache"
    )

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        if values["cache_mode"] == "writeback":
            return {}
        return {"writeback_percent": f"cache_mode {values['cache_mode']} has no dirty data"}

    @property
    def parts(self) -> Mapping[str, str]:
        return {self.cache: "cache"}

    def problems(self, below: Below) -> Iterator[Problem]:
        yield from power_of_two("bucket", self.bucket, 4 * KIB, "a bucket")
        if self.bucket > _LARGEST_BUCKET:
            yield Problem("bucket", f"at most {format_size(_LARGEST_BUCKET)}")
        if below.own.count != 1:
            yield Problem("", f"it caches one device, but {below.own.description}; put md or lvm below it, or `pick`")
        if below.named != 1:
            yield Problem("cache", f"the cache is on one device, and {self.cache} has {below.named}; `pick` one")
        elif below.devices[-1].size < (_LEAST_BUCKETS + 1) * self.bucket:
            room = format_size(below.devices[-1].size)
            yield Problem("bucket", f"a cache has at least {_LEAST_BUCKETS} buckets, and {self.cache} has {room}")

    def metadata_bytes(self, below: Below) -> int:
        return self._journal(below.devices[-1].size)

    def _journal(self, size: int) -> int:
        """Return the bytes up to the end of the journal of a cache."""
        return self.bucket * (1 + min(256, max(2, size // self.bucket >> 7)))

    def _offset(self, device: Shape) -> int:
        return -(-_HEADER // (device.full_stripe or _HEADER)) * (device.full_stripe or _HEADER)

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        (device,), sector = below.own.devices, max(device.sector for device in below.devices)
        needed = below.devices if self.cache_mode == "writeback" else below.own.devices
        size = max(0, device.size - self._offset(device)) // sector * sector
        return (Shape(size, device.chunk, device.stripes, sector=sector, losses=losses_of(needed, 0)),)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        origin, cache = context.devices
        uuid = as_uuid(mark(self, context.devices))
        offset = self._offset(context.below.own.devices[0]) // SECTOR
        sector = max(device.sector for device in context.below.devices)
        settings = {
            "cache_mode": self.cache_mode,
            "sequential_cutoff": str(self.sequential_cutoff),
            "writeback_percent": str(self.writeback_percent),
        }
        if not self.congested:
            settings |= dict.fromkeys((f"cache/congested_{way}_threshold_us" for way in ("read", "write")), "0")
        shown = {**settings, "sequential_cutoff": readable(self.sequential_cutoff)}
        shown |= {"cache/bucket_size": readable(self.bucket), "cache/block_size": readable(sector)}
        if self.cache_mode != "writeback":
            del settings["writeback_percent"], shown["writeback_percent"]
        view = BcacheView(
            members=context.devices,
            tops=(f"/dev/bcache/{context.name(0, 1)}",),
            expects=(
                *(Expectation(file.rpartition("/")[2], f"bcache/{file}", text) for file, text in shown.items()),
                *(Expectation(file, f"bcache/{file}", None) for file in ("state", "dirty_data")),
            ),
            origin=origin,
            cache=cache,
            uuid=uuid,
            options=(f"--bucket={self.bucket}", f"--block={sector}", f"--data-offset={offset}", f"--cset-uuid={uuid}"),
            settings=settings,
            journal=self._journal(context.below.devices[-1].size),
        )
        return (view,)


def readable(number: int) -> str:
    """Return bytes as the kernel shows them for bcache: divided at least once, with one digit cut off."""
    number, rest, power = number >> 10, number & 1023, 0
    while number >= 1000:
        number, rest, power = number >> 10, number & 1023, power + 1
    return f"{number}.{rest * 10 // 1024}{'kMGT'[power]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BcacheView(View):
    kind: str = "bcache"
    origin: str
    cache: str
    uuid: str  # of the set of the cache: our mark on both devices
    options: tuple[str, ...]
    settings: Mapping[str, str]  # files to write in its folder of sysfs
    journal: int  # bytes at the start of the cache where an earlier cache of the same uuid may have left its journal

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.uuid,)
