"""hosts.yaml as written: hosts, how to reach them, which disks may be used; and what a matrix needs of a host."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from matrix_runner.base.model import Model, Size, as_tuple
from matrix_runner.language.guidelines import listed


class DiskNeeds(Model):
    """Number and properties of the disks. A property that is left out can have any value."""

    count: int = Field(ge=1, le=26)
    kind: DiskKind | None = None
    tag: Annotated[
        tuple[Name, ...],
        BeforeValidator(as_tuple),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field((), description="each disk has all of these `tags` of hosts.yaml")
    size: Size | None = Field(None, gt=0, description="smallest size")


AnyNeeds = DiskNeeds | dict[str, DiskNeeds]


def _needs(value: Any) -> AnyNeeds:
    """Accept the needs of all disks, or of each group of disks by name."""
    if isinstance(value, dict) and value and all(isinstance(one, dict | DiskNeeds) for one in value.values()):
        return TypeAdapter(dict[str, DiskNeeds]).validate_python(value)
    return DiskNeeds.model_validate(value)


class Needs(Model):
    """Physical disks that hosts.yaml has to offer."""

    disks: Annotated[
        DiskNeeds | dict[str, DiskNeeds],
        PlainValidator(_needs, json_schema_input_type=DiskNeeds | dict[str, DiskNeeds]),
        SerializeAsAny(),
    ] = Field(description="the disks, or the disks of each group of `disks:` by its name")

    @property
    def groups(self) -> dict[str, DiskNeeds]:
        """Return the needs of each group; without groups, of all disks under an empty name."""
        return {"": self.disks} if isinstance(self.disks, DiskNeeds) else self.disks


DiskKind = Literal["hdd", "ssd", "nvme"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]


def _stable(name: str) -> str:
    # sda and sdb can change places at any boot, and a path may lead anywhere. Only names in by-id are stable.
    bare = name.removeprefix("/dev/disk/by-id/")
    if bare != name and bare:
        raise ValueError(f"write only the name in /dev/disk/by-id: {bare}")
    if "/" in name or name in {"", ".", ".."} or not (name.isprintable() and name.isascii()) or " " in name:
        raise ValueError("not the name of a disk in /dev/disk/by-id; `matrix disks` shows them")
    return name


def _text(value: Any) -> Any:
    # YAML reads 0x5000c500a1 and 00123 as numbers, so the written text is lost.
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError("YAML reads this as a number; put quotes around the characters as you wrote them")  # noqa: TRY004 - pydantic handles ValueError only
    return value


Told = Annotated[str, BeforeValidator(_text)]
StableId = Annotated[Told, AfterValidator(_stable)]
Words = Annotated[tuple[Name, ...], BeforeValidator(listed)]
Patterns = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(listed)]


@dataclass(frozen=True, slots=True)
class DeclaredDisk:
    """A physical disk that may be used, and the values that identify it."""

    id: str  # its name in /dev/disk/by-id
    size: int
    serial: str = ""
    wwn: str = ""
    wipe: bool = False  # content on it may be overwritten
    purposes: tuple[str, ...] = ()  # patterns of matrix names; empty: any matrix
    wear: int | None = None  # bytes that may be written in a night; None: no limit
    whole: bool = False  # a virtual machine gets the disk together with its controller
    only_read: bool = False  # nothing is written to it, so it may have any content


class LabDisk(Model):
    """One disk that may be used. All values that identify it are compared before each use."""

    id: StableId = Field(description="its name in /dev/disk/by-id")
    serial: Told | None = Field(None, min_length=1, description="its serial number, as `matrix disks` shows it")
    wwn: Told | None = Field(
        None,
        pattern=r"^(0x|naa\.|eui\.|nvme\.|t10\.)?\S+$",
        description="its World Wide Name, a number that the maker gives it",
    )
    size: Annotated[Size, Field(gt=0, description="its exact size")]
    kind: DiskKind | None = None
    tags: Words = ()
    for_: Patterns = Field(
        (), alias="for", description="matrices that may use it, by name or pattern; all if not given"
    )
    wipe: Literal["allowed"] | None = Field(
        None, description="foreign content of the disk may be overwritten; if not given, such a disk is refused"
    )
    vfio: Literal["allowed"] | None = Field(
        None,
        description="with --passthrough and `bus: nvme`, the virtual machine gets the whole NVMe controller (VFIO)",
    )
    wear: Size | None = Field(
        None, gt=0, description="bytes that may be written to it from noon to noon (UTC); no limit if not given"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        if not (self.serial or self.wwn):
            raise ValueError("`serial` or `wwn` is missing: the name alone may lead to another disk later")
        return self

    @property
    def claim(self) -> DeclaredDisk:
        wipe = self.wipe == "allowed"
        return DeclaredDisk(self.id, self.size, self.serial or "", self.wwn or "", wipe, self.for_, self.wear)


class LabHost(Model):
    """One host with disks."""

    reach: str = Field(
        "local",
        pattern=r"^(local|ssh:[A-Za-z0-9@_][A-Za-z0-9@_.:-]*)$",
        description="`local`, or `ssh:` and a name that ssh knows",
    )
    disks: Annotated[tuple[LabDisk, ...], BeforeValidator(listed)] = ()
    destroy: Annotated[tuple[StableId, ...], BeforeValidator(listed)] = Field(
        (), description="ids of disks whose content every run may destroy, as if --destroy named them"
    )
    shares: Literal["nothing"] | None = Field(
        None, description="its disks share no controller and no bus, so several runs may measure at the same time"
    )

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        ids = Counter(disk.id for disk in self.disks)
        if twice := next((one for one, count in ids.items() if count > 1), None):
            raise ValueError(f"{twice} is listed twice; remove one of the entries")
        if unknown := next((one for one in self.destroy if one not in ids), None):
            raise ValueError(f"`destroy` names {unknown}, which is not a disk of this host")
        return self

    @property
    def claims(self) -> tuple[DeclaredDisk, ...]:
        return tuple(disk.claim for disk in self.disks)


class LabCluster(Model):
    """The keys below `cluster:`, for `--cluster hosts.yaml`."""

    address: str = Field(pattern=r"^(tls|tcp)://\S+:\d+$", description="address of its scheduler: tls://HOST:PORT")
    certificates: str | None = Field(None, min_length=1, description="the folder of its certificates")


class Lab(Model):
    """All hosts by name, and a cluster."""

    hosts: dict[Name, LabHost] = Field(default_factory=dict)
    cluster: LabCluster | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.hosts or self.cluster):
            raise ValueError("`hosts` is missing; `matrix help physical-disks` has an example")
        return self
