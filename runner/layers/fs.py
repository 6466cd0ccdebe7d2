"""File systems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.base.quantities import format_size, parse_size
from runner.base.units import Size
from runner.layers.base import Ground, Layer, Problem, View, as_uuid, mark, power_of_two
from runner.layers.geometry import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.layers.geometry import Below


MIB = 2**20
#: The largest block that every kernel takes: a page of memory.
PAGE = 4096
EXT = frozenset({"ext2", "ext3", "ext4"})
#: They never write where something stands already, so work changes how a file lies on the disk.
COPY_ON_WRITE = frozenset({"btrfs", "f2fs"})
#: Smaller than that its mkfs refuses, or leaves no room worth measuring.
LEAST = {"ext2": 32 * MIB, "ext3": 32 * MIB, "ext4": 32 * MIB, "xfs": 300 * MIB, "btrfs": 128 * MIB, "f2fs": 64 * MIB}
#: There mkfs makes eight groups, of which one must hold the log.
XFS_ON_STRIPES = 600 * MIB
#: Devices that each profile of btrfs needs at least.
LEAST_DEVICES = {"single": 1, "dup": 1, "raid0": 1, "raid1": 2, "raid10": 2, "raid5": 2, "raid6": 3}

#: Mount options that are not for a layout, and why.
NOT_OPTIONS = {
    "ro": "a workload must be able to lay its files out",
    "remount": "it is mounted once",
    "bind": "it is mounted once",
    "loop": "devices come from the layers below",
    "offset": "devices come from the layers below",
    "device": "devices come from the layers below",
    "noauto": "/etc/fstab has no part in this",
    "nofail": "/etc/fstab has no part in this",
}
_OPTIONS = r"^[A-Za-z0-9_.:/+=-]+(,[A-Za-z0-9_.:/+=-]+)*$"
_ALIGN = re.compile(r"\s*(\S+)\s+x\s+([1-9][0-9]*)\s*")


def _options(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("mount options are one text, as mount -o takes them: noatime,data=writeback")  # noqa: TRY004
    options = [option for option in value.replace(" ", "").split(",") if option and option != "defaults"]
    for option in options:
        key = option.partition("=")[0]
        if key in NOT_OPTIONS or key.startswith("x-"):
            raise ValueError(
                f"'{option}' is no option for a layout: {NOT_OPTIONS.get(key, 'the kernel never sees it')}"
            )
    if options and not re.fullmatch(_OPTIONS, ",".join(options)):
        raise ValueError("mount options are words with commas between them: noatime,data=writeback")
    return ",".join(options)


def _align(value: object) -> object:
    if value is False or value in {"off", "auto"}:
        return value or "off"
    match = _ALIGN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write auto, off, or a unit and a count: 64KiB x 3")
    return f"{format_size(parse_size(match[1]))} x {match[2]}"


Profile = Literal["single", "dup", "raid0", "raid1", "raid10", "raid5", "raid6"]


#: What tells how a file system was made.
READ_BACK = {**dict.fromkeys(EXT, ("dumpe2fs",)), "xfs": ("xfs_spaceman",), "btrfs": ("btrfs",)}


class Fs(Layer):
    """A file system, mounted; workloads on it work on files."""

    kind: ClassVar[str] = "fs"
    noun: ClassVar[str] = "file systems"
    type: Literal["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"]
    block_size: Annotated[Size | None, Field(description="4KiB if not given")] = None
    options: Annotated[
        str,
        BeforeValidator(_options),
        WithJsonSchema({"type": "string"}),
        Field(description="mount options: noatime,data=writeback"),
    ] = ""
    align: Annotated[
        str,
        BeforeValidator(_align),
        WithJsonSchema(
            {"anyOf": [{"enum": ["auto", "off", False]}, {"type": "string", "pattern": r"^\s*\S+\s+x\s+\d+"}]}
        ),
        Field(description="to the stripes below (auto), to none (off), or to so many units in a stripe: 64KiB x 3"),
    ] = "auto"
    journal: Annotated[
        Literal["internal", "none"],
        BeforeValidator(lambda value: "none" if value is False else value),
        WithJsonSchema({"enum": ["internal", "none", False]}),
    ] = "internal"
    data: Annotated[Profile | None, Field(description="btrfs: how data lie on the devices; single if not given")] = None
    metadata: Annotated[
        Profile | None, Field(description="btrfs: the same for metadata; dup on one device, else raid1")
    ] = None

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing for these values, and why."""
        kind = values["type"]
        idle: dict[str, str] = {}
        if kind in COPY_ON_WRITE:
            idle["block_size"] = f"{kind} has blocks of 4KiB and no others"
            idle["align"] = f"{kind} knows of no stripes"
        if kind != "ext4":
            idle["journal"] = f"only of ext4 the journal can be left away, not of {kind}"
        if kind != "btrfs":
            idle |= dict.fromkeys(("data", "metadata"), f"{kind} has no profiles; btrfs has")
        return idle

    @property
    def programs(self) -> tuple[str, ...]:
        """What makes it, and tells of it."""
        return (f"mkfs.{self.type}", *READ_BACK.get(self.type, ()))

    @property
    def modules(self) -> tuple[str, ...]:
        """The driver; that of ext4 takes ext2 and ext3 as well."""
        return ("ext4",) if self.type in EXT else (self.type,)

    @property
    def in_place(self) -> bool:
        """Whether overwriting a file leaves it where it was on the disk."""
        return self.type not in COPY_ON_WRITE

    @property
    def bypasses_memory(self) -> bool:
        """Whether direct I/O is direct: some take it, and go through the page cache all the same."""
        return self.type not in COPY_ON_WRITE and "data=journal" not in self.options.split(",")

    def alignment(self, below: Below) -> tuple[int, int] | None:
        """Bytes in a row on one disk, and how many such make a stripe; None if there is nothing to align to."""
        if self.type in COPY_ON_WRITE or self.align == "off":
            return None
        if self.align == "auto":
            device = below.devices[0]
            return None if device.chunk is None else (device.chunk, device.stripes)
        unit, _, count = self.align.partition(" x ")
        return parse_size(unit), int(count)

    def settled(self, below: Below) -> Self:
        """With what mkfs would choose filled in, and alignment as the figures it comes to."""
        if self.type == "btrfs":
            mirrored: Profile = "raid1" if below.count > 1 else "dup"
            return self.model_copy(update={"data": self.data or "single", "metadata": self.metadata or mirrored})
        if self.type in COPY_ON_WRITE:
            return self
        found = self.alignment(below)
        align = "off" if found is None else f"{format_size(found[0])} x {found[1]}"
        return self.model_copy(update={"align": align, "block_size": self.block_size or PAGE})

    def problems(self, below: Below) -> Iterator[Problem]:
        """What mkfs or the kernel would refuse."""
        if below.count > 1 and self.type != "btrfs":
            yield Problem(
                "type",
                f"{self.type} stands on one device, and {below.told}: put md or lvm between them, or `pick` one; "
                "only btrfs takes several",
            )
        least = LEAST[self.type]
        if self.type == "xfs" and below.devices[0].chunk is not None:
            least = XFS_ON_STRIPES
        if below.smallest < least:
            what = f"{self.type} needs devices of at least {format_size(least)}"
            yield Problem("type", f"{what}; there may be no more than {format_size(below.smallest)}")
        yield from self._block_problems(below)
        yield from self._profile_problems(below)

    def _block_problems(self, below: Below) -> Iterator[Problem]:
        size = self.block_size or PAGE
        yield from power_of_two("block_size", size, 1024, "a block")
        if size > PAGE:
            yield Problem("block_size", "the kernel takes no blocks larger than a page of memory, which is 4KiB")
        sector = max(device.sector for device in below.devices)
        if size < sector:
            yield Problem("block_size", f"blocks are no smaller than sectors, which are {format_size(sector)} here")
        found = self.alignment(below)
        if found and (found[0] % size or not found[0]):
            yield Problem("align", f"{format_size(found[0])} is not a whole number of blocks of {format_size(size)}")

    def _profile_problems(self, below: Below) -> Iterator[Problem]:
        for field, profile in (("data", self.data), ("metadata", self.metadata)):
            if profile is not None and LEAST_DEVICES[profile] > below.count:
                least = LEAST_DEVICES[profile]
                yield Problem(field, f"{profile} needs at least {least} devices; {below.told}")

    def above(self, below: Below) -> tuple[Shape, ...]:
        """Files."""
        room = {"xfs": _xfs_room, "btrfs": self._btrfs_room, "f2fs": _f2fs_room}.get(self.type, _ext_room)
        # Where direct work may go through memory, it may be of any size.
        sector = max(device.sector for device in below.devices) if self.bypasses_memory else 512
        return (Shape(max(0, room(below)), files=True, sector=sector),)

    def _btrfs_room(self, below: Below) -> int:
        """Space is given out in chunks, of which some are metadata's: what is left is never known to the byte."""
        devices, profile = below.count, self.data or "single"
        lost = {"raid5": 1, "raid6": 2}.get(profile, 0)
        copies = 2 if profile in {"dup", "raid1", "raid10"} else 1
        size = below.smallest
        each = size - size // 100 - min(640 * MIB, max(96 * MIB, size // 6))
        return each * (devices - lost) // copies

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        return _views(self, ground)


