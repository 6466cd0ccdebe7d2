"""The shape of a device as the next layer sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
    #: How many disks may fail, whichever they are, before its data is lost; None if unknown.
    losses: int | None = 0

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
    #: The layer that selected them from more; empty without one.
    selected_by: str = ""

    @property
    def count(self) -> int:
        return len(self.devices)

    @property
    def smallest(self) -> int:
        """Return the size of the smallest device."""
        return min((device.size for device in self.devices), default=0)

    @property
    def description(self) -> str:
        counted = f"1 {self.noun.removesuffix('s')}" if self.count == 1 else f"{self.count} {self.noun}"
        if self.selected_by:
            return f"`{self.selected_by}` selects {counted}"
        are = "is" if self.count == 1 else "are"
        return f"{counted} {are} {'declared' if self.noun == 'disks' else 'below'}"

    def grouped(self, groups: int) -> tuple[Below, ...]:
        """Split the devices into equal groups of neighbours."""
        each = self.count // groups
        return tuple(replace(self, devices=self.devices[at * each : (at + 1) * each]) for at in range(groups))


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
