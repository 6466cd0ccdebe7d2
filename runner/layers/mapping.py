"""Mappings of the device mapper, as crypt and integrity make them."""

from __future__ import annotations

from dataclasses import dataclass

from runner.layers.base import Ground, Layer, View, as_uuid, mark


@dataclass(frozen=True, slots=True)
class Mapping:
    """One device below and what is mapped onto it."""

    member: str
    #: Its name carries our mark, as not every kind of mapping has another place for it.
    name: str
    #: The mark as it is on disk, where the kind has a place for it.
    mark: str
    #: How the kernel's uuid of the mapping begins if it is ours, under whatever name.
    owner: str
    #: All of that uuid.
    uuid: str
    #: Data must begin at a multiple of so many bytes, or what is striped below is not above.
    stripe: int

    @property
    def path(self) -> str:
        """The device on top."""
        return f"/dev/mapper/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DmView(View):
    """All mappings of one layer."""

    mappings: tuple[Mapping, ...]
    open_options: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """Of the headers, where there are any that have a place for one."""
        return tuple(one.mark for one in self.mappings)


def mappings_of(layer: Layer, ground: Ground, kind: str) -> tuple[Mapping, ...]:
    return tuple(_mapping(layer, ground, at, kind) for at in range(len(ground.devices)))


def _mapping(layer: Layer, ground: Ground, at: int, kind: str) -> Mapping:
    member = ground.devices[at]
    digits = mark(layer, (member,))
    name = f"{ground.name(at, len(ground.devices))}-{digits[:8]}"
    if kind.startswith("LUKS"):
        written = as_uuid(digits)
        owner = f"CRYPT-{kind}-{written.replace('-', '')}-"
        uuid = owner + name
    else:
        written = f"matrix {digits}"
        owner = uuid = f"CRYPT-{kind}-{name}"
    return Mapping(member, name, written, owner, uuid, ground.below.devices[at].full_stripe or 0)
