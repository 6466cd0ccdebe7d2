"""Mappings of the device mapper: what cryptsetup and integritysetup are told, and what the kernel must show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.language.layers.crypt import FLAGS
from runner.scripts.layers.base import Ground, View, as_uuid, mark

if TYPE_CHECKING:
    from runner.language.layers import Crypt, Integrity
    from runner.language.layers.base import Layer

#: What everything is encrypted with. It protects nothing: it is the same everywhere, and every script shows it.
TEST_KEY = "matrix test key, not a secret.  " + "the second half of it, for xts. "


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CryptView(DmView):
    """Encrypted devices."""

    key: str
    format: str
    format_options: tuple[str, ...]
    cipher: str
    key_size: int
    sector_size: int
    flags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityView(DmView):
    """Devices with checksums."""

    mode: str
    format_options: tuple[str, ...]
    mode_options: tuple[str, ...]
    algorithm: str
    sector_size: int
    tag_size: int
    interleave: int
    #: Asked for; empty if the kernel decides.
    journal_size: str


def _mappings(layer: Layer, ground: Ground, kind: str) -> tuple[Mapping, ...]:
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


def crypt(layer: Crypt, ground: Ground) -> tuple[View, ...]:
    """Every device encrypted."""
    mappings = _mappings(layer, ground, layer.format.upper())
    key_size = layer.key_size or 0
    how = (f"--cipher={layer.cipher}", f"--key-size={key_size}")
    sector = () if layer.format == "luks1" else (f"--sector-size={layer.sector_size}",)
    flags = tuple((flag, "on" if getattr(layer, flag) else "off") for flag in FLAGS)
    return (
        CryptView(
            kind="crypt",
            members=ground.devices,
            tops=tuple(one.path for one in mappings),
            mappings=mappings,
            key=TEST_KEY[: key_size // 8] if layer.format == "plain" else TEST_KEY,
            format=layer.format,
            format_options=(f"--type={layer.format}", *how, *sector, *_derivation(layer)),
            open_options=(
                f"--type={layer.format}",
                *((*how, *sector) if layer.format == "plain" else ()),
                *(_flag_option(flag) for flag, wanted in flags if wanted == "on"),
            ),
            cipher=layer.cipher,
            key_size=key_size,
            sector_size=layer.sector_size,
            flags=flags,
        ),
    )


def _derivation(layer: Crypt) -> tuple[str, ...]:
    """A thousand rounds: what makes a password hard to guess would take an emulated processor minutes."""
    function = ("--pbkdf=pbkdf2",) if layer.format == "luks2" else ()
    return (*function, "--pbkdf-force-iterations=1000")


def _flag_option(flag: str) -> str:
    return "--allow-discards" if flag == "allow_discards" else f"--perf-{flag}"


MODE_OPTIONS = {"journal": (), "bitmap": ("--integrity-bitmap-mode",), "direct": ("--integrity-no-journal",)}


def integrity(layer: Integrity, ground: Ground) -> tuple[View, ...]:
    """Every device with checksums."""
    mappings = _mappings(layer, ground, "INTEGRITY")
    journal = "" if layer.journal_size is None else str(layer.journal_size)
    return (
        IntegrityView(
            kind="integrity",
            members=ground.devices,
            tops=tuple(one.path for one in mappings),
            mappings=mappings,
            mode=layer.mode,
            format_options=(
                f"--integrity={layer.algorithm}",
                f"--sector-size={layer.sector_size}",
                f"--tag-size={layer.tag_bytes}",
                f"--interleave-sectors={layer.interleave // 512}",
                *((f"--journal-size={journal}",) if journal else ()),
            ),
            open_options=(f"--integrity={layer.algorithm}",),
            mode_options=MODE_OPTIONS[layer.mode],
            algorithm=layer.algorithm,
            sector_size=layer.sector_size,
            tag_size=layer.tag_bytes,
            interleave=layer.interleave,
            journal_size=journal,
        ),
    )
