"""Layers of the device mapper on one device: encryption, checksums of each block, and a cache of writes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema

from matrix_runner.base.model import Name, Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import (
    BuildContext,
    DeviceMapping,
    DmView,
    Layer,
    Problem,
    View,
    mappings_of,
    mark,
    power_of_two,
)
from matrix_runner.layers.geometry import Below, Shape, losses_of
from matrix_runner.layers.needs import Need

MIB = 2**20
HEADERS = {"plain": 0, "luks1": 2 * MIB, "luks2": 16 * MIB}  # size of the header at the start of a device, by format
SECTORS = (512, 1024, 2048, 4096)
#: Flags in the names of dm-crypt, in the order of its table.
FLAGS = ("allow_discards", "same_cpu_crypt", "submit_from_crypt_cpus", "no_read_workqueue", "no_write_workqueue")


def _sector(value: int) -> int:
    if value not in SECTORS:
        raise ValueError("write 512B, 1KiB, 2KiB or 4KiB")
    return value


Sector = Annotated[Size, AfterValidator(_sector), WithJsonSchema({"enum": ["512B", "1KiB", "2KiB", "4KiB"]})]


class Crypt(Layer):
    """dm-crypt on every device below, with a fixed test key that is public."""

    kind: ClassVar[str] = "crypt"
    for_each: ClassVar[bool] = True
    noun: ClassVar[str] = "encrypted devices"
    also_called: ClassVar[Mapping[str, str]] = dict.fromkeys(("luks", "dmcrypt", "dm-crypt", "cryptsetup"), "crypt")
    maps: ClassVar[bool] = True
    #: The kernel loads ciphers on demand.
    needs: ClassVar[tuple[Need, ...]] = (Need(modules=("dm_mod", "dm_crypt"), programs=("cryptsetup", "dmsetup")),)
    keeps_zeros: ClassVar[bool] = False  # zeros below read as noise above
    format: Literal["luks2", "luks1", "plain"] = Field(
        "luks2", description="header on the disk: luks2 has one of 16MiB, luks1 of 2MiB; plain has no header"
    )
    cipher: str = Field(
        "aes-xts-plain64",
        pattern=r"^[a-z0-9_]+(,[a-z0-9_]+)?(-[a-z0-9_:]+)+$",
        description="a cipher in the notation of cryptsetup",
    )
    key_size: Literal[128, 192, 256, 384, 512] | None = Field(
        None, description="bits of the key; if not given: 512 for xts, which uses two keys of 256, else 256"
    )
    sector_size: Sector = Field(512, description="unit of encryption; luks1 has only 512B")
    allow_discards: bool = Field(False, description="pass discards on to the devices below")
    same_cpu_crypt: bool = Field(False, description="encrypt on the CPU that sent the request")
    submit_from_crypt_cpus: bool = Field(
        False, description="submit writes directly, without a separate thread that sorts them"
    )
    no_read_workqueue: bool = Field(False, description="decrypt where the request ended")
    no_write_workqueue: bool = Field(False, description="encrypt where the request came from")

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        return {"sector_size": "luks1 has only sectors of 512B"} if values["format"] == "luks1" else {}

    @property
    def why_no_trims(self) -> str:
        return "" if self.allow_discards else "dm-crypt passes no trims on; write `allow_discards: true`"

    def resolve(self, below: Below) -> Self:  # noqa: ARG002
        return self.model_copy(update={"key_size": self.key_size or (512 if self._is_xts else 256)})

    @property
    def _is_xts(self) -> bool:
        return "-xts-" in self.cipher

    def problems(self, below: Below) -> Iterator[Problem]:
        if self._is_xts and self.key_size == 128:
            yield Problem("key_size", "xts halves the key: write 256 or 512")
        if not self._is_xts and self.key_size is not None and self.key_size > 256:
            yield Problem("key_size", "only xts, which halves the key, takes more than 256 bits")
        if self._header_size(below.devices[0]) + MIB > below.smallest:
            header = f"the header of {self.format} takes {format_size(HEADERS[self.format])}"
            yield Problem("format", f"{header}, but the smallest device has {format_size(below.smallest)}")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return tuple(
            replace(
                device,
                size=max(0, device.size - self._header_size(device)) // 4096 * 4096,
                sector=max(device.sector, self.sector_size),
            )
            for device in below.devices
        )

    def _header_size(self, device: Shape) -> int:
        # An upper bound: data begins at a full stripe as the kernel sees it; over nested arrays that is several.
        header = HEADERS[self.format]
        return header + 8 * (device.full_stripe or 0) if header else 0

    def views(self, context: BuildContext) -> tuple[View, ...]:
        mappings = mappings_of(self, context, self.format.upper())
        key_size = self.key_size or 0
        cipher = (f"--cipher={self.cipher}", f"--key-size={key_size}")
        sector = () if self.format == "luks1" else (f"--sector-size={self.sector_size}",)
        flags = {flag: getattr(self, flag) for flag in FLAGS}
        options = ("--allow-discards", *(f"--perf-{flag}" for flag in FLAGS[1:]))
        # 1000 iterations: the default strength would take an emulated processor minutes.
        derivation = (*(("--pbkdf=pbkdf2",) if self.format == "luks2" else ()), "--pbkdf-force-iterations=1000")
        formatting = (f"--type={self.format}", *cipher, *sector, *derivation)
        opening = (
            f"--type={self.format}",
            *((*cipher, *sector) if self.format == "plain" else ()),
            *(option for option, wanted in zip(options, flags.values(), strict=True) if wanted),
        )
        view = DmView(
            kind=self.kind,
            members=context.devices,
            tops=tuple(mapping.path for mapping in mappings),
            mappings=mappings,
            open_options=opening,
            values={
                "key": TEST_KEY[: key_size // 8] if self.format == "plain" else TEST_KEY,
                "format": self.format,
                "format_options": formatting,
                "cipher": self.cipher,
                "key_size": key_size,
                "sector_size": self.sector_size,
                "flags": [(flag, "on" if wanted else "off") for flag, wanted in flags.items()],
            },
            recommended=self._recommended(formatting, opening, [flag for flag, wanted in flags.items() if wanted]),
        )
        return (view,)

    def _recommended(
        self, formatting: tuple[str, ...], opening: tuple[str, ...], flags: list[str]
    ) -> tuple[tuple[str, ...], ...]:
        """Return the options to format and to open it, and in crypttab; these are empty if it cannot express them."""
        formatting = tuple(one for one in formatting if not one.startswith("--pbkdf"))
        asked = ["discard" if flag == "allow_discards" else flag.replace("_", "-") for flag in flags]
        if self.format != "plain":
            return formatting, opening, (",".join(("luks", *asked)),)
        cipher = ("plain", f"cipher={self.cipher}", f"size={self.key_size}", "hash=sha256")
        at_boot = (",".join((*cipher, f"sector-size={self.sector_size}", *asked)),)
        # The default hash differs between versions. Without a header a wrong passphrase is never detected.
        opening = (*opening, "--hash=sha256", "--verify-passphrase")
        return formatting, opening, () if "," in self.cipher else at_boot


#: The test key. It protects no data: it is the same everywhere, and every script shows it.
TEST_KEY = "matrix test key, not a secret.  " + "the second half of it, for xts. "


KIB = 1024
ALGORITHMS = {"crc32": 4, "crc32c": 4, "xxhash64": 8, "sha1": 20, "sha256": 32, "sha512": 64}  # bytes of each checksum
DEFAULT_INTERLEAVE = 16 * MIB
LARGEST_JOURNAL = 64 * MIB  # the kernel gives a journal 1/128 of the device, up to this size
PAGE = 4 * KIB  # the superblock has one page, and the tags of every area fill whole pages
SECTION = 256 * KIB  # a journal consists of whole sections, each smaller than this
MODE_OPTIONS = {"journal": (), "bitmap": ("--integrity-bitmap-mode",), "direct": ("--integrity-no-journal",)}


class Integrity(Layer):
    """dm-integrity on every device below. Set-up wipes it, because a read of an unwritten sector would fail."""

    kind: ClassVar[str] = "integrity"
    for_each: ClassVar[bool] = True
    noun: ClassVar[str] = "integrity devices"
    maps: ClassVar[bool] = True
    #: The kernel loads checksums on demand.
    needs: ClassVar[tuple[Need, ...]] = (
        Need(modules=("dm_mod", "dm_integrity"), programs=("integritysetup", "dmsetup")),
    )
    why_no_trims: ClassVar[str] = "dm-integrity does not pass trims on"
    algorithm: Literal["crc32", "crc32c", "xxhash64", "sha1", "sha256", "sha512"] = "crc32c"
    mode: Literal["journal", "bitmap", "direct"] = Field(
        "journal",
        description="how data and checksums agree after a crash: by a journal, by a bitmap of regions, or not (direct)",
    )
    sector_size: Sector = Field(512, description="bytes of data with one checksum")
    tag_size: int | None = Field(None, ge=1, le=64, description="bytes of a checksum that are stored; all if not given")
    interleave: Size = Field(DEFAULT_INTERLEAVE, description="bytes of data before each area of checksums")
    journal_size: Size | None = Field(
        None, description="size of the journal; a 128th of the device, at most 64MiB, if not given"
    )

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        if values["mode"] == "journal":
            return {}
        return {"journal_size": f"mode {values['mode']} keeps no journal"}

    def resolve(self, below: Below) -> Self:  # noqa: ARG002
        return self.model_copy(update={"tag_size": self.tag_bytes})

    @property
    def tag_bytes(self) -> int:
        return self.tag_size or ALGORITHMS[self.algorithm]

    def bytes_written(self, below: Below) -> int:
        return sum(device.size for device in below.devices)

    def problems(self, below: Below) -> Iterator[Problem]:
        yield from power_of_two("interleave", self.interleave, 4 * KIB, "interleave")
        if self.interleave > 1024 * MIB:
            yield Problem("interleave", "the kernel interleaves at most 1GiB at once")
        if not self.interleave:
            return
        if self.tag_bytes > ALGORITHMS[self.algorithm]:
            yield Problem("tag_size", f"more than {self.algorithm} has, which is {ALGORITHMS[self.algorithm]} bytes")
        least = "journal_size" if self.journal_size is not None else "mode"
        if self._data_size(below.smallest) < MIB:
            yield Problem(least, f"needs more space than a device of {format_size(below.smallest)} has")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        """Return each device without its tags. Tags lie between the data, so the alignment below is lost above."""
        return tuple(
            Shape(self._data_size(device.size), sector=max(device.sector, self.sector_size), losses=device.losses)
            for device in below.devices
        )

    def _data_size(self, size: int) -> int:
        """Return a lower bound without superblock, journal and tags, each rounded up."""
        journal = self.journal_size if self.journal_size is not None else min(LARGEST_JOURNAL, size // 128)
        tags = self.interleave // self.sector_size * self.tag_bytes
        area = -(-tags // PAGE) * PAGE
        areas = size // self.interleave + 1
        return max(0, size - PAGE - journal - areas * area - SECTION) // PAGE * PAGE

    def views(self, context: BuildContext) -> tuple[View, ...]:
        mappings = mappings_of(self, context, "INTEGRITY")
        journal = "" if self.journal_size is None else str(self.journal_size)
        formatting = (
            f"--integrity={self.algorithm}",
            f"--sector-size={self.sector_size}",
            f"--tag-size={self.tag_bytes}",
            f"--interleave-sectors={self.interleave // 512}",
            *((f"--journal-size={journal}",) if journal else ()),
        )
        view = DmView(
            kind=self.kind,
            members=context.devices,
            tops=tuple(mapping.path for mapping in mappings),
            mappings=mappings,
            open_options=(f"--integrity={self.algorithm}",),
            values={
                "mode": self.mode,
                "format_options": formatting,
                "mode_options": MODE_OPTIONS[self.mode],
                "algorithm": self.algorithm,
                "sector_size": self.sector_size,
                "tag_size": self.tag_bytes,
                "interleave": self.interleave,
                "journal_size": journal,  # the declared one; empty if the kernel decides
            },
            recommended=(formatting, self._at_boot),
        )
        return (view,)

    @property
    def _at_boot(self) -> tuple[str, ...]:
        """Return the options for opening at boot; empty unless every version of systemd supports them."""
        known = self.mode == "journal" and self.algorithm in {"crc32", "crc32c", "sha1", "sha256"}
        return (f"integrity-algorithm={self.algorithm}",) if known else ()


SECTOR = 512
OPTIONS = ("high_watermark", "low_watermark", "writeback_jobs")  # keys with the names of the kernel's options
LARGEST_BLOCK = 4096  # a page
MARK_BYTES = 4096  # the first page of the cache has the mark of this program; dm-writecache begins after it


class Writecache(Layer):
    """dm-writecache on the device below: a part caches its writes and writes them back later. Reads are not cached.

    Its mode is that for SSDs; the option `fua` is for persistent memory, which no machine has.
    """

    kind: ClassVar[str] = "writecache"
    noun: ClassVar[str] = "write-cached devices"
    also_called: ClassVar[Mapping[str, str]] = {"dm-writecache": "writecache: {cache: ssd}"}
    maps: ClassVar[bool] = True
    needs: ClassVar[tuple[Need, ...]] = (Need(modules=("dm_mod", "dm_writecache"), programs=("dmsetup",)),)
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
        view = DmView(
            kind=self.kind,
            members=context.devices,
            tops=(mapping.path,),
            mappings=(mapping,),
            open_options=(),
            values={
                "cache": cache,
                # Its line in the table of the device mapper, without start and length.
                "target": ("writecache", "s", *context.devices, str(self.block_size), str(len(words)), *words),
                "block_size": self.block_size,
                "options": options,
            },
        )
        return (view,)
