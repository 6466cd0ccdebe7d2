"""Shapes and sizes of stacks, and the space that md's superblock takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Shape:
    size: int  # usable bytes; a lower bound
    chunk: int | None = None  # bytes in a row on one disk; None without striping
    stripes: int = 1  # disks with data in one full stripe
    files: bool = False  # it is a file system: the layer above gets files
    sector: int = 512  # the smallest read or write
    queued: bool = True  # a disk: its queue depth can be set
    losses: int | None = 0  # how many disks may fail, whichever they are, before its data is lost; None if unknown

    @property
    def full_stripe(self) -> int | None:
        """Return the bytes of a write that uses every disk and needs no read of parity."""
        return None if self.chunk is None else self.chunk * self.stripes


@dataclass(frozen=True, slots=True)
class Part:
    """A group of disks, or the devices on top of some layers, under the name by which a layer can use them."""

    name: str
    top: Below
    uses: int = 0


@dataclass(frozen=True, slots=True)
class Below:
    devices: tuple[Shape, ...]
    noun: str = "disks"  # what a message calls them: disks, partitions, arrays …
    selected_by: str = ""  # the layer that selected them from more; empty without one
    scrambled_by: str = ""  # the lowest layer below on which disks of zeros do not read as zeros
    parts: tuple[Part, ...] = ()  # the parts that the stack has so far, and the groups of disks
    named: int = 0  # how many of the devices, the last ones, belong to parts that the layer names

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts if part.name == name), None)

    def joined(self, names: Collection[str]) -> Below:
        """Return them with the devices of some parts behind them, as the layer that names these parts gets them."""
        if not names:
            return self
        tops = [part.top for name in names if (part := self.part(name))]
        return replace(
            self,
            devices=(*self.devices, *(device for top in tops for device in top.devices)),
            scrambled_by=scrambled((self, *tops)),
            parts=tuple(replace(part, uses=part.uses + (part.name in names)) for part in self.parts),
            named=sum(top.count for top in tops),
        )

    @property
    def own(self) -> Below:
        """Return them without the devices of parts that the layer names."""
        return replace(self, devices=self.devices[: self.count - self.named], named=0) if self.named else self

    @property
    def count(self) -> int:
        return len(self.devices)

    @property
    def smallest(self) -> int:
        return min((device.size for device in self.devices), default=0)

    @property
    def description(self) -> str:
        counted = f"1 {self.noun.removesuffix('s')}" if self.count == 1 else f"{self.count} {self.noun}"
        if self.selected_by:
            return f"`{self.selected_by}` selects {counted}"
        are = "is" if self.count == 1 else "are"
        return f"{counted} {are} {'declared' if self.noun == 'disks' else 'below'}"

    def grouped(self, groups: int) -> tuple[Below, ...]:
        each = self.count // groups
        return tuple(replace(self, devices=self.devices[at * each : (at + 1) * each]) for at in range(groups))


def scrambled(several: Iterable[Below]) -> str:
    return next((below.scrambled_by for below in several if below.scrambled_by), "")


def losses_of(devices: tuple[Shape, ...], tolerated: int) -> int | None:
    """Return how many disks may fail before more than `tolerated` of the devices have failed; None if unknown."""
    known = [device.losses for device in devices if device.losses is not None]
    if len(known) < len(devices):
        return None
    return sum(losses + 1 for losses in sorted(known)[: tolerated + 1]) - 1


def common(devices: tuple[Shape, ...]) -> tuple[int | None, int]:
    """Return chunk and stripes of devices joined end to end, or no striping if they differ."""
    kinds = {(device.chunk, device.stripes) for device in devices}
    return kinds.pop() if len(kinds) == 1 else (None, 1)


SECTOR = 512
MIB = 2**20 // SECTOR
GIB = 2**30 // SECTOR
_PPL = MIB  # room for the partial parity log of one member


def usable(size: int, metadata: str, chunk: int, *, ppl: bool) -> int:
    """Return a lower bound of the data bytes of a member, if it is the first of its array or as large."""
    sectors = size // SECTOR
    if metadata == "0.90":
        left = sectors // 128 * 128 - 128
    elif metadata == "1.0":
        left = sectors // 8 * 8 - 24 - _log(sectors, ppl=ppl)
    else:
        left = sectors - data_offset(sectors, chunk, ppl=ppl)
    return max(0, left) * SECTOR


def raid0_bytes(size: int, chunk: int) -> int:
    """Return what RAID 0 uses of a member. The kernel masks the size as if each chunk were a power of two."""
    whole = size // chunk * chunk
    return (whole // SECTOR & ~(chunk // SECTOR - 1)) * SECTOR


def data_offset(sectors: int, chunk: int, *, ppl: bool) -> int:
    """Return the start of data in sectors. Most of the space is for a reshape. `sectors` is a lower bound."""
    most = sectors + sectors // 64  # a slightly larger member may get twice the space
    headroom = GIB // 8
    while headroom * 1024 > most and headroom > chunk // SECTOR * 2:
        headroom //= 2
    return -(-(24 + _log(most, ppl=ppl) + headroom) // MIB) * MIB


def _log(sectors: int, *, ppl: bool) -> int:
    """Return the sectors for a bitmap (reserved in any case) or for the partial parity log."""
    if ppl:
        return _PPL
    return 256 if sectors >= 200 * GIB else 128 if sectors > 8 * GIB else 8
