"""Mappings of the device mapper, shared by crypt and integrity."""

from __future__ import annotations

from dataclasses import dataclass

from runner.layers.base import BuildContext, Layer, View, as_uuid, mark


@dataclass(frozen=True, slots=True)
class Mapping:
    """One device below and its mapping."""

    member: str
    #: It contains our mark, because some kinds of mappings have no other place for it.
    name: str
    #: The mark on disk, if the kind has a place for it.
    mark: str
    #: The prefix of the kernel's uuid of our mappings, under any name.
    owner: str
    #: The full uuid.
    uuid: str
    #: Data must begin at a multiple of this many bytes, or the alignment below is lost above.
    stripe: int

    @property
    def path(self) -> str:
        return f"/dev/mapper/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DmView(View):
    """All mappings of one layer."""

    mappings: tuple[Mapping, ...]
    open_options: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the marks in the headers, if the format has a place for one."""
        return tuple(one.mark for one in self.mappings)


def mappings_of(layer: Layer, context: BuildContext, kind: str) -> tuple[Mapping, ...]:
    return tuple(_mapping(layer, context, at, kind) for at in range(len(context.devices)))


def _mapping(layer: Layer, context: BuildContext, at: int, kind: str) -> Mapping:
    member = context.devices[at]
    digits = mark(layer, (member,))
    name = f"{context.name(at, len(context.devices))}-{digits[:8]}"
    if kind.startswith("LUKS"):
        written = as_uuid(digits)
        owner = f"CRYPT-{kind}-{written.replace('-', '')}-"
        uuid = owner + name
    else:
        written = f"matrix {digits}"
        owner = uuid = f"CRYPT-{kind}-{name}"
    return Mapping(member, name, written, owner, uuid, context.below.devices[at].full_stripe or 0)
