"""LVM: physical volumes, one volume group and its logical volumes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from runner.base.quantities import Extent, Size, format_size
from runner.layers.base import BuildContext, Grouped, Problem, View, mark, power_of_two
from runner.layers.geometry import Below, Shape, common, losses_of
from runner.layers.md import Sync

KIB, MIB, GIB = 2**10, 2**20, 2**30
DEFAULT_STRIPE = 64 * KIB
#: Number of parity devices.
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
COPIED = frozenset({"mirror", "raid1", "raid10"})
REDUNDANT = frozenset({*COPIED, *PARITY})
#: Types with an extent of metadata beside each image.
WITH_METADATA = REDUNDANT - {"mirror"}
#: The fewest data stripes that LVM accepts for a type.
LEAST_STRIPES = {"raid0": 2, "raid4": 2, "raid5": 2, "raid6": 3, "raid10": 2}
MOST_IMAGES = {"mirror": 8, "raid1": 10, "striped": 128, "linear": 2**16, "thin": 128, "cache": 128}
#: Chunk sizes are a multiple of this, and at least this.
CHUNKS = {"thin": 64 * KIB, "cache": 32 * KIB}
MOST_CACHE_CHUNKS = 1_000_000

Type = Literal["linear", "striped", "mirror", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "thin", "cache"]


def _order(value: object) -> object:
    """Separate the numbers with single blanks, so that two spellings of one order are equal."""
    if not isinstance(value, str) or not re.fullmatch(r"\s*\d+(\s+\d+)*\s*", value):
        raise ValueError('not an order; write the numbers of the devices below in quotation marks, like "4 3 1 2"')
    return " ".join(str(int(number)) for number in value.split())


def _kind_of(declared: str | None, stripes: int | None) -> str:
    return declared or ("striped" if (stripes or 1) > 1 else "linear")


class Lvm(Grouped):
    """A volume group over the devices below, with one logical volume or several equal ones."""

    kind: ClassVar[str] = "lvm"
    noun: ClassVar[str] = "volumes"
    maps: ClassVar[bool] = True
    type: Type | None = Field(None, description="striped if stripes > 1, else linear, if not given")
    volumes: int = Field(1, ge=1, le=256, description="the number of equal logical volumes")
    stripes: int | None = Field(
        None, ge=1, description="data stripes (lvcreate -i); parity and copies come on top of them"
    )
    stripe_size: Size | None = Field(None, description="64KiB if not given (lvcreate -I)")
    mirrors: int | None = Field(
        None, ge=1, description="mirror, raid1, raid10: copies beyond the first; 1 if not given"
    )
    devices: int | None = Field(
        None, ge=1, description="the number of devices below to use; default: as many as `stripes` needs, else all"
    )
    extent_size: Size = Field(4 * MIB, description="4MiB if not given (vgcreate -s)")
    alignment: Size | None = Field(
        None, ge=512, description="data begins at a multiple of it; LVM decides if not given"
    )
    size: Extent = Field(
        "100%", description="of each volume: bytes, or a share of what is free, or of its equal part of that"
    )
    order: Annotated[str, BeforeValidator(_order)] | None = Field(
        None, description='order in which the devices are used, counted from 1, like "4 3 1 2"'
    )
    sync: Sync = "auto"
    chunk: Size | None = Field(None, description="thin, cache: unit of allocation; 64KiB if not given")
    fast: int | None = Field(
        None, ge=1, description="cache: the number of devices, from the last, that hold it; default 1"
    )
    cache_mode: Literal["writethrough", "writeback", "passthrough"] | None = None

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        kind = _kind_of(values["type"], values["stripes"])
        idle: dict[str, str] = {}
        if kind in {"linear", "raid1"}:
            idle["stripe_size"] = f"a {kind} volume has no stripes"
        elif values["stripes"] == 1 or (values["stripes"] is None and kind in {"mirror", "thin", "cache"}):
            idle["stripe_size"] = "a single stripe has no stripe size"
        if kind == "raid1":
            idle["stripes"] = "a raid1 volume has no stripes"
        if values["type"] == "linear":
            idle["stripes"] = "a linear volume has no stripes; `devices` sets how many it uses"
        if kind not in COPIED:
            idle["mirrors"] = f"a {kind} volume has no copies"
        if kind not in REDUNDANT:
            idle["sync"] = f"a {kind} volume has no redundancy"
        if kind not in CHUNKS:
            idle["chunk"] = "only thin and cache volumes have chunks"
        if kind != "cache":
            idle |= dict.fromkeys(("fast", "cache_mode"), "only cache volumes have a cache")
        return idle

    @property
    def programs(self) -> tuple[str, ...]:
        return ("lvm", "dmsetup")

    @property
    def modules(self) -> tuple[str, ...]:
        if self.segment.startswith("raid"):
            return ("dm_mod", "dm_raid", "raid456" if self.segment in PARITY else self.segment)
        special = {"mirror": ("dm_mirror",), "thin": ("dm_thin_pool",), "cache": ("dm_cache", "dm_cache_smq")}
        return ("dm_mod", *special.get(self.segment, ()))

    @property
    def segment(self) -> str:
        """Return the declared type, or the default."""
        kind = _kind_of(self.type, self.stripes)
        return "linear" if kind == "striped" and self.stripes == 1 else kind

    @property
    def copies(self) -> int:
        """Return the number of copies of each block."""
        return 1 + (self.mirrors or 1) if self.segment in COPIED else 1

    @property
    def cache_devices(self) -> int:
        """Return the number of devices that hold the cache."""
        return (self.fast or 1) if self.segment == "cache" else 0

    def images(self, stripes: int) -> int:
        """Return the number of devices for this many data stripes."""
        return stripes * self.copies + PARITY.get(self.segment, 0)

    def used_devices(self, count: int) -> int:
        """Return how many of the devices below become physical volumes."""
        if self.devices is not None:
            return self.devices
        return count if self.stripes is None else self.images(self.stripes) + self.cache_devices

    def stripe_count(self, count: int) -> int:
        """Return the number of data stripes."""
        if self.stripes is not None:
            return self.stripes
        if self.segment in {"striped", "raid0", "raid10", *PARITY}:
            return (self.used_devices(count) - PARITY.get(self.segment, 0)) // self.copies
        return 1

    def resolve_part(self, below: Below) -> Self:
        stripes, used = self.stripe_count(below.count), self.used_devices(below.count)
        segment = "linear" if self.segment == "striped" and stripes == 1 else self.segment
        cache = segment == "cache"
        return self.model_copy(
            update={
                "type": segment,
                "stripes": stripes,
                "stripe_size": None if stripes == 1 else self.stripe_size or DEFAULT_STRIPE,
                "mirrors": self.copies - 1 or None,
                "devices": used,
                "order": self.order or " ".join(str(number) for number in range(1, used + 1)),
                "chunk": (self.chunk or 64 * KIB) if segment in CHUNKS else None,
                "fast": self.cache_devices or None,
                "cache_mode": (self.cache_mode or "writethrough") if cache else None,
            }
        )

    def part_problems(self, below: Below) -> Iterator[Problem]:
        counting = list(self._count_problems(below))
        basic = [*counting, *self._size_problems(), *([] if counting else self._order_problems(below.count))]
        yield from (*basic, *self._sync_problems())
        if not basic:
            yield from self._room_problems(below)

    def _count_problems(self, below: Below) -> Iterator[Problem]:
        used, stripes = self.used_devices(below.count), self.stripe_count(below.count)
        needed, least = self.images(stripes), LEAST_STRIPES.get(self.segment, 1)
        blamed = "stripes" if self.stripes is not None else "devices" if self.devices is not None else "type"
        what = f"a {self.segment} volume"
        if stripes < least:
            wanted = f"at least {least} stripes, on {self.images(least)} devices"
            yield Problem(
                blamed, f"{what} needs {wanted}; {below.description}" if blamed == "type" else f"{what} needs {wanted}"
            )
        elif used > below.count:
            blamed = "devices" if self.devices is not None else "stripes"
            yield Problem(blamed, f"{used} devices are too many: {below.description}")
        elif used - self.cache_devices < needed:
            extra = f" and {self.cache_devices} for the cache" if self.cache_devices else ""
            yield Problem(blamed, f"{what} needs {needed} devices{extra} for this; it has {used}")
        elif (used - self.cache_devices) % needed:
            blamed = "mirrors" if self.segment in COPIED and self.mirrors else blamed
            yield Problem(
                blamed,
                f"{used - self.cache_devices} devices cannot be used evenly by {what} that takes {needed} at a time",
            )
        elif needed > MOST_IMAGES.get(self.segment, 64):
            yield Problem(blamed, f"{what} has at most {MOST_IMAGES.get(self.segment, 64)} images, not {needed}")

    def _size_problems(self) -> Iterator[Problem]:
        extent = self.extent_size
        if (extent & (extent - 1) or extent < KIB) and (extent % (128 * KIB) or not extent):
            yield Problem("extent_size", "an extent must be a power of two and at least 1KiB, or a multiple of 128KiB")
        if self.stripe_size is not None:
            yield from power_of_two("stripe_size", self.stripe_size, 4096, "a stripe size")
            if self.stripe_size > extent:
                yield Problem("stripe_size", f"larger than an extent ({format_size(extent)})")
        if self.alignment is not None and self.alignment % 512:
            yield Problem("alignment", "data begins at whole sectors of 512B")
        least = CHUNKS.get(self.segment, 1)
        if self.chunk is not None and not (least <= self.chunk <= GIB and self.chunk % least == 0):
            yield Problem(
                "chunk", f"chunks of a {self.segment} volume are a multiple of {format_size(least)}, up to 1GiB"
            )

        if self.volumes > 1 and self.segment == "cache":
            yield Problem("volumes", "a cache serves one volume; for several, use `groups`")

    def _order_problems(self, count: int) -> Iterator[Problem]:
        used = self.used_devices(count)
        if self.order is not None and sorted(map(int, self.order.split())) != list(range(1, used + 1)):
            yield Problem("order", f"must name each of the {used} devices once, by its number counted from 1")

    def _sync_problems(self) -> Iterator[Problem]:
        if self.segment == "raid6" and self.sync == "assume-clean":
            yield Problem("sync", "LVM always synchronises raid6; write wait, background or auto")
        if self.segment == "mirror" and self.sync == "background":
            yield Problem("sync", "a mirror cannot be synchronised again for every trial; use raid1")

    def _room_problems(self, below: Below) -> Iterator[Problem]:
        extent, devices = self.extent_size, self._devices(below)
        room = self.room(below)
        if room <= 0:
            yield self._no_room(below)
        elif isinstance(self.size, int) and not 0 < self.size <= room:
            each = " each" if self.volumes > 1 else ""
            yield Problem(
                "size",
                f"there is room for {format_size(room)}{each}" if self.size else "too little space for one extent",
            )
        elif self.group_shape(below).size <= 0:
            yield Problem("size", f"less than one extent ({format_size(extent)}) for each stripe")
        elif self.cache_devices:
            cache = sum(self._usable(device) for device in devices[-self.cache_devices :])
            if cache < 2 * extent or cache < 8 * MIB:
                yield Problem("fast", "too small to hold a cache")
            elif cache // (self.chunk or 64 * KIB) > MOST_CACHE_CHUNKS:
                yield Problem(
                    "chunk", f"too small for a cache of {format_size(cache)}: LVM takes a million chunks at most"
                )

    def _no_room(self, below: Below) -> Problem:
        smallest, extent = min(device.size for device in self._devices(below)), format_size(self.extent_size)
        if self.volumes > 1 and self.model_copy(update={"volumes": 1}).room(below) > 0:
            return Problem(
                "volumes", f"less than one extent ({extent}) a stripe would be left for each of {self.volumes}"
            )
        told = f"too large for devices of {format_size(smallest)}: no extent would be left to use"
        return Problem("extent_size", f"{extent} is {told}")

    def _devices(self, below: Below) -> tuple[Shape, ...]:
        """Return the devices in the order of use."""
        used = below.devices[: self.used_devices(below.count)]
        return tuple(used[int(number) - 1] for number in self.order.split()) if self.order else used

    def data_start(self, full_stripe: int | None) -> int:
        """Return the start of data on a physical volume: exact with `alignment`, else an upper bound."""
        align = self.alignment or full_stripe or MIB
        start = -(-MIB // align) * align
        return start if self.alignment else start + MIB

    def _usable(self, device: Shape) -> int:
        return max(0, device.size - self.data_start(device.full_stripe)) // self.extent_size * self.extent_size

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        """Return the first volume of each group, then the second of each."""
        return super().devices_above(below) * self.volumes

    def room(self, below: Below) -> int:
        """Return a lower bound of the size of each volume if the volumes take all space."""
        together, row = self._total_room(below), self._size_step(below)
        return together if self.volumes == 1 else together // self.volumes // row * row

    def _size_step(self, below: Below) -> int:
        """Return the step of volume sizes. Several volumes in a pool end with whole chunks."""
        row = self.extent_size * self.stripe_count(below.count)
        several = self.segment == "thin" and self.volumes > 1
        return math.lcm(row, self.chunk or 64 * KIB) if several else row

    def _total_room(self, below: Below) -> int:
        """Return a lower bound of the size of all volumes if they take all space."""
        devices = self._devices(below)
        slow = devices[: len(devices) - self.cache_devices]
        stripes = self.stripe_count(below.count)
        if self.segment in {"linear", "thin", "cache"} and stripes == 1:
            room = sum(map(self._usable, slow))
        else:
            image = min(map(self._usable, slow)) * (len(slow) // self.images(stripes))
            metadata = self.volumes * self.extent_size if self.segment in WITH_METADATA else 0
            room = stripes * (image - metadata)
        return room - stripes * self.pool_metadata(room) if self.segment == "thin" else room

    def pool_metadata(self, data: int) -> int:
        """Return the size of the metadata of a thin pool: about 64 bytes a chunk, in whole extents."""
        wanted = min(max(4 * MIB, data // (self.chunk or 64 * KIB) * 64 + MIB), 15 * GIB)
        return -(-wanted // self.extent_size) * self.extent_size

    def requested_size(self, below: Below) -> int | None:
        """Return the bytes of a volume, in whole extents on every stripe, or None if it takes all space."""
        row = self._size_step(below)
        if isinstance(self.size, int):
            return -(-self.size // row) * row
        share = float(self.size.removesuffix("%")) / 100
        everything = share == 1 and self.volumes == 1
        return None if everything else int(self.room(below) * share) // row * row

    def pieces(self, below: Below, volume: int) -> list[tuple[int, int, int]]:
        """Return the pieces of a linear volume in order: position of the device, first and last extent on it."""
        each = self.group_shape(below).size // self.extent_size
        begin, end, start, found = volume * each, (volume + 1) * each, 0, []
        for place, device in enumerate(self._devices(below)):
            stop = start + self._usable(device) // self.extent_size
            first, last = max(begin, start) - start, min(end, stop) - start - 1
            if first <= last:
                found.append((place, first, last))
            start = stop
        return found

    @property
    def tolerated_losses(self) -> int:
        """Return how many devices may fail without loss of data, in the worst case. A lost cache can lose data."""
        return 0 if self.cache_devices else self.copies - 1 + PARITY.get(self.segment, 0)

    def group_shape(self, below: Below) -> Shape:
        requested = self.requested_size(below)
        return Shape(
            self.room(below) if requested is None else requested,
            *self._striping(below, self.stripe_count(below.count)),
            sector=max(device.sector for device in self._devices(below)),
            # Several volumes of one group fail together, so the next layer cannot count them.
            losses=losses_of(self._devices(below), self.tolerated_losses) if self.volumes == 1 else None,
        )

    def _striping(self, below: Below, stripes: int) -> tuple[int | None, int]:
        devices = self._devices(below)
        chunk = (self.stripe_size or DEFAULT_STRIPE) if stripes > 1 else None
        found = (chunk, stripes) if chunk else common(devices[: len(devices) - self.cache_devices])
        if self.segment == "thin" and found[0] and (self.chunk or 64 * KIB) % (found[0] * found[1]):
            return None, 1  # chunks have any position, and do not begin at full stripes
        return found

    def views(self, context: BuildContext) -> tuple[View, ...]:
        return _views(self, context)


VOLUME = "volume"
#: Do not wait for udev, leave no work to daemons, do not write below /etc/lvm, and skip the checks of metadata without
#: value. Other settings of the system's lvm.conf stay in force.
CONFIG = (
    "devices{{use_devicesfile=0 scan_lvs=1 obtain_device_list_from_udev=0 external_device_info_source=none "
    "global_filter=[{filter}] filter=[{filter}]}} "
    "activation{{udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0}} backup{{backup=0 archive=0}} "
    'global{{use_lvmpolld=0 thin_check_executable="" cache_check_executable=""}}'
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The value that the device mapper must show for a volume (None: record only). Templates use `key`."""

    setting: str
    key: str
    wanted: str | None


