"""The definitions of each layer: keys, sizes, impossible values, data for scripts, expected values of the kernel.

The list of all layers is in `__init__.py`.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field

from matrix_runner.base.model import Model
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.needs import Need

#: `none` in YAML may be written as false.
NoneIfFalse = BeforeValidator(lambda value: "none" if value is False else value)


Action = Literal["rebuild", "resync", "check", "repair"]
Sync = Annotated[
    Literal["auto", "wait", "assume-clean", "background"],
    Field(
        description="the first resync: `wait` for it; leave it out on disks known to be zero (`assume-clean`); "
        "measure while it runs (`background`); `auto`: leave it out if possible, else wait"
    ),
]


class Problem(NamedTuple):
    field: str
    message: str


class Layer(Model):
    """One layer of a layout: it uses the devices below it and offers devices to the layer above."""

    kind: ClassVar[str]
    noun: ClassVar[str]  # what a message calls the devices on top of it
    also_called: ClassVar[Mapping[str, str]] = {}  # usual names of the same, and what to write instead
    needs: ClassVar[tuple[Need, ...]] = ()
    keeps_zeros: ClassVar[bool] = True  # if the devices below read as zeros, the devices on top do, too
    #: Its devices are mappings. The kernel does not look for partitions on them, so partitions of them are mappings,
    #: too.
    maps: ClassVar[bool] = False
    lvm_type: ClassVar[str] = ""  # the type of its devices, if LVM has to be told it
    selects: ClassVar[bool] = False  # it only selects some of the devices below
    for_each: ClassVar[bool] = False  # it is built once for each device below; others once for each of their groups

    @property
    def parts(self) -> Mapping[str, str]:
        """Return the names of the parts that it uses beside the devices below, each with the key that names it."""
        return {}

    def ground(self, top: Below) -> Below:
        """Return what it is built on: the devices on top so far, and those of the parts that it names behind them."""
        return top.joined(self.parts)

    @property
    def needed(self) -> tuple[Need, ...]:
        """Return what it needs with its values."""
        return tuple(one for one in self.needs if not one.key or getattr(self, one.key) in one.values)

    @property
    def is_absent(self) -> bool:
        """Return whether it does nothing with these values. The stack then equals one without it."""
        return False

    @property
    def wait_seconds(self) -> float:
        """Return how long its set-up may wait, beside the time for `bytes_written`."""
        return 0.0

    def bytes_written(self, below: Below) -> int:  # noqa: ARG002
        return 0

    def metadata_bytes(self, below: Below) -> int:  # noqa: ARG002
        """Return the bytes of its own data, beside `bytes_written`, that its set-up writes."""
        return 0

    @property
    def memory(self) -> Mapping[str, int]:
        """Return the bytes of memory of each unit of a tunable."""
        return {}

    @property
    def in_place(self) -> bool:
        """Return whether new data replaces the old at its place."""
        return True

    @property
    def assumes_zeros(self) -> bool:
        """Return whether it builds on disks that have to read as zeros."""
        return False

    @property
    def why_no_trims(self) -> str:
        """Return why devices on top of it cannot discard, even if those below can; empty if they can."""
        return ""

    @property
    def title(self) -> str:
        return self.kind

    def noun_above(self, below: Below) -> str:  # noqa: ARG002
        return self.noun

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003 - for those that have such fields
        return {}

    def problems(self, below: Below) -> Iterator[Problem]:  # noqa: ARG002
        yield from ()

    def resolve(self, below: Below) -> Self:  # noqa: ARG002
        """Return a copy with all defaults filled in, so that two spellings of one stack are equal."""
        return self

    def resync_bytes(self, below: Below) -> int:  # noqa: ARG002
        """Return the bytes that set-up writes while it waits for the first resync."""
        return 0

    @abstractmethod
    def views(self, context: BuildContext) -> tuple[View, ...]:
        """Return what set-up builds, in the order of its devices."""

    @abstractmethod
    def devices_above(self, below: Below) -> tuple[Shape, ...]: ...

    def above(self, below: Below) -> Below:
        keeps_zeros = self.keeps_zeros or self.is_absent
        return Below(
            self.devices_above(below),
            self.noun_above(below),
            self.kind if self.selects else "",
            below.scrambled_by or ("" if keeps_zeros else self.kind),
            below.parts,
        )


class Grouped(Layer):
    groups: int = Field(
        1,
        ge=1,
        description="number of equal groups into which the devices below are split, in order; each is built separately",
    )

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.named and self.groups > 1:
            yield Problem("groups", f"several groups cannot share {' and '.join(self.parts)}; remove `groups`")
        elif below.count % self.groups or below.count < self.groups:
            yield Problem("groups", f"{below.description}: they do not make {self.groups} equal groups")
        else:
            yield from self.part_problems(below.grouped(self.groups)[0])

    def resolve(self, below: Below) -> Self:
        return self.resolve_part(below.grouped(self.groups)[0])

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return tuple(self.group_shape(part) for part in below.grouped(self.groups))

    @abstractmethod
    def part_problems(self, below: Below) -> Iterator[Problem]: ...

    @abstractmethod
    def resolve_part(self, below: Below) -> Self: ...

    def views(self, context: BuildContext) -> tuple[View, ...]:
        parts = context.parts(self.groups)
        return tuple(self.group_view(part, context.name(at, self.groups)) for at, part in enumerate(parts))

    @abstractmethod
    def group_shape(self, below: Below) -> Shape:
        """Return the device that one group becomes."""

    @abstractmethod
    def group_view(self, context: BuildContext, name: str) -> View: ...


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """The sizes of an array with redundancy, in bytes."""

    member: int  # of each member, without metadata
    redundant: int  # of all copies and parity together
    walked: int  # over which the kernel counts its progress

    def written(self, action: Action) -> int:
        """Return the most bytes that an action writes to all disks."""
        return {"rebuild": self.member, "check": 0}.get(action, self.redundant)


class Array(Grouped):
    """A layer whose groups may be arrays with redundancy."""

    if TYPE_CHECKING:
        sync: str  # each array declares it where its documentation has it

    @property
    @abstractmethod
    def redundant(self) -> bool: ...

    @property
    def arrays(self) -> int:
        """Return the number of arrays and volumes with redundancy that it builds."""
        return self.groups if self.redundant else 0

    @property
    def assumes_zeros(self) -> bool:
        return self.sync == "assume-clean"

    def first_resync(self, *, zeroed: bool) -> str:
        if not self.redundant:
            return ""
        return {"auto": "assume-clean" if zeroed else "waited for", "wait": "waited for"}.get(self.sync, self.sync)

    @abstractmethod
    def sync_target(self, below: Below) -> SyncTarget:
        """Return the sizes of its array, if it has one group."""

    @abstractmethod
    def why_no_sync(self, action: Action) -> str:
        """Return why its array cannot do it; empty if it can."""


def sync_target(levels: Iterable[tuple[Layer, Below]]) -> SyncTarget | None:
    """Return the sizes of the array of a stack; None if the stack has no array with redundancy, or several."""
    found = [(layer, below) for layer, below in levels if isinstance(layer, Array) and layer.arrays]
    return found[0][0].sync_target(found[0][1]) if sum(layer.arrays for layer, _ in found) == 1 else None


def why_not(stack: Iterable[Layer], action: Action) -> str:
    """Return why a stack cannot do it; empty if it can."""
    layers = [layer for layer in stack if isinstance(layer, Array)]
    redundant = [layer for layer in layers if layer.arrays]
    names = " and ".join(dict.fromkeys(layer.title for layer in redundant or layers))
    if not layers:
        return f"a {action} needs an md array or an LVM volume with redundancy"
    if not redundant:
        return f"{names} has no redundancy, so there is nothing to {action}"
    if (count := sum(layer.arrays for layer in redundant)) > 1:
        return f"it has {count} arrays with redundancy ({names}); a {action} needs exactly one"
    if redundant[0].sync == "background":
        return f"{names} with `sync: background` is in a resync already; remove `sync`"
    return redundant[0].why_no_sync(action)


def power_of_two(field: str, value: int, least: int, what: str) -> Iterator[Problem]:
    if value < least or value & (value - 1):
        low = max(least, 1 << max(value.bit_length() - 1, 0))
        near = f"{format_size(low)} or {format_size(low * 2)}" if value > least else format_size(least)
        yield Problem(field, f"{what} must be a power of two and at least {format_size(least)}; the nearest is {near}")


@dataclass(frozen=True, slots=True)
class Expectation:
    setting: str  # without the name of the layer; the caller puts it in front
    file: str  # in the sysfs folder of a block device
    wanted: str | None  # its expected content; None: record only
    asked: bool = False  # the user set it, so report it even if the file is missing


@dataclass(frozen=True, slots=True)
class BuildContext:
    devices: tuple[str, ...]  # paths of the devices below, in order
    below: Below  # shapes of the same devices
    depth: int  # the number of layers below. It is part of every name that the layer gives.
    zeroed: bool  # the disks read as zeros, so md and LVM may skip a first resync
    bay: str  # a name of all disks together. Folders on the host carry it.
    prefix: str  # the prefix of all names that the layer gives
    slow: int = 1  # how many times slower than real time its disks work
    lvm_types: tuple[str, ...] = ()  # of devices in the stack, those that LVM has to be told

    def parts(self, groups: int) -> list[BuildContext]:
        each = len(self.devices) // groups
        return [
            replace(self, devices=self.devices[at * each : (at + 1) * each], below=part)
            for at, part in enumerate(self.below.grouped(groups))
        ]

    def name(self, part: int, parts: int) -> str:
        """Return `matrix-0`, or `matrix-0-1` for the second of several parts."""
        return f"{self.prefix}-{self.depth}" + (f"-{part}" if parts > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One object to build. The scripts in `templates/<kind>/` get it as `layer`."""

    kind: str
    members: tuple[str, ...]  # the devices below
    tops: tuple[str, ...]  # the devices on top
    #: Their names in readings: the name of the layer in axes, with a number if the layer made several.
    names: tuple[str, ...] = ()
    expects: tuple[Expectation, ...] = ()  # the expected sysfs values of each of its devices
    resync: str = ""  # the treatment of a first resync: ruled out, waited for, or measured beside. Empty without one.
    #: Once built, the kernel has its members open exclusively. If not, other programs can open them as well.
    holds: bool = True
    remains: tuple[str, ...] = ()  # paths that show an earlier one which left nothing on the disks below
    under_way: str = ""  # the activity that must go on during measurement; empty for idle
    directory: str = ""  # where its files are mounted; empty if it makes devices
    values: Mapping[str, object] = field(default_factory=dict)  # what only its scripts read, by name
    recommended: tuple[tuple[str, ...], ...] = ()  # words of commands in the script for administrators

    def __getitem__(self, name: str) -> object:
        """Return a value as scripts do, as if it were an attribute."""
        return self.values[name]

    @property
    def device(self) -> str:
        return self.tops[0]

    @property
    def marks(self) -> tuple[str, ...]:
        return ()


