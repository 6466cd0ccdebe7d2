"""The layers that layouts are stacked from, fully resolved: one value a field.

What a user writes is the same models with a list allowed in every place (see `axes`). Each layer says which of its
fields mean nothing for the values it has (`idle`), so that a chunk size never multiplies a layout that has no chunks,
and what the kernel would refuse (`problems`), so that it is refused before anything starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.model.base import Model
from runner.model.units import Size, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_CHUNK = 512 * 1024


class Problem(NamedTuple):
    """Something impossible: the field it stands in, and what would be right."""

    field: str
    message: str


def _level(value: object) -> object:
    match = re.fullmatch(r"raid-?(\d+)", value, re.IGNORECASE) if isinstance(value, str) else None
    return int(match[1]) if match else value


def _metadata(value: object) -> object:
    """YAML reads 1.2 as a number and 0.90 as 0.9."""
    return {0.9: "0.90", 1.0: "1.0", 1.1: "1.1", 1.2: "1.2"}.get(value, value) if isinstance(value, float) else value


def _off(value: object) -> object:
    return "none" if value is False else value


Level = Annotated[
    Literal[0, 1, 4, 5, 6, 10],
    BeforeValidator(_level),
    WithJsonSchema({"enum": [0, 1, 4, 5, 6, 10, "raid0", "raid1", "raid4", "raid5", "raid6", "raid10"]}),
]
Metadata = Annotated[
    Literal["0.90", "1.0", "1.1", "1.2"],
    BeforeValidator(_metadata),
    WithJsonSchema({"enum": ["0.90", "1.0", "1.1", "1.2", 0.9, 1.0, 1.1, 1.2]}),
]


class DiskLayer(Model):
    """One disk as it is."""

    kind: ClassVar[str] = "disk"
    modules: ClassVar[tuple[str, ...]] = ()
    number: Annotated[int, Field(ge=0, description="which of the declared disks, counted from 0")] = 0

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003 - every layer answers the same question
        """Nothing is ever idle here."""
        return {}

    def problems(self, count: int, size: int) -> Iterator[Problem]:  # noqa: ARG002
        """What cannot be, on `count` disks of `size` bytes."""
        if self.number >= count:
            yield Problem("number", f"there is no disk {self.number}: {count} are declared, counted from 0")

    def settled(self, count: int) -> DiskLayer:  # noqa: ARG002
        """Nothing is left open here."""
        return self

    def capacity(self, count: int, size: int) -> int:  # noqa: ARG002
        """At most so many bytes can be used."""
        return size


class Md(Model):
    """A Linux software RAID array over the disks."""

    kind: ClassVar[str] = "md"
    level: Level
    chunk: Annotated[Size | None, Field(description="stripe chunk; 512KiB if not given")] = None
    devices: Annotated[int | None, Field(ge=1, description="active disks; all but the spares if not given")] = None
    layout: Annotated[
        Annotated[str, Field(pattern=r"^[nfo][1-9]$")] | None,
        Field(description="RAID 10 only: n2, f2, o2 …: near, far or offset, and the number of copies"),
    ] = None
    metadata: Metadata = "1.2"
    bitmap: Annotated[
        Literal["none", "internal"], BeforeValidator(_off), WithJsonSchema({"enum": ["none", "internal", False]})
    ] = "none"
    spare: Annotated[int, Field(ge=0)] = 0
    sync: Annotated[
        Literal["auto", "wait", "assume-clean"],
        Field(
            description="first resync: waited for, or ruled out on disks that are known zero (auto: whichever is true)"
        ),
    ] = "auto"

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing for these values, and why."""
        level = values["level"]
        idle: dict[str, str] = {}
        if level == 1:
            idle["chunk"] = "RAID 1 has no chunks"
        if level != 10:
            idle["layout"] = f"RAID {level} has no near, far or offset layout"
        if level == 0:
            idle |= dict.fromkeys(("spare", "bitmap", "sync"), "RAID 0 has no redundancy")
        return idle

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules without which it cannot be built."""
        return ({0: "raid0", 1: "raid1", 10: "raid10"}.get(self.level, "raid456"),)

    @property
    def copies(self) -> int:
        """How many copies RAID 10 keeps of each block."""
        return int(self.layout[1:]) if self.layout else 2

    def active(self, count: int) -> int:
        """How many disks hold data."""
        return self.devices if self.devices is not None else count - self.spare

    def settled(self, count: int) -> Md:
        """With everything that was left open filled in, so that two spellings of one array are equal."""
        open_fields = {
            "chunk": None if self.level == 1 else self.chunk or DEFAULT_CHUNK,
            "devices": self.active(count),
            "layout": (self.layout or "n2") if self.level == 10 else None,
        }
        return self.model_copy(update=open_fields)

    def problems(self, count: int, size: int) -> Iterator[Problem]:
        """What the kernel or mdadm would refuse, on `count` disks of `size` bytes."""
        yield from self._chunk_problems(size)
        active = self.active(count)
        least = max({6: 4}.get(self.level, 2), self.copies if self.level == 10 else 0)
        counted = f"{count} disks are declared" + (f", {self.spare} of them spare" if self.spare else "")
        if active + self.spare > count:
            blamed = "spare" if self.devices is None else "devices"
            wanted = f"{active} devices" + (f" and {self.spare} spare" if self.spare else "")
            yield Problem(blamed, f"{wanted} are more than there are: {count} disks are declared")
        elif active < least and self.devices is not None:
            yield Problem("devices", f"RAID {self.level} needs at least {least} devices, not {active}")
        elif active < least:
            what = f"RAID {self.level}" + (f" with {self.copies} copies" if self.copies > 2 else "")
            yield Problem("level", f"{what} needs at least {least} disks; {counted}")

    def _chunk_problems(self, size: int) -> Iterator[Problem]:
        if self.chunk is None:
            return
        if self.chunk < 4096 or self.chunk & (self.chunk - 1):
            low = max(4096, 1 << (self.chunk.bit_length() - 1))
            near = f"{format_size(low)} or {format_size(low * 2)}" if self.chunk > 4096 else "4KiB"
            yield Problem("chunk", f"a chunk must be a power of two and at least 4KiB; the nearest is {near}")
        elif self.chunk * 4 > size:
            yield Problem(
                "chunk", f"larger than a quarter of a disk ({format_size(size)}): no stripe would be left to measure"
            )

    def capacity(self, count: int, size: int) -> int:
        """At most so many bytes can be used (md's own metadata takes a little of it)."""
        active = self.active(count)
        data = {0: active, 1: 1, 4: active - 1, 5: active - 1, 6: active - 2, 10: active / self.copies}[self.level]
        return int(data * size)


Layer = DiskLayer | Md
LAYERS: dict[str, type[Layer]] = {layer.kind: layer for layer in (DiskLayer, Md)}