def _ext_room(below: Below) -> int:
    """Inodes take a sixteenth of one below 512MiB, a sixty-fourth of others; the journal a part up to 1GiB."""
    size = below.smallest
    return size - size // (14 if size < 600 * MIB else 48) - min(2**30, max(17 * MIB, size // 24))


def _xfs_room(below: Below) -> int:
    """Its log takes 64MiB and more, its indices of free space some percent."""
    return below.smallest - below.smallest // 16 - 96 * MIB


def _f2fs_room(below: Below) -> int:
    """A part is kept free to be moved into."""
    return below.smallest - below.smallest // 24 - 48 * MIB


#: Where the kernel writes an option in another way than it is given: each word that means the same.
SAME = {
    "barrier=0": ("nobarrier",),
    "barrier=1": ("barrier",),
    "journal_async_commit": ("journal_async_commit", "journal_checksum,journal_async_commit"),
    "compress": ("compress=zlib:3",),
    "autodefrag": ("autodefrag",),
    "discard=sync": ("discard",),
}
#: Options of which the kernel shows that they are set by not showing their opposite.
UNSHOWN = {
    "strictatime": ("relatime", "noatime"),
    "atime": ("noatime",),
    "async": ("sync",),
    "suid": ("nosuid",),
    "nodiscard": ("discard", "discard=sync", "discard=async"),
}
#: They discard what is deleted, whether they were told to or not, on every device that can (btrfs since Linux 6.2).
DISCARDING = frozenset({"btrfs", "f2fs"})
_SIZED = re.compile(r"(\d+)([kKmMgG]?)")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True, slots=True)
class Option:
    """A mount option, the ways in which the kernel may write it, and what must not be there if it writes nothing."""

    text: str
    key: str
    shown: tuple[str, ...]
    opposites: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FsView(View):
    """One file system."""

    type: str
    #: Where it is mounted.
    directory: str
    #: What stands on the devices to know it by: its UUID, or its label where mkfs takes no UUID.
    mark: str
    mkfs: tuple[str, ...]
    mount: tuple[str, ...]
    options: tuple[Option, ...]
    #: What its tools or sysfs must say: setting and value, in the tool's own units (blocks).
    facts: dict[str, str]
    #: Nothing was said of discards, so there must be none.
    keeps_deleted: bool
    #: Whether overwriting a file leaves it where it was.
    in_place: bool
    #: Whether direct I/O is direct.
    bypasses_memory: bool

    @property
    def marks(self) -> tuple[str, ...]:
        """Of its superblocks."""
        return (self.mark,)


