"""What every layer answers, and what most of them answer.

What a user writes is the same models with a list allowed in every place (see `axes`). Each layer says which of its
fields mean nothing for the values it has (`idle`), so that a chunk size never multiplies a layout that has no chunks,
what the kernel would refuse (`problems`), so that it is refused before anything starts, and what comes out on top
(`above`), on which the next layer stands.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field

from runner.base.model import Model
from runner.base.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.layers.geometry import Below, Shape


class Problem(NamedTuple):
    """Something impossible: the field it stands in, and what would be right."""

    field: str
    message: str


class Layer(Model):
    """One layer of a layout: it takes the devices below it and leaves others on top."""

    kind: ClassVar[str]
    #: What the devices on top of it are called.
    noun: ClassVar[str]
    #: Where the devices below read as zeros, so do those on top.
    keeps_zeros: ClassVar[bool] = True
    #: It makes block devices, so `tune` has a map of its name. False where it only passes devices on, or makes files.
    tunable: ClassVar[bool] = True
    #: Its devices are mappings: the kernel looks for no partitions on them, so these are mappings too.
    maps: ClassVar[bool] = False

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules without which it cannot be built."""
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs without which it cannot be built, read back and taken apart; what every system has is not here."""
        return ()

    @property
    def absent(self) -> bool:
        """Whether it does nothing with these values: the stack is then the one without it."""
        return False

    @property
    def waits(self) -> float:
        """Building it may take so many seconds, beside what it writes."""
        return 0.0

    def writes(self, below: Below) -> int:  # noqa: ARG002
        """So many bytes are written while it is built, as far as that is known and worth a word."""
        return 0

    @property
    def title(self) -> str:
        """What people call it."""
        return self.kind

    def called(self, below: Below) -> str:  # noqa: ARG002
        """What the devices on top of it are called."""
        return self.noun

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003 - for those that have such fields
        """Fields that mean nothing for these values, and why."""
        return {}

    def problems(self, below: Below) -> Iterator[Problem]:  # noqa: ARG002
        """What cannot be on the devices below."""
        yield from ()

    def settled(self, below: Below) -> Self:  # noqa: ARG002
        """With everything that was left open filled in, so that two spellings of one thing are equal."""
        return self

    def resynced(self, below: Below) -> int:  # noqa: ARG002
        """Bytes that are written while it is built, because its first resync is waited for."""
        return 0

    @abstractmethod
    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""

    @abstractmethod
    def above(self, below: Below) -> tuple[Shape, ...]:
        """The devices on top of it."""


class Grouped(Layer):
    """A layer that makes one device of several; with `groups`, one of each part of them."""

    groups: Annotated[
        int, Field(ge=1, description="make so many of it, each of an equal part of the devices below, neighbours first")
    ] = 1

    def problems(self, below: Below) -> Iterator[Problem]:
        """What cannot be on the devices below."""
        if below.count % self.groups or below.count < self.groups:
            yield Problem("groups", f"{below.told}: they do not make {self.groups} equal groups")
        else:
            yield from self.part_problems(below.grouped(self.groups)[0])

    def settled(self, below: Below) -> Self:
        """With everything that was left open filled in."""
        return self.part_settled(below.grouped(self.groups)[0])

    def above(self, below: Below) -> tuple[Shape, ...]:
        """One device a group."""
        return tuple(self.over(part) for part in below.grouped(self.groups))

    @abstractmethod
    def part_problems(self, below: Below) -> Iterator[Problem]:
        """What cannot be on the devices of one group."""

    @abstractmethod
    def part_settled(self, below: Below) -> Self:
        """With everything filled in, for one group."""

    @abstractmethod
    def over(self, below: Below) -> Shape:
        """What one group becomes."""


def power_of_two(field: str, value: int, least: int, what: str) -> Iterator[Problem]:
    """A size that must be a power of two."""
    if value < least or value & (value - 1):
        low = max(least, 1 << max(value.bit_length() - 1, 0))
        near = f"{format_size(low)} or {format_size(low * 2)}" if value > least else format_size(least)
        yield Problem(field, f"{what} must be a power of two and at least {format_size(least)}; the nearest is {near}")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A file under a block device's sysfs folder, and what it must hold (None: only recorded).

    Of a layer, `setting` is without the layer's name, which goes before it.
    """

    setting: str
    file: str
    wanted: str | None
    #: It was asked about, so it is told even where there is no such file.
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """What one layer is built on."""

    #: Paths of the devices below, in their order.
    devices: tuple[str, ...]
    #: The same devices by their shape.
    below: Below
    #: How many layers are below it: part of every name it gives.
    depth: int
    #: The disks are known to read as zeros, so a first resync may be ruled out.
    zeroed: bool
    #: Of all disks together: names what the host keeps for whoever has them.
    bay: str
    #: What all names begin with that it gives.
    prefix: str

    def parts(self, groups: int) -> list[Ground]:
        """The ground of each of several equal groups."""
        each = len(self.devices) // groups
        return [
            replace(self, devices=self.devices[at * each : (at + 1) * each], below=part)
            for at, part in enumerate(self.below.grouped(groups))
        ]

    def name(self, part: int, parts: int) -> str:
        """A name of ours for what is built here: `matrix-0`, or `matrix-0-1` for the second of several."""
        return f"{self.prefix}-{self.depth}" + (f"-{part}" if parts > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One thing to be built: `templates/set-up/<kind>.sh` and its like get it as `layer`."""

    kind: str
    #: The devices it is built of.
    members: tuple[str, ...]
    #: The devices that are there once it is built.
    tops: tuple[str, ...]
    #: What each of these is called in readings: as axes call the layer, with its number where the layer made several.
    names: tuple[str, ...] = ()
    #: What sysfs must say of each of its devices.
    expects: tuple[Expectation, ...] = ()
    #: How a first resync is dealt with: ruled out, waited for, or measured beside; empty where there is none.
    resync: str = ""
    #: Once it is built the kernel has its members for it alone; where it has not, others get them as well.
    holds: bool = True
    #: What must be going on while it is measured, beside answering; empty if nothing.
    under_way: str = ""

    @property
    def device(self) -> str:
        """Its first device; most have only one."""
        return self.tops[0]

    @property
    def marks(self) -> tuple[str, ...]:
        """UUIDs, or labels, that stand on its members once it is built; none if there is no place for any."""
        return ()


def mark(layer: Model, members: tuple[str, ...]) -> str:
    """Thirty-two hex digits of what it is and what it is made of: with it on disk, we know our own leftovers."""
    content = f"matrix {layer.model_dump_json()} {' '.join(members)}"
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def as_uuid(digits: str) -> str:
    """The digits as UUIDs are mostly written (version 4, as some tools insist)."""
    whole = f"{digits[:12]}4{digits[13:16]}8{digits[17:]}"
    return "-".join((whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:]))


def tops(built: tuple[View, ...]) -> tuple[str, ...]:
    """The devices on top of a layer, as the next one sees them: the first of each, then the second of each."""
    return tuple(path for several in zip(*(view.tops for view in built), strict=True) for path in several)
