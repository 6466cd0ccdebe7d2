"""File systems as the top layer: mkfs, mount, and alignment to the stripes below."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema

from matrix_runner.base.model import Name, Size
from matrix_runner.base.quantities import format_size, parse_size
from matrix_runner.layers.base import BuildContext, Layer, NoneIfFalse, Problem, View, as_uuid, mark, power_of_two
from matrix_runner.layers.geometry import Below, Shape, losses_of
from matrix_runner.layers.needs import Need

MIB, GIB = 2**20, 2**30
PAGE = 4096  # the largest block size that every kernel accepts: one page of memory
_XFS_LOG = 64 << 20  # bytes that mkfs writes
_XFS_MOST_LOG = 2038 << 20  # mkfs refuses a longer log, and one of more than 2^20 blocks
EXT = frozenset({"ext2", "ext3", "ext4"})
#: They write to a new place each time, so a workload changes the layout of a file on the disk.
COPY_ON_WRITE = frozenset({"btrfs", "f2fs"})
#: Below this size mkfs refuses, or leaves too little room to measure.
LEAST = {"ext2": 32 * MIB, "ext3": 32 * MIB, "ext4": 32 * MIB, "xfs": 300 * MIB, "btrfs": 128 * MIB, "f2fs": 64 * MIB}
XFS_ON_STRIPES = 600 * MIB  # on stripes, mkfs makes eight groups, and one group must hold the log
#: The fewest devices for each profile of btrfs.
LEAST_DEVICES = {
    **dict.fromkeys(("single", "dup", "raid0"), 1),
    **dict.fromkeys(("raid1", "raid10", "raid5"), 2),
    **dict.fromkeys(("raid1c3", "raid6"), 3),
    "raid1c4": 4,
}
#: Seconds after which a journal is written, without the mount option.
COMMITS = {"ext3": 5, "ext4": 5, "btrfs": 30}
#: How many devices may fail without loss of data; other profiles: 0.
TOLERATED = {"raid1": 1, "raid1c3": 2, "raid1c4": 3, "raid10": 1, "raid5": 1, "raid6": 2}

#: Mount options that a layout may not set, and why.
NOT_OPTIONS = {
    "ro": "a workload must be able to write its files",
    **dict.fromkeys(("remount", "bind"), "it is mounted once"),
    **dict.fromkeys(("loop", "offset", "device"), "devices come from the layers below"),
    **dict.fromkeys(("noauto", "nofail"), "it is an option for /etc/fstab"),
}
_OWN_JOURNAL = frozenset({"internal", "none"})
#: The least size of a journal on a device of its own. Other file systems cannot have it.
LEAST_JOURNAL = {"ext3": 8 * MIB, "ext4": 8 * MIB, "xfs": 64 * MIB}
#: Words of mkfs, without a slash: a layout names no files, and its devices are those of the layers below.
_WORDS = r"^(-?[A-Za-z0-9_^][A-Za-z0-9_.,:=+^-]*( -?[A-Za-z0-9_^][A-Za-z0-9_.,:=+^-]*)*)?$"
_OPTIONS = r"^[A-Za-z0-9_.:/+=-]+(,[A-Za-z0-9_.:/+=-]+)*$"
_ALIGN = re.compile(r"\s*(\S+)\s+x\s+([1-9][0-9]{0,3})\s*")


def _options(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("mount options must be one text, as for mount -o: noatime,data=writeback")  # noqa: TRY004
    options = [option for option in value.replace(" ", "").split(",") if option and option != "defaults"]
    for option in options:
        key = option.partition("=")[0]
        if key in NOT_OPTIONS or key.startswith("x-"):
            why = NOT_OPTIONS.get(key, "the kernel never sees it")
            raise ValueError(f"'{option}' is no option for a layout: {why}")
    if options and not re.fullmatch(_OPTIONS, ",".join(options)):
        raise ValueError("mount options are words separated by commas: noatime,data=writeback")
    return ",".join(options)


def _align(value: object) -> object:
    if value is False or (isinstance(value, str) and value in {"off", "auto"}):
        return value or "off"
    match = _ALIGN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write auto, off, or a unit and a count: 64KiB x 3")
    return f"{format_size(parse_size(match[1]))} x {match[2]}"


Profile = Literal["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid10", "raid5", "raid6"]


class Fs(Layer):
    """A mounted file system. Workloads on it use files."""

    kind: ClassVar[str] = "fs"
    noun: ClassVar[str] = "file systems"
    also_called: ClassVar[Mapping[str, str]] = dict.fromkeys(("filesystem", "mkfs", "mount"), "fs: {type: ext4}")
    needs: ClassVar[tuple[Need, ...]] = (
        # The driver of ext4 also mounts ext2 and ext3.
        *(Need("type", (kind,), ("ext4",), (f"mkfs.{kind}", "dumpe2fs")) for kind in ("ext2", "ext3", "ext4")),
        Need("type", ("xfs",), ("xfs",), ("mkfs.xfs", "xfs_spaceman")),
        Need("type", ("btrfs",), ("btrfs",), ("mkfs.btrfs", "btrfs")),
        Need("type", ("f2fs",), ("f2fs",), ("mkfs.f2fs",)),
    )
    type: Literal["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"]
    block_size: Size | None = Field(None, description="size of a block; 4KiB if not given")
    options: Annotated[str, BeforeValidator(_options), WithJsonSchema({"type": "string"})] = Field(
        "", description="mount options, like noatime,data=writeback"
    )
    align: Annotated[
        str,
        BeforeValidator(_align),
        WithJsonSchema(
            {"anyOf": [{"enum": ["auto", "off", False]}, {"type": "string", "pattern": r"^\s*\S+\s+x\s+\d+"}]}
        ),
    ] = Field(
        "auto",
        description="alignment: to the stripes below (auto), off, or to a unit and its count, like 64KiB x 3",
    )
    journal: Annotated[
        Literal["internal", "none"] | Name,
        NoneIfFalse,
        WithJsonSchema({"anyOf": [{"enum": ["internal", "none", False]}, {"type": "string"}]}),
    ] = Field("internal", description="where the journal is; the name of a part: on its device (ext3, ext4, xfs)")
    inode_size: Size | None = Field(
        None, description="ext2, ext3, ext4, xfs: size of an inode; that of mkfs if not given"
    )
    allocation_groups: int | None = Field(
        None, ge=1, le=1_000_000, description="xfs: number of allocation groups; that of mkfs if not given"
    )
    checksums: bool | None = Field(
        None, description="ext4, xfs: whether metadata has checksums; as mkfs does it if not given"
    )
    mkfs: str = Field(
        "",
        pattern=_WORDS,
        max_length=200,
        description="other options of mkfs, like `-E packed_meta_blocks=1`; set, not read back",
    )
    data: Profile | None = Field(
        None, description="btrfs: profile of the data, that is, copies and devices; single if not given"
    )
    metadata: Profile | None = Field(
        None, description="btrfs: profile of the metadata; if not given: dup on one device, else raid1"
    )

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        kind = values["type"]
        idle: dict[str, str] = {}
        if kind in COPY_ON_WRITE:
            idle["block_size"] = f"{kind} has blocks of 4KiB and no others"
            idle["align"] = f"{kind} has no stripe options"
        if values["journal"] not in _OWN_JOURNAL and kind not in LEAST_JOURNAL:
            idle["journal"] = f"{kind} has no journal on another device; ext3, ext4 and xfs can have it"
        elif kind not in LEAST_JOURNAL or (values["journal"] == "none" and kind != "ext4"):
            idle["journal"] = f"only ext4 can omit the journal, not {kind}"
        if kind not in EXT | {"xfs"}:
            idle["inode_size"] = f"{kind} has no inodes of a fixed size"
        if kind != "xfs":
            idle["allocation_groups"] = f"{kind} has no allocation groups; xfs has"
        if kind not in {"ext4", "xfs"}:
            idle["checksums"] = f"those of {kind} cannot be chosen here; ext4 and xfs can have them or not"
        if kind != "btrfs":
            idle |= dict.fromkeys(("data", "metadata"), f"{kind} has no profiles; btrfs has")
        return idle

    @property
    def title(self) -> str:
        return self.type

    @property
    def parts(self) -> Mapping[str, str]:
        return {} if self.journal in _OWN_JOURNAL else {self.journal: "journal"}

    def bytes_written(self, below: Below) -> int:
        journal = sum(device.size for device in below.devices[below.own.count :])  # mkfs fills it with zeros
        return min(journal, self._most_log) if self.type == "xfs" else journal

    def metadata_bytes(self, below: Below) -> int:
        if self.type in EXT:
            return below.own.smallest - self.devices_above(below)[0].size
        return _XFS_LOG if self.type == "xfs" and not self.parts else 0

    @property
    def _most_log(self) -> int:
        return min(_XFS_MOST_LOG, (self.block_size or PAGE) << 20)

    @property
    def in_place(self) -> bool:
        return self.type not in COPY_ON_WRITE

    @property
    def bypasses_memory(self) -> bool:
        """Return whether direct I/O skips the page cache. Some file systems accept O_DIRECT and use the cache."""
        return self.type not in COPY_ON_WRITE and "data=journal" not in self.options.split(",")

    def alignment(self, below: Below) -> tuple[int, int] | None:
        if self.type in COPY_ON_WRITE or self.align == "off":
            return None
        if self.align == "auto":
            device = below.devices[0]
            return None if device.chunk is None else (device.chunk, device.stripes)
        unit, _, count = self.align.partition(" x ")
        return parse_size(unit), int(count)

    def resolve(self, below: Below) -> Self:
        if self.type == "btrfs":
            mirrored: Profile = "raid1" if below.count > 1 else "dup"
            return self.model_copy(update={"data": self.data or "single", "metadata": self.metadata or mirrored})
        if self.type in COPY_ON_WRITE:
            return self
        found = self.alignment(below)
        align = "off" if found is None else f"{format_size(found[0])} x {found[1]}"
        return self.model_copy(update={"align": align, "block_size": self.block_size or PAGE})

    def problems(self, below: Below) -> Iterator[Problem]:
        yield from self._journal_problems(below)
        below = below.own
        if below.count > 1 and self.type != "btrfs":
            several = "put md or lvm between them, or `pick` one; only btrfs takes several"
            yield Problem("type", f"{self.type} uses one device, but {below.description}: {several}")
        least = LEAST[self.type]
        if self.type == "xfs" and below.devices[0].chunk is not None:
            least = XFS_ON_STRIPES
        if below.smallest < least:
            what = f"{self.type} needs devices of at least {format_size(least)}"
            yield Problem("type", f"{what}; the smallest has {format_size(below.smallest)}")
        yield from self._block_problems(below)
        yield from self._profile_problems(below)
        yield from self._inode_problems()

    def _journal_problems(self, below: Below) -> Iterator[Problem]:
        if not self.parts:
            return
        journal, least = below.devices[below.count - below.named :], LEAST_JOURNAL[self.type]
        if below.named != 1:
            yield Problem("journal", f"a journal is on one device, and {self.journal} has {below.named}; `pick` one")
        elif journal[0].size < least:
            room = format_size(journal[0].size)
            yield Problem("journal", f"a journal of {self.type} needs {format_size(least)}; {self.journal} has {room}")

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

    def _inode_problems(self) -> Iterator[Problem]:
        if (size := self.inode_size) is None:
            return
        least, most = (256, 2048) if self.type == "xfs" else (128, self.block_size or PAGE)
        yield from power_of_two("inode_size", size, least, "an inode")
        if size > min(most, self.block_size or PAGE):
            yield Problem("inode_size", f"an inode of {self.type} has at most {format_size(most)}, and at most a block")

    def _profile_problems(self, below: Below) -> Iterator[Problem]:
        for field, profile in (("data", self.data), ("metadata", self.metadata)):
            if profile is not None and LEAST_DEVICES[profile] > below.count:
                least = LEAST_DEVICES[profile]
                yield Problem(field, f"{profile} needs at least {least} devices; {below.description}")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        # Buffered work may have any size.
        sector = max(device.sector for device in below.own.devices) if self.bypasses_memory else 512
        tolerated = min(TOLERATED.get(profile or "", 0) for profile in (self.data, self.metadata))
        losses = losses_of(below.devices, tolerated)
        return (Shape(max(0, self._estimate_room(below.own)), files=True, sector=sector, losses=losses),)

    def _estimate_room(self, below: Below) -> int:
        size = below.smallest
        if self.type == "xfs":  # the log takes at least 64 MiB, and the indices of free space some percent
            return size - size // (16 if size < 64 * GIB else 40) - 96 * MIB
        if self.type == "f2fs":  # a part is reserved for moves
            return size - size // 24 - 48 * MIB
        if self.type == "btrfs":  # it allocates chunks for data and metadata, so the exact size is unknown
            each = size - size // 100 - min(640 * MIB, max(96 * MIB, size // 6))
            parity = {"raid5": 1, "raid6": 2}.get(self.data or "", 0)
            copies = {"dup": 2, "raid1": 2, "raid1c3": 3, "raid1c4": 4, "raid10": 2}.get(self.data or "", 1)
            return each * (below.count - parity) // copies
        # Inodes take 1/16 below 512 MiB, else 1/64; the journal takes up to 1 GiB.
        return size - size // (14 if size < 600 * MIB else 48) - min(GIB, max(17 * MIB, size // 24))

    def views(self, context: BuildContext) -> tuple[View, ...]:
        digits = mark(self, context.devices)
        uuid, label = as_uuid(digits), f"matrix-{digits}"
        directory = f"/run/matrix/mnt-{context.bay}-{context.depth}"
        options = self._slowed([option for option in self.options.split(",") if option], context.slow)
        sets_discard = any(option.partition("=")[0] in {"discard", "nodiscard"} for option in options)
        own = context.devices[: context.below.own.count]
        journal = context.devices[len(own) :]
        # Usually udev finds the further devices, but it may be missing.
        mount = [f"device={device}" for device in own[1:]]
        mount += [f"{'logdev' if self.type == 'xfs' else 'journal_path'}={device}" for device in journal]
        mount += ["nodiscard"] if self.type in DISCARDING and not sets_discard else []
        mount += options
        view = FsView(
            members=context.devices,
            tops=(),
            type=self.type,
            directory=directory,
            mark=label if self.type == "f2fs" else uuid,
            mkfs=(
                f"mkfs.{self.type}",
                *self._mkfs_options(context.below, uuid, label),
                *self.mkfs.split(),
                *self._log(context),
                *own,
            ),
            journal_mkfs=self._journal_mkfs(uuid, journal),
            mount=("-t", self.type, *(("-o", ",".join(mount)) if mount else ()), context.devices[0], directory),
            options=tuple(map(_option, options)),
            facts=self._facts(context.below, uuid),
            keeps_deleted=not sets_discard,
            in_place=self.in_place,
            bypasses_memory=self.bypasses_memory,
        )
        return (view,)

    def _slowed(self, options: list[str], slow: int) -> list[str]:
        """Return the mount options in slow motion: the kernel writes the journal as much less often."""
        usual = None if self.journal == "none" else COMMITS.get(self.type)
        if slow == 1 or usual is None:
            return options
        declared = [option.partition("=")[2] for option in options if option.startswith("commit=")]
        # 0 stands for the default.
        seconds = next((int(value) for value in reversed(declared) if value.isdecimal() and int(value)), usual)
        return [*(one for one in options if not one.startswith("commit=")), f"commit={seconds * slow}"]

    def _mkfs_options(self, below: Below, uuid: str, label: str) -> tuple[str, ...]:
        """Return options that avoid questions and discards. The matrix decides about discards, not mkfs."""
        if self.type == "btrfs":
            return ("-q", "-f", "-K", "-U", uuid, "-L", label, "-d", str(self.data), "-m", str(self.metadata))
        if self.type == "f2fs":
            return ("-q", "-f", "-t", "0", "-l", label)
        if self.type == "xfs":
            found = self.alignment(below)
            align = "noalign" if found is None else f"su={found[0]},sw={found[1]}"
            crc = "" if self.checksums is None else f",crc={int(self.checksums)}"
            groups = f",agcount={self.allocation_groups}" if self.allocation_groups else ""
            inode = ("-i", f"size={self.inode_size}") if self.inode_size else ()
            named = ("-m", f"uuid={uuid}{crc}", "-L", label[:12])
            return ("-q", "-f", "-K", *named, "-b", f"size={self.block_size or PAGE}", "-d", align + groups, *inode)
        stride, width = self._stripe(below)
        # Lazy initialisation would write tables during the measurement.
        extended = f"nodiscard,lazy_itable_init=0,lazy_journal_init=0,stride={stride},stripe_width={width}"
        chosen = ["-O", "^has_journal"] if self.journal == "none" else []
        if self.checksums is not None:
            chosen += ["-O", "metadata_csum" if self.checksums else "^metadata_csum"]
        if self.inode_size:
            chosen += ["-I", str(self.inode_size)]
        named = ("-U", uuid, "-L", label[:16])
        return ("-q", "-F", *named, "-b", str(self.block_size or PAGE), "-E", extended, *chosen)

    def _log(self, context: BuildContext) -> tuple[str, ...]:
        count = context.below.own.count
        found = zip(context.devices[count:], context.below.devices[count:], strict=True)
        if self.type != "xfs":
            return tuple(f"-Jdevice={device}" for device, _ in found)
        most = self._most_log
        return tuple(f"-llogdev={device}" + f",size={most}" * (shape.size > most) for device, shape in found)

    def _journal_mkfs(self, uuid: str, journal: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command that prepares the device of a journal; empty if mkfs does it."""
        if self.type == "xfs" or not journal:
            return ()
        block = str(self.block_size or PAGE)
        return ("mke2fs", "-q", "-F", "-U", uuid, "-b", block, "-O", "journal_dev", "-E", "nodiscard", *journal)

    def _stripe(self, below: Below) -> tuple[int, int]:
        unit, count = self.alignment(below) or (0, 0)
        block = self.block_size or PAGE
        return unit // block, unit * count // block

    def _facts(self, below: Below, uuid: str) -> dict[str, str]:
        stride, width = map(str, self._stripe(below))
        block = str(self.block_size or PAGE)
        given = {
            "inode_size": self.inode_size,
            "allocation_groups": self.allocation_groups,
            "checksums": self.checksums,
        }
        chosen = {name: str(int(value)) for name, value in given.items() if value is not None}
        if self.type == "xfs":
            apart = {"journal": self.journal} if self.parts else {}
            return {"block_size": block, "sunit": stride, "swidth": width, **apart, **chosen}
        if self.type == "btrfs":
            return {"data": str(self.data), "metadata": str(self.metadata), "devices": str(below.count)}
        if self.type not in EXT:
            return {}
        journal = "none" if self.type == "ext2" else self.journal
        return {
            "uuid": uuid,
            "block_size": block,
            "stride": stride,
            "stripe_width": width,
            "journal": journal,
            **chosen,
        }


