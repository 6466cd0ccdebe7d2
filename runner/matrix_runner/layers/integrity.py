"""dm-integrity without encryption: one mapping with checksums on each device below."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from matrix_runner.base.model import Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import BuildContext, DmView, Layer, Problem, View, mappings_of, power_of_two
from matrix_runner.layers.crypt import Sector
from matrix_runner.layers.geometry import Below, Shape

KIB = 1024
MIB = 2**20
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
    programs: ClassVar[tuple[str, ...]] = ("integritysetup", "dmsetup")
    why_no_trims: ClassVar[str] = "dm-integrity does not pass trims on"
    modules: ClassVar[tuple[str, ...]] = ("dm_mod", "dm_integrity")  # the kernel loads checksums on demand
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
        view = IntegrityView(
            members=context.devices,
            tops=tuple(mapping.path for mapping in mappings),
            mappings=mappings,
            mode=self.mode,
            format_options=(
                f"--integrity={self.algorithm}",
                f"--sector-size={self.sector_size}",
                f"--tag-size={self.tag_bytes}",
                f"--interleave-sectors={self.interleave // 512}",
                *((f"--journal-size={journal}",) if journal else ()),
            ),
            open_options=(f"--integrity={self.algorithm}",),
            mode_options=MODE_OPTIONS[self.mode],
            algorithm=self.algorithm,
            sector_size=self.sector_size,
            tag_size=self.tag_bytes,
            interleave=self.interleave,
            journal_size=journal,
        )
        return (view,)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityView(DmView):
    kind: str = "integrity"
    mode: str
    format_options: tuple[str, ...]
    mode_options: tuple[str, ...]
    algorithm: str
    sector_size: int
    tag_size: int
    interleave: int
    journal_size: str  # the declared size; empty if the kernel decides
