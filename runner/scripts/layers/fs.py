"""File systems as mkfs is told to make them, and as the kernel must show them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.language.layers.fs import EXT, PAGE
from runner.scripts.layers.base import Ground, View, as_uuid, mark

if TYPE_CHECKING:
    from runner.language.layers import Fs

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


def fs(layer: Fs, ground: Ground) -> tuple[View, ...]:
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