#: Options that the kernel shows in another spelling, with all spellings of the same meaning.
SAME = {
    "barrier=0": ("nobarrier",),
    "barrier=1": ("barrier",),
    "journal_async_commit": ("journal_async_commit", "journal_checksum,journal_async_commit"),
    "compress": ("compress=zlib:3",),
    "autodefrag": ("autodefrag",),
    "discard=sync": ("discard",),
}
#: Options that the kernel does not show. They are set if it does not show their opposites.
UNSHOWN = {
    "strictatime": ("relatime", "noatime"),
    "atime": ("noatime",),
    "async": ("sync",),
    "suid": ("nosuid",),
    "nodiscard": ("discard", "discard=sync", "discard=async"),
}
#: They discard deleted blocks by default on every device that can (btrfs since Linux 6.2).
DISCARDING = frozenset({"btrfs", "f2fs"})
_SIZED = re.compile(r"([0-9]+)([kKmMgG]?)")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True, slots=True)
class Option:
    """A mount option and its spellings in the kernel. If the kernel shows no spelling, `opposites` must be absent."""

    text: str
    key: str
    shown: tuple[str, ...]
    opposites: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FsView(View):
    kind: str = "fs"
    type: str
    mark: str  # its UUID, or its label if mkfs accepts no UUID
    mkfs: tuple[str, ...]
    journal_mkfs: tuple[str, ...]  # prepares the device of a journal; empty without one
    mount: tuple[str, ...]
    options: tuple[Option, ...]
    #: The expected output of its tools or sysfs: setting and value, in the units of the tool (blocks).
    facts: dict[str, str]
    keeps_deleted: bool  # the user sets no discard option, so the kernel must show no discard
    in_place: bool  # an overwrite keeps the place of a file
    bypasses_memory: bool  # direct I/O skips the page cache

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.mark,)


def _option(text: str) -> Option:
    key, _, value = text.partition("=")
    ways = [text, *SAME.get(text, ())]
    if match := _SIZED.fullmatch(value):
        # File systems show 256k as 262144 or as 256k.
        size = int(match[1]) * _UNITS[match[2].lower()]
        units = [(letter, unit) for letter, unit in _UNITS.items() if size % unit == 0 and size >= unit]
        ways += [f"{key}={size // unit}{letter}" for letter, unit in units]
    if key in {"compress", "compress-force"} and ":" not in value:
        ways.append(f"{key}={value}:3")
    return Option(text, key, tuple(dict.fromkeys(ways)), UNSHOWN.get(text, ()))