@dataclass(frozen=True, slots=True)
class Volume:
    """One logical volume: its name in LVM, its device mapper name and the values to read back."""

    name: str
    mapped: str
    readings: tuple[Reading, ...]

    @property
    def path(self) -> str:
        return f"/dev/mapper/{self.mapped}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LvmView(View):
    """One volume group with its volumes."""

    name: str
    tag: str
    volumes: tuple[Volume, ...]
    #: A configuration that shows LVM these devices only.
    config: str
    #: A configuration that shows LVM all devices.
    sees_all: str
    #: Arguments of `lvm`, in order; the first word is the command.
    commands: tuple[tuple[str, ...], ...]
    #: The device mapper name of the cache volume; empty without one.
    cache: str
    redundant: bool
    #: It is built on other layers, not on disks, so signatures on these devices are leftovers of earlier stacks.
    stands_on_layers: bool


def _views(layer: Lvm, context: BuildContext) -> tuple[View, ...]:
    return tuple(
        _group(layer, part, context.name(at, layer.groups)) for at, part in enumerate(context.parts(layer.groups))
    )


def _group(layer: Lvm, context: BuildContext, name: str) -> LvmView:
    members = tuple(context.devices[int(number) - 1] for number in (layer.order or "").split())
    resync = _resync(layer, zeroed=context.zeroed)
    tag = f"matrix-{mark(layer, members)}"
    prefix = f"{name.replace('-', '--')}-"
    volumes = tuple(
        Volume(one, prefix + one, tuple(_readings(layer, context, resync, number)))
        for number, one in enumerate(_volume_names(layer))
    )
    return LvmView(
        kind="lvm",
        members=context.devices[: layer.devices],
        tops=tuple(one.path for one in volumes),
        name=name,
        tag=tag,
        volumes=volumes,
        config=config(members),
        sees_all=CONFIG.format(filter='"a|.*|"'),
        commands=(_vgcreate(layer, name, tag, members), *_volumes(layer, context, name, members, resync)),
        cache=f"{prefix}fast_cvol" if layer.type == "cache" else "",
        redundant=layer.type in REDUNDANT,
        resync=resync,
        under_way="resync" if resync == "background" else "",
        stands_on_layers=context.depth > 0,
    )


