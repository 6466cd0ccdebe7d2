"""A simulated disk: its size, bus, link, physics and faults. `server/physics.c` implements the physics."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Literal

Kind = Literal["ideal", "hdd", "ssd", "volume"]
#: In the order of the constants in physics.h.
KINDS: tuple[Kind, ...] = ("ideal", "hdd", "ssd", "volume")


#: Of a full seek, as seek times grow with the root of the distance: the mean between two random places.
_MEAN_SEEK = 8 / 15
#: So a queue shortens the way: measured, 16 requests make it less than half.
_QUEUED = 0.3

#: Of the spare flash: three blocks are open or clean, and there are at least eight.
_USABLE = 5 / 8


@dataclass(frozen=True, slots=True)
class Physics:
    """One model: parameters by their names in `struct disk_model` (seconds, bytes, bytes per second); others are 0."""

    kind: Kind
    numbers: tuple[tuple[str, float], ...] = ()
    #: Zones of a hdd, from the outside in: the share of the disk at which each ends, and its rate.
    zones: tuple[tuple[float, float], ...] = ()

    def fields(self, size: int) -> Iterator[tuple[str, float]]:
        yield "kind", float(KINDS.index(self.kind))
        yield "size", float(size)
        yield from self.numbers

    @property
    def rotation(self) -> int:
        numbers = dict(self.numbers)
        if self.kind == "hdd":
            return round(60 / numbers["revolution"])
        return 1 if self.kind == "ssd" else 0

    @property
    def ages(self) -> bool:
        """Return whether earlier writes slow later ones down, until they are trimmed."""
        return dict(self.numbers).get("spare", 0.0) > 0

    @property
    def cache(self) -> int:
        """Return the bytes of data that its cache can hold."""
        numbers = dict(self.numbers)
        return int(numbers.get("read_ahead", 0.0) * numbers.get("segments", 0.0) + numbers.get("write_cache", 0.0))

    def slowest(self, length: int) -> float:
        """Return the longest time of a request of this length, in seconds, once caches and credits are used up."""
        numbers = dict(self.numbers)
        moving = _seconds(length, numbers.get("interface"))
        if self.kind == "hdd":
            rate = min(rate for _, rate in self.zones)
            # A shingled drive may have to read and rewrite a band for every request.
            moving += (length + 2 * numbers.get("band", 0)) / rate
            return numbers["seek_full"] + 2 * numbers["revolution"] + moving
        if self.kind == "volume":
            counted = max(1.0, length / numbers["io_size"])
            return counted / numbers["iops"] + numbers["latency"] + _seconds(length, numbers["bandwidth"]) + moving
        if self.kind == "ssd":
            rate = min(filter(None, (numbers["read_rate"], numbers["write_rate"], numbers.get("cliff_rate"))))
            copied = self._copied(length) * (1 / numbers["read_rate"] + 1 / numbers["write_rate"])
            longest = max(numbers["read_latency"], numbers["write_latency"], numbers.get("flush", 0.0))
            emptied = numbers["cliff"] / numbers["cliff_rate"] if numbers.get("cliff_stops") else 0.0
            sent = max(numbers.get("overhead", 0.0), numbers.get("write_overhead", 0.0))
            return max(longest + length / rate + copied + emptied, sent) + moving
        return moving

    def rate(self, length: int, *, random: bool, write: bool, depth: float = 1.0) -> float:
        """Estimate bytes a second over the whole disk, by a formula for plans; `predict` runs the physics itself."""
        numbers = dict(self.numbers)
        sending = _seconds(length, numbers.get("interface"))
        command = numbers.get("overhead", 0.0) + sending
        if self.kind == "hdd":
            platter = self._platter(length, depth=numbers["window"] if write else depth, random=random)
            return length / (numbers.get("overhead", 0.0) + max(platter, sending))
        if self.kind == "volume":
            each = max(1.0, length / numbers["io_size"]) / max(numbers["iops"], numbers["burst_iops"])
            each = max(each, _seconds(length, numbers["bandwidth"]))
            return length / max(each, (numbers["latency"] + each) / depth)
        if self.kind == "ssd":
            side = "write" if write else "read"
            if write and "write_overhead" in numbers:
                command = numbers["write_overhead"] + sending
            bandwidth = numbers.get("cliff_rate", 0.0) if write else 0.0
            moving = length / (bandwidth or numbers[f"{side}_rate"])
            if write and random and self.ages:
                moving += length / (2 * numbers["spare"]) * (1 / numbers["read_rate"] + 1 / numbers["write_rate"])
            busy = numbers[f"{side}_latency"] / min(depth, numbers["channels"])
            return length / max(command, moving, busy)
        return length / command if command else inf

    def _platter(self, length: int, *, depth: float, random: bool) -> float:
        numbers, begin, moving = dict(self.numbers), 0.0, 0.0
        for end, rate in self.zones:
            moving += (end - begin) * length / rate
            begin = end
        if not random:
            return moving
        seek = numbers["seek_track"] + (numbers["seek_full"] - numbers["seek_track"]) * _MEAN_SEEK
        nearness: float = min(max(depth, 1.0), numbers["window"]) ** _QUEUED
        return moving + (seek + numbers["revolution"] / 2) / nearness

    def _copied(self, length: int) -> float:
        """Return the most bytes that an ageing SSD copies for a write, at the moment when it needs a clean block."""
        numbers = dict(self.numbers)
        if not self.ages:
            return 0.0
        return numbers["block"] + (numbers["block"] + length + 2 * numbers["page"]) / (_USABLE * numbers["spare"])

    @property
    def characteristics(self) -> dict[str, object]:
        """Return its content without the phase of the platter, which is random."""
        return {name: value for name, value in self.content().items() if name != "phase"}

    def content(self) -> dict[str, object]:
        return {"kind": self.kind, **dict(self.numbers), **({"zones": self.zones} if self.zones else {})}


def _seconds(length: int, rate: float | None) -> float:
    return length / rate if rate else 0.0


Bus = Literal["virtio", "scsi", "sata", "nvme"]


@dataclass(frozen=True, slots=True)
class Disk:
    size: int
    bus: Bus = "virtio"
    physics: Physics | None = None  # None: as fast as the host's memory and disk
    link: "Link | None" = None  # the shared link to the host; None: it has its own
    #: How many times slower than real time it works, with all that is around it; the same for all disks of a rig.
    slow: int = 1
    model: str = field(default="", compare=False)  # the name of its model, for people
    fitted_to: str = field(default="", compare=False)  # the measurements to which its model is fitted
    group: str = field(default="", compare=False)  # the name of its group in `disks:`


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    rate: float


def slow_of(disks: Iterable[Disk]) -> int:
    return max((disk.slow for disk in disks), default=1)


def links_of(disks: Iterable[Disk]) -> tuple[Link, ...]:
    return tuple(dict.fromkeys(disk.link for disk in disks if disk.link))


FaultKind = Literal["dies", "slow", "stalls", "medium", "corrupt"]


@dataclass(frozen=True, slots=True)
class Fault:
    disk: int
    kind: FaultKind
    at: float  # seconds: in a declaration since the workload began, on a rig since the rig started
    seconds: float | None = None
    factor: float = 1.0
    #: The range of bytes that cannot be read until they are written again, or that are read wrong.
    where: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.kind == "stalls" and self.seconds is None:
            raise ValueError("a disk that stalls needs an end; a disk that never answers again has the fault `dies`")

    def __str__(self) -> str:
        what = {
            "dies": "dies",
            "slow": f"is {self.factor:g} times slower",
            "stalls": "stalls",
            "medium": f"cannot be read from {self.where[0]} to {self.where[1]}",
            "corrupt": f"is read wrong from {self.where[0]} to {self.where[1]}",
        }[self.kind]
        lasting = "" if self.seconds is None else f" for {self.seconds:g} s"
        return f"disk {self.disk} {what} at {self.at:g} s{lasting}"

    def content(self) -> list[object]:
        return [self.disk, self.kind, self.at, self.seconds, self.factor, *self.where]