def _views(layer: Fs, ground: Ground) -> tuple[View, ...]:
    """A file system on the device, or for btrfs on the devices."""
    digits = mark(layer, ground.devices)
    made = _Made(layer, ground, as_uuid(digits), f"matrix-{digits}")
    directory = f"/run/matrix/mnt-{ground.bay}-{ground.depth}"
    return (
        FsView(
            kind="fs",
            members=ground.devices,
            tops=(),
            type=layer.type,
            directory=directory,
            mark=made.label if layer.type == "f2fs" else made.uuid,
            mkfs=(f"mkfs.{layer.type}", *made.arguments(), *ground.devices),
            mount=(*_mount_options(layer, ground.devices), ground.devices[0], directory),
            options=tuple(_option(text) for text in layer.options.split(",") if text),
            facts=made.facts(),
            keeps_deleted=not _says_of_discards(layer),
            in_place=layer.in_place,
            bypasses_memory=layer.bypasses_memory,
        ),
    )


def _mount_options(layer: Fs, devices: tuple[str, ...]) -> tuple[str, ...]:
    """The kernel is told of further devices here: udev, which would, may not be there."""
    still = ["nodiscard"] if layer.type in DISCARDING and not _says_of_discards(layer) else []
    options = [*(f"device={device}" for device in devices[1:]), *still, *filter(None, [layer.options])]
    return ("-t", layer.type, *(("-o", ",".join(options)) if options else ()))


