"""The shape of a device as the next layer sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """One block device, or one file system."""

    #: Usable bytes; a lower bound.
    size: int
    #: Bytes in a row on one disk; None without striping.
    chunk: int | None = None
    #: Disks with data in one full stripe.
    stripes: int = 1
    #: It is a file system: the layer above gets files.
    files: bool = False
    #: The smallest read or write.
    sector: int = 512
    #: A disk: its queue depth can be set.
    queued: bool = True

    @property
    def full_stripe(self) -> int | None:
        """Return the bytes of a write that uses every disk and needs no read of parity."""
        return None if self.chunk is None else self.chunk * self.stripes


@dataclass(frozen=True, slots=True)
class Below:
    """The devices below a layer, in order."""

    devices: tuple[Shape, ...]
    #: What a message calls them: disks, partitions, arrays …
    noun: str = "disks"

    @property
    def count(self) -> int:
        return len(self.devices)

    @property
    def smallest(self) -> int:
        """Return the size of the smallest device."""
        return min((device.size for device in self.devices), default=0)

    @property
    def description(self) -> str:
        counted = f"1 {self.noun.removesuffix('s')} is" if self.count == 1 else f"{self.count} {self.noun} are"
        return f"{counted} {'declared' if self.noun == 'disks' else 'below'}"

    def grouped(self, groups: int) -> tuple[Below, ...]:
        """Split the devices into equal groups of neighbours."""
        each = self.count // groups
        return tuple(Below(self.devices[at * each : (at + 1) * each], self.noun) for at in range(groups))


def common(devices: tuple[Shape, ...]) -> tuple[int | None, int]:
    """Return chunk and stripes of devices joined end to end, or no striping if they differ."""
    kinds = {(device.chunk, device.stripes) for device in devices}
    return kinds.pop() if len(kinds) == 1 else (None, 1)