def _volume_names(layer: Lvm) -> tuple[str, ...]:
    return (VOLUME,) if layer.volumes == 1 else tuple(f"{VOLUME}{number + 1}" for number in range(layer.volumes))


def config(devices: tuple[str, ...]) -> str:
    """Return an LVM configuration that shows these devices only, on any host."""
    seen = ", ".join(f'"a|^{_pattern(device)}$|"' for device in devices)
    return CONFIG.format(filter=f'{seen}, "r|.*|"')


def _pattern(path: str) -> str:
    """Return a path as a regular expression. A special character becomes `.`."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "/_-:") else "." for char in path)


def _resync(layer: Lvm, *, zeroed: bool) -> str:
    if layer.type not in REDUNDANT:
        return ""
    if layer.sync == "auto":
        return "assume-clean" if zeroed and layer.type != "raid6" else "waited for"
    return "waited for" if layer.sync == "wait" else layer.sync


def _vgcreate(layer: Lvm, name: str, tag: str, members: tuple[str, ...]) -> tuple[str, ...]:
    align = ("--dataalignment", f"{layer.alignment}b") if layer.alignment is not None else ()
    extent = ("--physicalextentsize", f"{layer.extent_size}b")
    return ("vgcreate", "--addtag", tag, "--setautoactivation", "n", *extent, *align, name, *members)


def _volumes(
    layer: Lvm, context: BuildContext, name: str, members: tuple[str, ...], resync: str
) -> list[tuple[str, ...]]:
    slow = members[: len(members) - (layer.fast or 0)]
    heads = [("lvcreate", "--name", one) for one in _volume_names(layer)]
    head = heads[0]
    if layer.type == "thin":
        virtual = (
            "--type",
            "thin",
            "--thinpool",
            "pool",
            "--virtualsize",
            f"{layer.group_shape(context.below).size}b",
            name,
        )
        return [(*head, *_thin(layer, context), name, *slow), *((*more, *virtual) for more in heads[1:])]
    if layer.type == "cache":
        return [(*head, *_plain(layer), *_size(layer, context, "PVS"), name, *slow), *_cache(layer, name, members)]
    how = (*_plain(layer), *_copies(layer), *(("--nosync",) if resync == "assume-clean" else ()))
    if _is_whole(layer) and len({shape.size for shape in context.below.devices}) > 1:
        # LVM would begin with the largest device.
        first, *more = ((*head, *how, "--extents", "100%PVS", name, slow[0]), *slow[1:])
        return [first, *(("lvextend", "--extents", "+100%PVS", f"{name}/{VOLUME}", str(one)) for one in more)]
    if layer.type == "linear" and not _is_whole(layer):
        return [command for number in range(len(heads)) for command in _linear(layer, context, name, members, number)]
    return [(*one, *how, *_size(layer, context, "FREE"), name, *slow) for one in heads]


def _linear(
    layer: Lvm, context: BuildContext, name: str, members: tuple[str, ...], number: int
) -> list[tuple[str, ...]]:
    """Return commands that name the extents, so that LVM keeps the order of the devices."""
    volume = _volume_names(layer)[number]
    head: tuple[str, ...] = ("lvcreate", "--name", volume, "--type", "linear")
    found, sign, of = list[tuple[str, ...]](), "", name
    for place, first, last in layer.pieces(context.below, number):
        # A colon or at sign in the path needs an escape, because extents follow a colon.
        path = members[place].replace(":", "\\:").replace("@", "\\@")
        found.append((*head, "--extents", f"{sign}{last - first + 1}", of, f"{path}:{first}-{last}"))
        head, sign, of = ("lvextend",), "+", f"{name}/{volume}"
    return found


def _is_whole(layer: Lvm) -> bool:
    """Return whether it is a linear volume that takes all of each device in turn."""
    return layer.type == "linear" and layer.size == "100%" and layer.volumes == 1


def _plain(layer: Lvm) -> tuple[str, ...]:
    plain = {"thin": "linear", "cache": "linear"}.get(str(layer.type), str(layer.type))
    if layer.stripe_size is None:
        return ("--type", plain)
    kind = "striped" if plain == "linear" else plain
    return ("--type", kind, "--stripes", str(layer.stripes), "--stripesize", f"{layer.stripe_size}b")


def _copies(layer: Lvm) -> tuple[str, ...]:
    if layer.mirrors is None:
        return ()
    log = ("--mirrorlog", "core") if layer.type == "mirror" else ()
    return ("--mirrors", str(layer.mirrors), *log)


def _size(layer: Lvm, context: BuildContext, of: str) -> tuple[str, str]:
    requested = layer.requested_size(context.below)
    return ("--extents", f"100%{of}") if requested is None else ("--size", f"{requested}b")


def _thin(layer: Lvm, context: BuildContext) -> tuple[str, ...]:
    """Return arguments for a pool that takes all space, with one volume in it."""
    whole = layer.model_copy(update={"size": "100%", "volumes": 1}).group_shape(context.below).size
    return (
        "--type", "thin", "--thinpool", "pool", *_plain(layer)[2:], "--chunksize", f"{layer.chunk}b",
        "--poolmetadatasize", f"{layer.pool_metadata(whole)}b", "--poolmetadataspare", "n",
        "--size", f"{whole}b", "--virtualsize", f"{layer.group_shape(context.below).size}b",
    )  # fmt: skip


def _cache(layer: Lvm, name: str, members: tuple[str, ...]) -> list[tuple[str, ...]]:
    fast = members[-(layer.fast or 0) :]
    return [
        ("lvcreate", "--name", "fast", "--type", "linear", "--extents", "100%PVS", name, *fast),
        (
            "lvconvert", "--type", "cache", "--cachevol", "fast", "--cachemode", str(layer.cache_mode),
            "--cachepolicy", "smq", "--chunksize", f"{layer.chunk}b", f"{name}/{VOLUME}",
        ),
    ]  # fmt: skip


def _readings(layer: Lvm, context: BuildContext, resync: str, number: int) -> list[Reading]:
    """Return the values to read back from the device mapper. Only the first volume begins at the start of data."""
    order = (layer.order or "").split()
    slow, fast = order[: len(order) - (layer.fast or 0)], order[len(order) - (layer.fast or 0) :]
    even = len({shape.size for shape in context.below.devices[: layer.devices]}) == 1
    # If an image has several devices, or they differ in size, LVM chooses among them and may not need all.
    if layer.type == "linear" and not _is_whole(layer):
        slow = [slow[place] for place, _, _ in layer.pieces(context.below, number)]
    fixed = layer.type == "linear" or (even and len(slow) == layer.images(layer.stripes or 1))
    plain = number == 0 and layer.type in {"linear", "striped"}
    start = layer.data_start(None) if layer.alignment is not None and plain else None
    found = [
        Reading("type", "type", layer.type),
        Reading("stripes", "stripes", str(layer.stripes)),
        Reading("stripe_size", "stripe_size", _text(layer.stripe_size)),
        Reading("order", "order", " ".join(slow) if fixed else None),
        Reading("mirrors", "mirrors", _text(layer.mirrors)),
        Reading("extent_size", "extent_size", str(layer.extent_size)),
        Reading("data_start", "data_start", _text(start)),
        Reading("bytes", "size", _text(layer.requested_size(context.below))),
    ]
    if layer.type in {"thin", "cache"}:
        found.append(Reading("chunk", "chunk", str(layer.chunk)))
    if layer.type == "cache":
        found.append(Reading("cache_mode", "cache_mode", layer.cache_mode))
        found.append(Reading("fast", "fast", " ".join(fast)))
    if layer.type in REDUNDANT:
        found.append(Reading("degraded", "degraded", "0"))
        found.append(Reading("sync_action", "sync_action", "resync" if resync == "background" else "idle"))
    return found


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
