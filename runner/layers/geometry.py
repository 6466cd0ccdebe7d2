"""What a device looks like from above: as much of it as the next layer has to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """One block device, or one file system."""

    #: At least so many bytes can be used.
    size: int
    #: So many bytes in a row lie on one disk; None where nothing is striped.
    chunk: int | None = None
    #: Disks that hold data in one full stripe.
    stripes: int = 1
    #: A file system: what stands on it are files.
    files: bool = False
    #: What can be read or written at least.
    sector: int = 512
    #: A disk: whether it has a queue whose depth can be set.
    queued: bool = True

    @property
    def full_stripe(self) -> int | None:
        """What has to be written at once so that no parity is read first and every disk is used."""
        return None if self.chunk is None else self.chunk * self.stripes


@dataclass(frozen=True, slots=True)
class Below:
    """What a layer stands on: devices in their order."""

    devices: tuple[Shape, ...]
    #: What they are called when something is wrong with them: disks, partitions, arrays …
    noun: str = "disks"

    @property
    def count(self) -> int:
        """How many."""
        return len(self.devices)

    @property
    def smallest(self) -> int:
        """What all of them have."""
        return min((device.size for device in self.devices), default=0)

    @property
    def told(self) -> str:
        """How many of what, for a message."""
        counted = f"1 {self.noun.removesuffix('s')} is" if self.count == 1 else f"{self.count} {self.noun} are"
        return f"{counted} {'declared' if self.noun == 'disks' else 'below'}"

    def grouped(self, groups: int) -> tuple[Below, ...]:
        """In so many equal parts, neighbours together."""
        each = self.count // groups
        return tuple(Below(self.devices[at * each : (at + 1) * each], self.noun) for at in range(groups))


def common(devices: tuple[Shape, ...]) -> tuple[int | None, int]:
    """The chunk and stripes of devices joined end to end; none if they differ."""
    kinds = {(device.chunk, device.stripes) for device in devices}
    return kinds.pop() if len(kinds) == 1 else (None, 1)
