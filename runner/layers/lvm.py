"""LVM: physical volumes, a volume group over them, and the logical volumes that fill it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from runner.base.quantities import format_size
from runner.base.units import Extent, Size
from runner.layers.base import Ground, Grouped, Problem, View, mark, power_of_two
from runner.layers.geometry import Shape, common
from runner.layers.md import Sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.layers.geometry import Below


KIB, MIB, GIB = 2**10, 2**20, 2**30
DEFAULT_STRIPE = 64 * KIB
#: Devices that hold nothing but parity.
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
COPIED = frozenset({"mirror", "raid1", "raid10"})
REDUNDANT = frozenset({*COPIED, *PARITY})
#: Types whose images are each accompanied by an extent of metadata.
WITH_METADATA = REDUNDANT - {"mirror"}
#: Data stripes below which LVM will not build a type.
LEAST_STRIPES = {"raid0": 2, "raid4": 2, "raid5": 2, "raid6": 3, "raid10": 2}
MOST_IMAGES = {"mirror": 8, "raid1": 10, "striped": 128, "linear": 2**16, "thin": 128, "cache": 128}
#: What chunks are a multiple of, and at least.
CHUNKS = {"thin": 64 * KIB, "cache": 32 * KIB}
MOST_CACHE_CHUNKS = 1_000_000

Type = Literal["linear", "striped", "mirror", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "thin", "cache"]


def _order(value: object) -> object:
    """Numbers with single blanks between them, so that two spellings of one order are equal."""
    if not isinstance(value, str) or not re.fullmatch(r"\s*\d+(\s+\d+)*\s*", value):
        raise ValueError('no order; write the numbers of the devices below in quotation marks, like "4 3 1 2"')
    return " ".join(str(int(number)) for number in value.split())


def _kind_of(declared: str | None, stripes: int | None) -> str:
    return declared or ("striped" if (stripes or 1) > 1 else "linear")


class Lvm(Grouped):
    """A volume group over the devices below, with one logical volume or several equal ones."""

    kind: ClassVar[str] = "lvm"
    noun: ClassVar[str] = "volumes"
    maps: ClassVar[bool] = True
    type: Annotated[Type | None, Field(description="striped if stripes > 1, else linear, if not given")] = None
    volumes: Annotated[int, Field(ge=1, le=256, description="so many logical volumes, each of an equal part")] = 1
    stripes: Annotated[
        int | None, Field(ge=1, description="data stripes (lvcreate -i); parity and copies come on top of them")
    ] = None
    stripe_size: Annotated[Size | None, Field(description="64KiB if not given (lvcreate -I)")] = None
    mirrors: Annotated[
        int | None, Field(ge=1, description="mirror, raid1, raid10: copies beyond the first; 1 if not given")
    ] = None
    devices: Annotated[
        int | None,
        Field(ge=1, description="so many of the devices below; what `stripes` needs if that is given, else all"),
    ] = None
    extent_size: Annotated[Size, Field(description="4MiB if not given (vgcreate -s)")] = 4 * MIB
    alignment: Annotated[
        Size | None, Field(ge=512, description="data begins at a multiple of it; what LVM finds right if not given")
    ] = None
    size: Annotated[
        Extent, Field(description="of each volume: bytes, or a share of what is free, or of its equal part of that")
    ] = "100%"
    order: Annotated[
        Annotated[str, BeforeValidator(_order)] | None,
        Field(description='order in which the devices are used, counted from 1, like "4 3 1 2"'),
    ] = None
    sync: Sync = "auto"
    chunk: Annotated[Size | None, Field(description="thin, cache: unit of allocation; 64KiB if not given")] = None
    fast: Annotated[int | None, Field(ge=1, description="cache: so many of the last devices hold it; 1")] = None
    cache_mode: Literal["writethrough", "writeback", "passthrough"] | None = None

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing for these values, and why."""
        kind = _kind_of(values["type"], values["stripes"])
        idle: dict[str, str] = {}
        if kind in {"linear", "raid1"}:
            idle["stripe_size"] = f"a {kind} volume has no stripes"
        elif values["stripes"] == 1 or (values["stripes"] is None and kind in {"mirror", "thin", "cache"}):
            idle["stripe_size"] = "a single stripe has no stripe size"
        if kind == "raid1":
            idle["stripes"] = "a raid1 volume has no stripes"
        if values["type"] == "linear":
            idle["stripes"] = "a linear volume has no stripes; `devices` says on how many it lies"
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
        """Also what reads its tables."""
        return ("lvm", "dmsetup")

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules without which it cannot be built."""
        if self.segment.startswith("raid"):
            return ("dm_mod", "dm_raid", "raid456" if self.segment in PARITY else self.segment)
        special = {"mirror": ("dm_mirror",), "thin": ("dm_thin_pool",), "cache": ("dm_cache", "dm_cache_smq")}
        return ("dm_mod", *special.get(self.segment, ()))

    @property
    def segment(self) -> str:
        """Its type, if that was left open."""
        kind = _kind_of(self.type, self.stripes)
        return "linear" if kind == "striped" and self.stripes == 1 else kind

    @property
    def copies(self) -> int:
        """How often each block is kept."""
        return 1 + (self.mirrors or 1) if self.segment in COPIED else 1

    @property
    def cached(self) -> int:
        """Devices that hold the cache."""
        return (self.fast or 1) if self.segment == "cache" else 0

    def images(self, stripes: int) -> int:
        """Devices that so many data stripes need."""
        return stripes * self.copies + PARITY.get(self.segment, 0)

    def used(self, count: int) -> int:
        """How many of the devices below become physical volumes."""
        if self.devices is not None:
            return self.devices
        return count if self.stripes is None else self.images(self.stripes) + self.cached

    def striped_over(self, count: int) -> int:
        """Data stripes."""
        if self.stripes is not None:
            return self.stripes
        if self.segment in {"striped", "raid0", "raid10", *PARITY}:
            return (self.used(count) - PARITY.get(self.segment, 0)) // self.copies
        return 1

    def part_settled(self, below: Below) -> Self:
        """With everything that was left open filled in."""
        stripes, used = self.striped_over(below.count), self.used(below.count)
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
                "fast": self.cached or None,
                "cache_mode": (self.cache_mode or "writethrough") if cache else None,
            }
        )

    def part_problems(self, below: Below) -> Iterator[Problem]:
        """What LVM would refuse."""
        counting = list(self._count_problems(below))
        basic = [*counting, *self._size_problems(), *([] if counting else self._order_problems(below.count))]
        yield from (*basic, *self._sync_problems())
        if not basic:
            yield from self._room_problems(below)

    def _count_problems(self, below: Below) -> Iterator[Problem]:
        used, stripes = self.used(below.count), self.striped_over(below.count)
        needed, least = self.images(stripes), LEAST_STRIPES.get(self.segment, 1)
        blamed = "stripes" if self.stripes is not None else "devices" if self.devices is not None else "type"
        what = f"a {self.segment} volume"
        if stripes < least:
            wanted = f"at least {least} stripes, on {self.images(least)} devices"
            yield Problem(
                blamed, f"{what} needs {wanted}; {below.told}" if blamed == "type" else f"{what} needs {wanted}"
            )
        elif used > below.count:
            blamed = "devices" if self.devices is not None else "stripes"
            yield Problem(blamed, f"{used} devices are more than there are: {below.told}")
        elif used - self.cached < needed:
            extra = f" and {self.cached} for the cache" if self.cached else ""
            yield Problem(blamed, f"{what} needs {needed} devices{extra} for this; it has {used}")
        elif (used - self.cached) % needed:
            blamed = "mirrors" if self.segment in COPIED and self.mirrors else blamed
            yield Problem(
                blamed, f"{used - self.cached} devices cannot be used evenly by {what} that takes {needed} at a time"
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
            yield Problem("volumes", "a cache is that of one volume; use `groups` for several, each with its own")

    def _order_problems(self, count: int) -> Iterator[Problem]:
        used = self.used(count)
        if self.order is not None and sorted(map(int, self.order.split())) != list(range(1, used + 1)):
            yield Problem("order", f"must name each of the {used} devices once, by its number counted from 1")

    def _sync_problems(self) -> Iterator[Problem]:
        if self.segment == "raid6" and self.sync == "assume-clean":
            yield Problem("sync", "LVM always synchronises raid6; write wait, background or auto")
        if self.segment == "mirror" and self.sync == "background":
            yield Problem("sync", "a mirror cannot be made to synchronise again for every trial; use raid1")

    def _room_problems(self, below: Below) -> Iterator[Problem]:
        extent, devices = self.extent_size, self._devices(below)
        room = self.room(below)
        if room <= 0:
            yield self._no_room(below)
        elif isinstance(self.size, int) and not 0 < self.size <= room:
            each = " each" if self.volumes > 1 else ""
            yield Problem(
                "size", f"there is room for {format_size(room)}{each}" if self.size else "nothing would be left"
            )
        elif self.over(below).size <= 0:
            yield Problem("size", f"less than one extent ({format_size(extent)}) for each stripe")
        elif self.cached:
            cache = sum(self._usable(device) for device in devices[-self.cached :])
            if cache < 2 * extent or cache < 8 * MIB:
                yield Problem("fast", "too small to hold a cache")
            elif cache // (self.chunk or 64 * KIB) > MOST_CACHE_CHUNKS:
                yield Problem(
                    "chunk", f"too small for a cache of {format_size(cache)}: LVM takes a million chunks at most"
                )

    def _no_room(self, below: Below) -> Problem:
        """What is too many, or too large."""
        smallest, extent = min(device.size for device in self._devices(below)), format_size(self.extent_size)
        if self.volumes > 1 and self.model_copy(update={"volumes": 1}).room(below) > 0:
            return Problem(
                "volumes", f"less than one extent ({extent}) a stripe would be left for each of {self.volumes}"
            )
        told = f"too large for devices of {format_size(smallest)}: no extent would be left to use"
        return Problem("extent_size", f"{extent} is {told}")

    def _devices(self, below: Below) -> tuple[Shape, ...]:
        """In the order in which they are used."""
        used = below.devices[: self.used(below.count)]
        return tuple(used[int(number) - 1] for number in self.order.split()) if self.order else used

    def data_start(self, full_stripe: int | None) -> int:
        """Where data begins on a physical volume, behind LVM's own: exactly if `alignment` is given, else at most."""
        align = self.alignment or full_stripe or MIB
        start = -(-MIB // align) * align
        return start if self.alignment else start + MIB

    def _usable(self, device: Shape) -> int:
        """Whole extents of a physical volume."""
        return max(0, device.size - self.data_start(device.full_stripe)) // self.extent_size * self.extent_size

    def above(self, below: Below) -> tuple[Shape, ...]:
        """The first volume of each group, then the second of each."""
        return super().above(below) * self.volumes

    def room(self, below: Below) -> int:
        """What each volume has at least, if they take everything."""
        together, row = self._together(below), self._row(below)
        return together if self.volumes == 1 else together // self.volumes // row * row

    def _row(self, below: Below) -> int:
        """What the size of a volume is a multiple of; of several in a pool, none ends with a part of a chunk."""
        row = self.extent_size * self.striped_over(below.count)
        several = self.segment == "thin" and self.volumes > 1
        return math.lcm(row, self.chunk or 64 * KIB) if several else row

    def _together(self, below: Below) -> int:
        """What volumes that take everything have, at least."""
        devices = self._devices(below)
        slow = devices[: len(devices) - self.cached]
        stripes = self.striped_over(below.count)
        if self.segment in {"linear", "thin", "cache"} and stripes == 1:
            room = sum(map(self._usable, slow))
        else:
            image = min(map(self._usable, slow)) * (len(slow) // self.images(stripes))
            metadata = self.volumes * self.extent_size if self.segment in WITH_METADATA else 0
            room = stripes * (image - metadata)
        return room - stripes * self.pool_metadata(room) if self.segment == "thin" else room

    def pool_metadata(self, data: int) -> int:
        """Size of the metadata of a thin pool: 64 bytes a chunk and some, in whole extents."""
        wanted = min(max(4 * MIB, data // (self.chunk or 64 * KIB) * 64 + MIB), 15 * GIB)
        return -(-wanted // self.extent_size) * self.extent_size

    def asked(self, below: Below) -> int | None:
        """Bytes of a volume that does not take everything there is: whole extents on every stripe."""
        row = self._row(below)
        if isinstance(self.size, int):
            return -(-self.size // row) * row
        share = float(self.size.removesuffix("%")) / 100
        everything = share == 1 and self.volumes == 1
        return None if everything else int(self.room(below) * share) // row * row

    def pieces(self, below: Below, volume: int) -> list[tuple[int, int, int]]:
        """Where a linear volume lies, one behind the other: place in the order, first and last extent on it."""
        each = self.over(below).size // self.extent_size
        begin, end, start, found = volume * each, (volume + 1) * each, 0, []
        for place, device in enumerate(self._devices(below)):
            stop = start + self._usable(device) // self.extent_size
            first, last = max(begin, start) - start, min(end, stop) - start - 1
            if first <= last:
                found.append((place, first, last))
            start = stop
        return found

    def over(self, below: Below) -> Shape:
        """The volume, or each of them."""
        asked = self.asked(below)
        return Shape(
            self.room(below) if asked is None else asked,
            *self._striping(below, self.striped_over(below.count)),
            sector=max(device.sector for device in self._devices(below)),
        )

    def _striping(self, below: Below, stripes: int) -> tuple[int | None, int]:
        devices = self._devices(below)
        chunk = (self.stripe_size or DEFAULT_STRIPE) if stripes > 1 else None
        found = (chunk, stripes) if chunk else common(devices[: len(devices) - self.cached])
        if self.segment == "thin" and found[0] and (self.chunk or 64 * KIB) % (found[0] * found[1]):
            return None, 1  # chunks lie anywhere, and do not begin at full stripes
        return found

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        return _views(self, ground)


VOLUME = "volume"
#: Nothing is asked of udev, nothing is left to daemons, nothing is written below /etc/lvm, and what cannot be lost is
#: not checked. What the system's own lvm.conf says otherwise holds.
CONFIG = (
    "devices{{use_devicesfile=0 scan_lvs=1 obtain_device_list_from_udev=0 external_device_info_source=none "
    "global_filter=[{filter}] filter=[{filter}]}} "
    "activation{{udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0}} backup{{backup=0 archive=0}} "
    'global{{use_lvmpolld=0 thin_check_executable="" cache_check_executable=""}}'
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the device mapper must say of a volume (None: only recorded); `key` is what templates call it."""

    setting: str
    key: str
    wanted: str | None


@dataclass(frozen=True, slots=True)
class Volume:
    """One logical volume: what LVM calls it, what the device mapper does, and what must be read of it."""

    name: str
    mapped: str
    readings: tuple[Reading, ...]

    @property
    def path(self) -> str:
        """The device."""
        return f"/dev/mapper/{self.mapped}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LvmView(View):
    """One volume group with its volumes."""

    name: str
    tag: str
    volumes: tuple[Volume, ...]
    #: Shows LVM these devices and no others.
    config: str
    #: Shows LVM all there are.
    sees_all: str
    #: What `lvm` is told, in this order; the first word is the command.
    commands: tuple[tuple[str, ...], ...]
    #: What the device mapper calls the volume that is the cache; empty if there is none.
    cache: str
    redundant: bool
    #: It stands on other layers, not on disks: whatever is found on these devices is left over from earlier ones.
    stands_on_layers: bool


def _views(layer: Lvm, ground: Ground) -> tuple[View, ...]:
    """A volume group of each group of devices."""
    return tuple(
        _group(layer, part, ground.name(at, layer.groups)) for at, part in enumerate(ground.parts(layer.groups))
    )


def _group(layer: Lvm, ground: Ground, name: str) -> LvmView:
    members = tuple(ground.devices[int(number) - 1] for number in (layer.order or "").split())
    resync = _resync(layer, zeroed=ground.zeroed)
    tag = f"matrix-{mark(layer, members)}"
    prefix = f"{name.replace('-', '--')}-"
    volumes = tuple(
        Volume(one, prefix + one, tuple(_readings(layer, ground, resync, number)))
        for number, one in enumerate(_called(layer))
    )
    return LvmView(
        kind="lvm",
        members=ground.devices[: layer.devices],
        tops=tuple(one.path for one in volumes),
        name=name,
        tag=tag,
        volumes=volumes,
        config=config(members),
        sees_all=CONFIG.format(filter='"a|.*|"'),
        commands=(_vgcreate(layer, name, tag, members), *_volumes(layer, ground, name, members, resync)),
        cache=f"{prefix}fast_cvol" if layer.type == "cache" else "",
        redundant=layer.type in REDUNDANT,
        resync=resync,
        under_way="resync" if resync == "background" else "",
        stands_on_layers=ground.depth > 0,
    )


def _called(layer: Lvm) -> tuple[str, ...]:
    """What LVM is to call the volumes."""
    return (VOLUME,) if layer.volumes == 1 else tuple(f"{VOLUME}{number + 1}" for number in range(layer.volumes))


def config(devices: tuple[str, ...]) -> str:
    """LVM's configuration under which it sees these devices and no others, whatever the host is like."""
    seen = ", ".join(f'"a|^{_pattern(device)}$|"' for device in devices)
    return CONFIG.format(filter=f'{seen}, "r|.*|"')


def _pattern(path: str) -> str:
    """A path as a regular expression; what might mean something in one matches as any character."""
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


def _volumes(layer: Lvm, ground: Ground, name: str, members: tuple[str, ...], resync: str) -> list[tuple[str, ...]]:
    """The commands that make the volumes."""
    slow = members[: len(members) - (layer.fast or 0)]
    heads = [("lvcreate", "--name", one) for one in _called(layer)]
    head = heads[0]
    if layer.type == "thin":
        virtual = ("--type", "thin", "--thinpool", "pool", "--virtualsize", f"{layer.over(ground.below).size}b", name)
        return [(*head, *_thin(layer, ground), name, *slow), *((*more, *virtual) for more in heads[1:])]
    if layer.type == "cache":
        return [(*head, *_plain(layer), *_size(layer, ground, "PVS"), name, *slow), *_cache(layer, name, members)]
    how = (*_plain(layer), *_copies(layer), *(("--nosync",) if resync == "assume-clean" else ()))
    if _is_whole(layer) and len({shape.size for shape in ground.below.devices}) > 1:
        # LVM would begin with the largest.
        first, *more = ((*head, *how, "--extents", "100%PVS", name, slow[0]), *slow[1:])
        return [first, *(("lvextend", "--extents", "+100%PVS", f"{name}/{VOLUME}", str(one)) for one in more)]
    if layer.type == "linear" and not _is_whole(layer):
        return [command for number in range(len(heads)) for command in _linear(layer, ground, name, members, number)]
    return [(*one, *how, *_size(layer, ground, "FREE"), name, *slow) for one in heads]


def _linear(layer: Lvm, ground: Ground, name: str, members: tuple[str, ...], number: int) -> list[tuple[str, ...]]:
    """The commands that make a volume of a part of the devices: told which, LVM keeps their order."""
    volume = _called(layer)[number]
    head: tuple[str, ...] = ("lvcreate", "--name", volume, "--type", "linear")
    found, sign, of = list[tuple[str, ...]](), "", name
    for place, first, last in layer.pieces(ground.below, number):
        # Behind a colon stand the extents, so those of a path are told apart.
        path = members[place].replace(":", "\\:").replace("@", "\\@")
        found.append((*head, "--extents", f"{sign}{last - first + 1}", of, f"{path}:{first}-{last}"))
        head, sign, of = ("lvextend",), "+", f"{name}/{volume}"
    return found


def _is_whole(layer: Lvm) -> bool:
    """Whether it is a linear volume that takes its devices one after the other to their ends."""
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


def _size(layer: Lvm, ground: Ground, of: str) -> tuple[str, str]:
    asked = layer.asked(ground.below)
    return ("--extents", f"100%{of}") if asked is None else ("--size", f"{asked}b")


def _thin(layer: Lvm, ground: Ground) -> tuple[str, ...]:
    """A pool of everything, and in it a volume as large as was asked for."""
    whole = layer.model_copy(update={"size": "100%", "volumes": 1}).over(ground.below).size
    return (
        "--type", "thin", "--thinpool", "pool", *_plain(layer)[2:], "--chunksize", f"{layer.chunk}b",
        "--poolmetadatasize", f"{layer.pool_metadata(whole)}b", "--poolmetadataspare", "n",
        "--size", f"{whole}b", "--virtualsize", f"{layer.over(ground.below).size}b",
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


def _readings(layer: Lvm, ground: Ground, resync: str, number: int) -> list[Reading]:
    """What must be in the device mapper's tables of a volume; only the first begins where data do."""
    order = (layer.order or "").split()
    slow, fast = order[: len(order) - (layer.fast or 0)], order[len(order) - (layer.fast or 0) :]
    even = len({shape.size for shape in ground.below.devices[: layer.devices]}) == 1
    # Where an image has several devices, or they differ in size, LVM chooses; it may not need them all.
    if layer.type == "linear" and not _is_whole(layer):
        slow = [slow[place] for place, _, _ in layer.pieces(ground.below, number)]
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
        Reading("bytes", "size", _text(layer.asked(ground.below))),
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