def mark(layer: Model, members: tuple[str, ...]) -> str:
    """Return 32 hex digits of a layer and its members. On disk, they identify our own leftovers.

    A key that is new does not change them, so that another version recognises them.
    """
    keys = layer.model_dump_json(exclude_defaults=True)
    content = f"matrix {type(layer).__name__} {keys} {' '.join(members)}"
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def as_uuid(digits: str) -> str:
    """Format 32 hex digits as a UUID. Some tools insist on version 4."""
    whole = f"{digits[:12]}4{digits[13:16]}8{digits[17:]}"
    return "-".join((whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:]))


def tops(built: tuple[View, ...]) -> tuple[str, ...]:
    """Return the devices for the next layer: the first of each view, then the second of each."""
    return tuple(path for several in zip(*(view.tops for view in built), strict=True) for path in several)


@dataclass(frozen=True, slots=True)
class DeviceMapping:
    member: str
    name: str  # it contains our mark, because some kinds of mappings have no other place for it
    mark: str  # the mark on disk, if the kind has a place for it
    owner: str  # the prefix of the kernel's uuid of our mappings, under any name
    uuid: str  # the full uuid
    stripe: int  # data must begin at a multiple of this many bytes, or the alignment below is lost above

    @property
    def path(self) -> str:
        return f"/dev/mapper/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DmView(View):
    mappings: tuple[DeviceMapping, ...]
    open_options: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mapping.mark for mapping in self.mappings)


def mappings_of(layer: Layer, context: BuildContext, kind: str) -> tuple[DeviceMapping, ...]:
    found = []
    for at, member in enumerate(context.devices):
        digits = mark(layer, (member,))
        name = f"{context.name(at, len(context.devices))}-{digits[:8]}"
        if kind.startswith("LUKS"):
            written = as_uuid(digits)
            owner = f"CRYPT-{kind}-{written.replace('-', '')}-"
            uuid = owner + name
        else:
            written = f"matrix {digits}"
            owner = uuid = f"CRYPT-{kind}-{name}"
        stripe = context.below.devices[at].full_stripe or 0
        found.append(DeviceMapping(member, name, written, owner, uuid, stripe))
    return tuple(found)
