"""The parameters of a disk model; `server/physics.c` alone implements them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["ideal", "hdd", "ssd", "volume"]
#: In the order of the constants in physics.h.
KINDS: tuple[Kind, ...] = ("ideal", "hdd", "ssd", "volume")


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
        """The rotation rate that the disk reports: revolutions per minute; 1 if it does not rotate, 0 if unknown."""
        numbers = dict(self.numbers)
        if self.kind == "hdd":
            return round(60 / numbers["revolution"])
        return 1 if self.kind == "ssd" else 0

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
            return max(numbers["read_latency"], numbers["write_latency"]) + length / rate + moving
        return moving

    def content(self) -> dict[str, object]:
        return {"kind": self.kind, **dict(self.numbers), **({"zones": self.zones} if self.zones else {})}


def _seconds(length: int, rate: float | None) -> float:
    return length / rate if rate else 0.0
