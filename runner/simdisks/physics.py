"""The numbers that make a modelled disk what it is. What they do is in `server/physics.c`, and nowhere else."""

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
    """One model: numbers by their names in `struct disk_model` (seconds, bytes, bytes a second); all others are 0."""

    kind: Kind
    numbers: tuple[tuple[str, float], ...] = ()
    #: Of an hdd from the outside in: the share of the disk at which each zone ends, and its rate.
    zones: tuple[tuple[float, float], ...] = ()

    def fields(self, size: int) -> Iterator[tuple[str, float]]:
        """All numbers of a disk of this size."""
        yield "kind", float(KINDS.index(self.kind))
        yield "size", float(size)
        yield from self.numbers

    @property
    def rotation(self) -> int:
        """Rounds a minute as a disk tells them to whoever asks: 1 if nothing turns, 0 if it does not say."""
        numbers = dict(self.numbers)
        if self.kind == "hdd":
            return round(60 / numbers["revolution"])
        return 1 if self.kind == "ssd" else 0

    def slowest(self, length: int) -> float:
        """Seconds that a request of so many bytes takes at most, once everything that makes it quicker is used up."""
        numbers = dict(self.numbers)
        moving = _seconds(length, numbers.get("interface"))
        if self.kind == "hdd":
            rate = min(rate for _, rate in self.zones)
            # A shingled drive may have to read a band and write it anew for every request.
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
        """What tells it from others."""
        return {"kind": self.kind, **dict(self.numbers), **({"zones": self.zones} if self.zones else {})}


def _seconds(length: int, rate: float | None) -> float:
    return length / rate if rate else 0.0