def _says_of_discards(layer: Fs) -> bool:
    return any(option.partition("=")[0] in {"discard", "nodiscard"} for option in layer.options.split(","))


@dataclass(frozen=True, slots=True)
class _Made:
    """What mkfs is told, and what must come of it."""

    layer: Fs
    ground: Ground
    uuid: str
    label: str

    @property
    def block(self) -> int:
        return self.layer.block_size or PAGE

    @property
    def stripe(self) -> tuple[int, int]:
        """Stride (unit) and width of a stripe in blocks; nothing where it is not aligned."""
        found = self.layer.alignment(self.ground.below)
        return (0, 0) if found is None else (found[0] // self.block, found[0] * found[1] // self.block)

    def arguments(self) -> tuple[str, ...]:
        """Without questions, and without discarding: what the disks hold is not for mkfs to decide."""
        kind = self.layer.type
        if kind == "xfs":
            return self._xfs()
        if kind == "btrfs":
            profiles = ("-d", str(self.layer.data), "-m", str(self.layer.metadata))
            return ("-q", "-f", "-K", "-U", self.uuid, "-L", self.label, *profiles)
        return ("-q", "-f", "-t", "0", "-l", self.label) if kind == "f2fs" else self._ext()

    def _ext(self) -> tuple[str, ...]:
        """Nothing lazy: tables that are written in the background would be written beside the measurement."""
        stride, width = self.stripe
        extended = f"nodiscard,lazy_itable_init=0,lazy_journal_init=0,stride={stride},stripe_width={width}"
        journal = ("-O", "^has_journal") if self.layer.journal == "none" else ()
        return ("-q", "-F", "-U", self.uuid, "-L", self.label[:16], "-b", str(self.block), "-E", extended, *journal)

    def _xfs(self) -> tuple[str, ...]:
        found = self.layer.alignment(self.ground.below)
        align = "noalign" if found is None else f"su={found[0]},sw={found[1]}"
        return (
            *("-q", "-f", "-K", "-m", f"uuid={self.uuid}", "-L", self.label[:12]),
            *("-b", f"size={self.block}", "-d", align),
        )

    def facts(self) -> dict[str, str]:
        """What is read back."""
        stride, width = (str(blocks) for blocks in self.stripe)
        if self.layer.type == "xfs":
            return {"block_size": str(self.block), "sunit": stride, "swidth": width}
        if self.layer.type == "btrfs":
            return {
                "data": str(self.layer.data),
                "metadata": str(self.layer.metadata),
                "devices": str(len(self.ground.devices)),
            }
        if self.layer.type not in EXT:
            return {}
        journal = "none" if self.layer.type == "ext2" else self.layer.journal
        return {
            "uuid": self.uuid,
            "block_size": str(self.block),
            "stride": stride,
            "stripe_width": width,
            "journal": journal,
        }


def _option(text: str) -> Option:
    key, _, value = text.partition("=")
    ways = [text, *SAME.get(text, ()), *(f"{key}={one}" for one in _spellings(value))]
    if key in {"compress", "compress-force"} and ":" not in value:
        ways += [f"{key}={value}:{level}" for level in (3,)]
    return Option(text, key, tuple(dict.fromkeys(ways)), UNSHOWN.get(text, ()))


def _spellings(value: str) -> list[str]:
    """256k is 262144 for one file system and 256k for another."""
    match = _SIZED.fullmatch(value)
    if match is None:
        return []
    size = int(match[1]) * _UNITS[match[2].lower()]
    return [f"{size // unit}{letter}" for letter, unit in _UNITS.items() if size % unit == 0 and size >= unit]
