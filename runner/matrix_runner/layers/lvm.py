"""LVM: a volume group and its volumes. Over 400 lines: a layer is one module, from its declaration to its commands."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from matrix_runner.base.model import Extent, Name, Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import Action, Array, BuildContext, Problem, Sync, SyncTarget, View, mark, power_of_two
from matrix_runner.layers.geometry import Below, Shape, common, losses_of
from matrix_runner.layers.needs import Need

KIB, MIB, GIB = 2**10, 2**20, 2**30
DEFAULT_STRIPE = 64 * KIB
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}  # number of parity devices
COPIED = frozenset({"mirror", "raid1", "raid10"})
REDUNDANT = frozenset({*COPIED, *PARITY})
WITH_METADATA = REDUNDANT - {"mirror"}  # types with an extent of metadata beside each image
#: The fewest data stripes that LVM accepts for a type.
LEAST_STRIPES = {"raid0": 2, "raid4": 2, "raid5": 2, "raid6": 3, "raid10": 2}
MOST_IMAGES = {"mirror": 8, "raid1": 10, "striped": 128, "linear": 2**16, "thin": 128, "cache": 128}
CHUNKS = {"thin": 64 * KIB, "cache": 32 * KIB}  # chunk sizes are a multiple of this, and at least this
MOST_CACHE_CHUNKS = 1_000_000

Type = Literal["linear", "striped", "mirror", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "thin", "cache"]


def _order(value: object) -> object:
    """Separate the numbers with single blanks, so that two spellings of one order are equal."""
    if not isinstance(value, str) or not re.fullmatch(r"\s*[0-9]+(\s+[0-9]+)*\s*", value):
        raise ValueError('not an order; write the numbers of the devices below in quotation marks, like "4 3 1 2"')
    return " ".join(str(int(number)) for number in value.split())


class Lvm(Array):
    """A volume group over the devices below, with one logical volume or several equal ones."""

    kind: ClassVar[str] = "lvm"
    noun: ClassVar[str] = "volumes"
    also_called: ClassVar[Mapping[str, str]] = dict.fromkeys(("lv", "vg", "pv", "lvm2"), "lvm")
    needs: ClassVar[tuple[Need, ...]] = (
        Need(modules=("dm_mod",), programs=("lvm", "dmsetup")),
        Need("type", ("raid4", "raid5", "raid6"), modules=("dm_raid", "raid456")),
        *(Need("type", (name,), modules=("dm_raid", name)) for name in ("raid0", "raid1", "raid10")),
        Need("type", ("mirror",), modules=("dm_mirror",)),
        Need("type", ("thin",), modules=("dm_thin_pool",)),
        Need("type", ("cache",), modules=("dm_cache", "dm_cache_smq")),
    )
    maps: ClassVar[bool] = True
    type: Type | None = Field(
        None, description="type of the volumes; if not given: striped with `stripes` of 2 or more, else linear"
    )
    volumes: int = Field(1, ge=1, le=256, description="the number of equal logical volumes")
    stripes: int | None = Field(
        None, ge=1, description="number of data stripes (lvcreate -i); devices for parity and copies are added"
    )
    stripe_size: Size | None = Field(
        None, description="size of a stripe on one device (lvcreate -I); 64KiB if not given"
    )
    mirrors: int | None = Field(
        None, ge=1, description="mirror, raid1, raid10: number of copies beside the first; 1 if not given"
    )
    devices: int | None = Field(
        None, ge=1, description="number of devices below to use; if not given: as many as `stripes` needs, else all"
    )
    extent_size: Size = Field(4 * MIB, description="size of an extent (vgcreate -s)")
    alignment: Size | None = Field(
        None, ge=512, description="data begins at a multiple of it; LVM chooses if not given"
    )
    size: Extent = Field(
        "100%",
        description="size of each volume: bytes, or a share of the free space (of several volumes: of its equal part)",
    )
    order: Annotated[str, BeforeValidator(_order)] | None = Field(
        None, description='order in which the devices below are used, counted from 1, like "4 3 1 2"'
    )
    sync: Sync = "auto"
    chunk: Size | None = Field(None, description="thin, cache: size of the unit of allocation; 64KiB if not given")
    fast: Annotated[int, Field(ge=1)] | Name | None = Field(
        None,
        description="cache: number of devices, the last ones, that hold the cache, or the name of their part; "
        "1 if not given",
    )
    cache_mode: Literal["writethrough", "writeback", "passthrough"] | None = None

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        kind = values["type"] or ("striped" if (values["stripes"] or 1) > 1 else "linear")
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
    def segment(self) -> str:
        kind = self.type or ("striped" if (self.stripes or 1) > 1 else "linear")
        return "linear" if kind == "striped" and self.stripes == 1 else kind

    @property
    def why_no_trims(self) -> str:
        return f"LVM's {self.segment} does not pass trims on" if self.segment in PARITY else ""

    @property
    def copies(self) -> int:
        return 1 + (self.mirrors or 1) if self.segment in COPIED else 1

    @property
    def parity(self) -> int:
        return PARITY.get(self.segment, 0)

    @property
    def chunk_size(self) -> int:
        return self.chunk or 64 * KIB

    @property
    def title(self) -> str:
        return f"LVM {self.segment}"

    @property
    def parts(self) -> Mapping[str, str]:
        return {self.fast: "fast"} if isinstance(self.fast, str) else {}

    def cache_devices(self, below: Below) -> int:
        if self.segment != "cache":
            return 0
        return below.named if isinstance(self.fast, str) else self.fast or 1

    def images(self, stripes: int) -> int:
        return stripes * self.copies + self.parity

    def used_devices(self, below: Below) -> int:
        if self.devices is not None:
            return self.devices
        return below.count if self.stripes is None else self.images(self.stripes) + self.cache_devices(below)

    def stripe_count(self, below: Below) -> int:
        if self.stripes is not None:
            return self.stripes
        if self.segment in {"striped", "raid0", "raid10", *PARITY}:
            return (self.used_devices(below) - self.parity) // self.copies
        return 1

    def resolve_part(self, below: Below) -> Self:
        stripes, used = self.stripe_count(below), self.used_devices(below)
        segment = "linear" if self.segment == "striped" and stripes == 1 else self.segment
        return self.model_copy(
            update={
                "type": segment,
                "stripes": stripes,
                "stripe_size": None if stripes == 1 else self.stripe_size or DEFAULT_STRIPE,
                "mirrors": self.copies - 1 or None,
                "devices": used,
                "order": self.order or " ".join(str(number) for number in range(1, used + 1)),
                "chunk": self.chunk_size if segment in CHUNKS else None,
                "fast": (self.fast or 1) if segment == "cache" else None,
                "cache_mode": (self.cache_mode or "writethrough") if segment == "cache" else None,
            }
        )

    @property
    def redundant(self) -> bool:
        return self.segment in REDUNDANT

    @property
    def arrays(self) -> int:
        return super().arrays * self.volumes

    def sync_target(self, below: Below) -> SyncTarget:
        size = self.devices_above(below)[0].size
        member = size // self.stripe_count(below)
        redundant = size * (self.copies - 1) + member * self.parity
        return SyncTarget(member, redundant, size if self.segment == "raid10" else member)

    def why_no_sync(self, action: Action) -> str:
        if self.segment == "mirror":
            return f"LVM's type mirror has no {action}; use raid1"
        if action == "resync":
            return "LVM starts a resync only on a volume without users; write repair, which covers the same stripes"
        return ""

    def part_problems(self, below: Below) -> Iterator[Problem]:
        counting = list(self._count_problems(below))
        basic = [*counting, *self._size_problems()]
        used = self.used_devices(below)
        if not counting and self.order and sorted(map(int, self.order.split())) != list(range(1, used + 1)):
            basic.append(Problem("order", f"must name each of the {used} devices once, by its number counted from 1"))
        yield from basic
        if self.segment == "raid6" and self.sync == "assume-clean":
            yield Problem("sync", "LVM always synchronises raid6; write wait, background or auto")
        if self.segment == "mirror" and self.sync == "background":
            yield Problem("sync", "a mirror cannot be synchronised again for every trial; use raid1")
        if not basic:
            yield from self._room_problems(below)

    def _count_problems(self, below: Below) -> Iterator[Problem]:
        used, stripes = self.used_devices(below), self.stripe_count(below)
        needed, fast, least = self.images(stripes), self.cache_devices(below), LEAST_STRIPES.get(self.segment, 1)
        most = MOST_IMAGES.get(self.segment, 64)
        blamed = "stripes" if self.stripes is not None else "devices" if self.devices is not None else "type"
        what = f"a {self.segment} volume"
        if stripes < least:
            found = f"; {below.description}" if blamed == "type" else ""
            yield Problem(blamed, f"{what} needs at least {least} stripes, on {self.images(least)} devices{found}")
        elif used > below.count:
            blamed = "devices" if self.devices is not None else "stripes"
            yield Problem(blamed, f"{used} devices are too many: {below.description}")
        elif below.named and (used != below.count or self.order):
            all_below = f"all devices of `on:`, in their order ({below.own.description})"
            yield Problem("order" if self.order else blamed, f"with a part as its cache, it uses {all_below}")
        elif used - fast < needed:
            extra = f" and {fast} for the cache" if fast else ""
            yield Problem(blamed, f"{what} needs {needed} devices{extra} for this; it has {used}")
        elif (used - fast) % needed:
            blamed = "mirrors" if self.segment in COPIED and self.mirrors else blamed
            slow = used - fast
            yield Problem(blamed, f"{slow} devices cannot be used evenly by {what} that takes {needed} at a time")
        elif needed > most:
            yield Problem(blamed, f"{what} has at most {most} images, not {needed}")

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
            unit = format_size(least)
            yield Problem("chunk", f"chunks of a {self.segment} volume are a multiple of {unit}, up to 1GiB")
        if self.volumes > 1 and self.segment == "cache":
            yield Problem("volumes", "a cache serves one volume; for several, use `groups`")

    def _room_problems(self, below: Below) -> Iterator[Problem]:
        extent, devices = self.extent_size, self._devices(below)
        room = self.room(below)
        if room <= 0 and self.volumes > 1 and self.model_copy(update={"volumes": 1}).room(below) > 0:
            left = f"less than one extent ({format_size(extent)}) a stripe"
            yield Problem("volumes", f"{left} would be left for each of {self.volumes}")
        elif room <= 0:
            what = f"devices of {format_size(min(device.size for device in devices))}"
            yield Problem(
                "extent_size", f"{format_size(extent)} is too large for {what}: no extent would be left to use"
            )
        elif isinstance(self.size, int) and not 0 < self.size <= room:
            room_text = f"there is room for {format_size(room)}" + (" each" if self.volumes > 1 else "")
            yield Problem("size", room_text if self.size else "too little space for one extent")
        elif self.group_shape(below).size <= 0:
            yield Problem("size", f"less than one extent ({format_size(extent)}) for each stripe")
        elif fast := self.cache_devices(below):
            cache = sum(map(self._usable, devices[-fast:]))
            if cache < 2 * extent or cache < 8 * MIB:
                yield Problem("fast", "too small to hold a cache")
            elif cache // self.chunk_size > MOST_CACHE_CHUNKS:
                what = f"a cache of {format_size(cache)}"
                yield Problem("chunk", f"too small for {what}: LVM takes a million chunks at most")

    def _devices(self, below: Below) -> tuple[Shape, ...]:
        used = below.devices[: self.used_devices(below)]
        return tuple(used[int(number) - 1] for number in self.order.split()) if self.order else used

    def data_start(self, full_stripe: int | None) -> int:
        """Return the start of data on a physical volume: exact with `alignment`, else an upper bound."""
        align = self.alignment or full_stripe or MIB
        start = -(-MIB // align) * align
        return start if self.alignment else start + MIB

    def _usable(self, device: Shape) -> int:
        return max(0, device.size - self.data_start(device.full_stripe)) // self.extent_size * self.extent_size

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        # The first volume of each group, then the second of each.
        return super().devices_above(below) * self.volumes

    def room(self, below: Below) -> int:
        """Return a lower bound of the size of each volume if the volumes take all space."""
        together, row = self._total_room(below), self._size_step(below)
        return together if self.volumes == 1 else together // self.volumes // row * row

    def _size_step(self, below: Below) -> int:
        """Return the step of volume sizes. Several volumes in a pool end with whole chunks."""
        row = self.extent_size * self.stripe_count(below)
        several = self.segment == "thin" and self.volumes > 1
        return math.lcm(row, self.chunk_size) if several else row

    def _total_room(self, below: Below) -> int:
        devices = self._devices(below)
        slow = devices[: len(devices) - self.cache_devices(below)]
        stripes = self.stripe_count(below)
        if self.segment in {"linear", "thin", "cache"} and stripes == 1:
            room = sum(map(self._usable, slow))
        else:
            image = min(map(self._usable, slow)) * (len(slow) // self.images(stripes))
            metadata = self.volumes * self.extent_size if self.segment in WITH_METADATA else 0
            room = stripes * (image - metadata)
        return room - stripes * self.pool_metadata(room) if self.segment == "thin" else room

    def pool_metadata(self, data: int) -> int:
        wanted = min(max(4 * MIB, data // self.chunk_size * 64 + MIB), 15 * GIB)
        return -(-wanted // self.extent_size) * self.extent_size

    def requested_size(self, below: Below) -> int | None:
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
        return 0 if self.segment == "cache" else self.copies - 1 + self.parity

    def group_shape(self, below: Below) -> Shape:
        devices, stripes, size = self._devices(below), self.stripe_count(below), self.requested_size(below)
        if stripes > 1:
            chunk: int | None = self.stripe_size or DEFAULT_STRIPE
        else:
            chunk, stripes = common(devices[: len(devices) - self.cache_devices(below)])
        if self.segment == "thin" and chunk and self.chunk_size % (chunk * stripes):
            chunk, stripes = None, 1  # chunks have any position, and do not begin at full stripes
        return Shape(
            self.room(below) if size is None else size,
            chunk,
            stripes,
            sector=max(device.sector for device in devices),
            # Several volumes of one group fail together, so the next layer cannot count them.
            losses=losses_of(self._needed(devices, below), self.tolerated_losses) if self.volumes == 1 else None,
        )

    def _needed(self, devices: tuple[Shape, ...], below: Below) -> tuple[Shape, ...]:
        """Return the devices that have the only copy of some data. A cache without delayed writes has none."""
        is_copy = self.segment == "cache" and self.cache_mode != "writeback"
        return devices[: len(devices) - self.cache_devices(below)] if is_copy else devices

    def group_view(self, context: BuildContext, name: str) -> View:
        group = _Group(self, context, name)
        tag, prefix = f"matrix-{mark(self, group.members)}", f"{name.replace('-', '--')}-"
        volumes = tuple(Volume(prefix + volume, group.readings(at)) for at, volume in enumerate(group.names))
        return LvmView(
            members=context.devices[: self.devices],
            tops=tuple(f"/dev/mapper/{volume.mapped}" for volume in volumes),
            name=name,
            tag=tag,
            volumes=volumes,
            config=config(group.members, context.lvm_types),
            sees_all=config_seeing('"a|.*|"', context.lvm_types),
            commands=(group.create_group(tag), *group.create_volumes()),
            cache=f"{prefix}fast_cvol" if self.type == "cache" else "",
            redundant=self.redundant,
            resync=group.resync,
            under_way="resync" if group.resync == "background" else "",
            stands_on_layers=context.depth > 0,
        )


#: Do not wait for udev, leave no work to daemons, do not write below /etc/lvm, and skip the checks of metadata without
#: value. Other settings of the system's lvm.conf stay in force.
_CONFIG = (
    "devices{{use_devicesfile=0 scan_lvs=1 obtain_device_list_from_udev=0 external_device_info_source=none "
    "{types}global_filter=[{filter}] filter=[{filter}]}} "
    "activation{{udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0}} backup{{backup=0 archive=0}} "
    'global{{use_lvmpolld=0 thin_check_executable="" cache_check_executable=""}}'
)


def config(devices: tuple[str, ...], types: tuple[str, ...] = ()) -> str:
    """Return an LVM configuration that shows these devices only, on any host."""
    # Special characters of a regular expression become `.`.
    patterns = (re.sub(r"[^A-Za-z0-9/_:-]", ".", device) for device in devices)
    seen = ", ".join(f'"a|^{pattern}$|"' for pattern in patterns)
    return config_seeing(f'{seen}, "r|.*|"', types)


def config_seeing(seen: str, types: tuple[str, ...] = ()) -> str:
    known = ",".join(f'"{name}",16' for name in types)  # each has up to 16 partitions
    return _CONFIG.format(filter=seen, types=f"types=[{known}] " if types else "")


@dataclass(frozen=True, slots=True)
class Volume:
    mapped: str
    readings: dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LvmView(View):
    kind: str = "lvm"
    name: str
    tag: str
    volumes: tuple[Volume, ...]
    config: str  # a configuration that shows LVM these devices only
    sees_all: str  # a configuration that shows LVM all devices
    commands: tuple[tuple[str, ...], ...]  # arguments of `lvm`, in order; the first word is the command
    cache: str  # the device mapper name of the cache volume; empty without one
    redundant: bool
    #: It is built on other layers, not on disks, so signatures on these devices are leftovers of earlier stacks.
    stands_on_layers: bool


class _Group:
    """One volume group on given devices: the commands that make it, and the values that the kernel must show."""

    def __init__(self, layer: Lvm, context: BuildContext, name: str) -> None:
        self.layer, self.below, self.name = layer, context.below, name
        self.order = (layer.order or "").split()
        self.members = tuple(context.devices[int(number) - 1] for number in self.order)
        self.slow = len(self.members) - layer.cache_devices(context.below)  # members without the cache
        self.names = [f"volume{number + 1}" for number in range(layer.volumes)] if layer.volumes > 1 else ["volume"]
        self.resync = layer.first_resync(zeroed=context.zeroed and layer.type != "raid6")
        self.size = layer.requested_size(context.below)
        #: A linear volume that takes all of each device in turn.
        self.is_whole = layer.type == "linear" and layer.size == "100%" and layer.volumes == 1

    def create_group(self, tag: str) -> tuple[str, ...]:
        layer = self.layer
        align = ("--dataalignment", f"{layer.alignment}b") if layer.alignment is not None else ()
        options = ("--setautoactivation", "n", "--physicalextentsize", f"{layer.extent_size}b", *align)
        return ("vgcreate", "--addtag", tag, *options, self.name, *self.members)

    def create_volumes(self) -> list[tuple[str, ...]]:
        layer, target = self.layer, (self.name, *self.members[: self.slow])
        heads = [("lvcreate", "--name", volume) for volume in self.names]
        if layer.type == "thin":
            thin = ("--type", "thin", "--thinpool", "pool")
            virtual = ("--virtualsize", f"{layer.group_shape(self.below).size}b")
            first = (*heads[0], *thin, *self._pool_options(), *virtual, *target)
            return [first, *((*head, *thin, *virtual, self.name) for head in heads[1:])]
        if layer.type == "cache":
            return [(*heads[0], *self._type_options(), *self._size_options("PVS"), *target), *self._add_cache()]
        mirrors = () if layer.mirrors is None else ("--mirrors", str(layer.mirrors))
        log = ("--mirrorlog", "core") if layer.type == "mirror" else ()
        options = (*self._type_options(), *mirrors, *log, *(("--nosync",) if self.resync == "assume-clean" else ()))
        if self.is_whole and len({shape.size for shape in self.below.devices}) > 1:
            # LVM would begin with the largest device.
            extend = ("lvextend", "--extents", "+100%PVS", f"{self.name}/{self.names[0]}")
            first = (*heads[0], *options, "--extents", "100%PVS", *target[:2])
            return [first, *((*extend, device) for device in target[2:])]
        if layer.type == "linear" and not self.is_whole:
            return [command for number in range(layer.volumes) for command in self._create_linear(number)]
        return [(*head, *options, *self._size_options("FREE"), *target) for head in heads]

    def _create_linear(self, number: int) -> Iterator[tuple[str, ...]]:
        """Name the extents, so that LVM keeps the order of the devices."""
        volume = self.names[number]
        head: tuple[str, ...] = ("lvcreate", "--name", volume, "--type", "linear")
        sign, target = "", self.name
        for place, first, last in self.layer.pieces(self.below, number):
            # A colon or at sign in the path needs an escape, because extents follow a colon.
            path = self.members[place].replace(":", "\\:").replace("@", "\\@")
            yield (*head, "--extents", f"{sign}{last - first + 1}", target, f"{path}:{first}-{last}")
            head, sign, target = ("lvextend",), "+", f"{self.name}/{volume}"

    def _type_options(self) -> tuple[str, ...]:
        layer = self.layer
        plain = "linear" if layer.type in CHUNKS else str(layer.type)
        if layer.stripe_size is None:
            return ("--type", plain)
        kind = "striped" if plain == "linear" else plain
        return ("--type", kind, "--stripes", str(layer.stripes), "--stripesize", f"{layer.stripe_size}b")

    def _size_options(self, space: str) -> tuple[str, str]:
        return ("--extents", f"100%{space}") if self.size is None else ("--size", f"{self.size}b")

    def _pool_options(self) -> tuple[str, ...]:
        layer = self.layer
        whole = layer.model_copy(update={"size": "100%", "volumes": 1}).group_shape(self.below).size
        metadata = ("--poolmetadatasize", f"{layer.pool_metadata(whole)}b", "--poolmetadataspare", "n")
        return (*self._type_options()[2:], "--chunksize", f"{layer.chunk}b", *metadata, "--size", f"{whole}b")

    def _add_cache(self) -> list[tuple[str, ...]]:
        layer, fast = self.layer, self.members[self.slow :]
        mode = ("--cachemode", str(layer.cache_mode), "--cachepolicy", "smq", "--chunksize", f"{layer.chunk}b")
        return [
            ("lvcreate", "--name", "fast", "--type", "linear", "--extents", "100%PVS", self.name, *fast),
            ("lvconvert", "--type", "cache", "--cachevol", "fast", *mode, f"{self.name}/{self.names[0]}"),
        ]

    def readings(self, number: int) -> dict[str, str | None]:
        """Return the value that the device mapper must show for each setting; None: record only."""
        layer, slow = self.layer, self.order[: self.slow]
        # If an image has several devices, or they differ in size, LVM chooses among them and may not need all.
        if layer.type == "linear" and not self.is_whole:
            slow = [slow[place] for place, _, _ in layer.pieces(self.below, number)]
        even = len({shape.size for shape in self.below.devices[: layer.devices]}) == 1
        fixed = layer.type == "linear" or (even and len(slow) == layer.images(layer.stripes or 1))
        # Only the first volume begins at the start of data.
        at_start = layer.alignment is not None and number == 0 and layer.type in {"linear", "striped"}
        found = {
            "type": layer.type,
            "stripes": layer.stripes,
            "stripe_size": layer.stripe_size,
            "order": " ".join(slow) if fixed else None,
            "mirrors": layer.mirrors,
            "extent_size": layer.extent_size,
            "data_start": layer.data_start(None) if at_start else None,
            "bytes": self.size,
        }
        if layer.type in CHUNKS:
            found["chunk"] = layer.chunk
        if layer.type == "cache":
            found |= {"cache_mode": layer.cache_mode, "fast": " ".join(self.order[self.slow :])}
        if layer.redundant:
            found |= {"degraded": 0, "sync_action": "resync" if self.resync == "background" else "idle"}
        return {setting: None if value is None else str(value) for setting, value in found.items()}
