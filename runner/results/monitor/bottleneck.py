"""Where a trial's bottleneck sat, as far as what was counted can tell; and how evenly its disks were used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.results.monitor.counters import Processors, Use

#: A thing that is at work for so much of the time has nothing left to give.
FULL = 0.9
#: A machine whose processors idle less than this has none left over for more requests.
NO_IDLE = 0.05


@dataclass(frozen=True, slots=True)
class Bus:
    """A link that disks share, and what moved over it, in bytes a second."""

    name: str
    moved: float
    limit: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a trial, beside what it measured."""

    seconds: float  # for which fio was at work
    disks: tuple[Use, ...]
    processors: Processors | None
    fio: float  # share of a processor that fio's jobs used, each
    in_flight: int | None  # most requests that the workload keeps under way; None: the kernel's cache decides
    buses: tuple[Bus, ...] = ()
    strained: str = ""  # by how much the host could not keep up with modelled disks


def evenness(disks: Sequence[Use], spares: int = 0) -> float | None:
    """Bytes of the least used disk as a part of those of the most used; None where nothing was moved, or by one disk.

    `spares`: so many disks have no part in it.
    """
    moved = sorted(disk.moved for disk in disks)[spares:]
    return moved[0] / moved[-1] if len(moved) > 1 and moved[-1] else None


def bottleneck(found: Evidence) -> str:
    """What held the work back, and what says so. The first that fits, from what surely limits to what may."""
    # What is counted begins a little before fio is at work and ends a little after.
    busy = {disk.device: min(1.0, disk.busy / found.seconds) for disk in found.disks} if found.seconds else {}
    if found.strained:
        return f"host: it could not keep up with the disks, {found.strained}"
    if full := next((bus for bus in found.buses if bus.moved >= FULL * bus.limit), None):
        return f"bus {full.name}: {full.moved / 1e6:.4g} of {full.limit / 1e6:.4g} MB/s"
    if busy and min(busy.values()) >= FULL:
        return f"disks: each busy for at least {min(busy.values()):.0%} of the time"
    if busy and max(busy.values()) >= FULL:
        return _some_disks(busy)
    if found.fio >= FULL:
        return f"processor: each of fio's jobs used {min(found.fio, 1):.0%} of one"
    if found.processors and found.processors.shares["idle"] + found.processors.shares["iowait"] < NO_IDLE:
        return f"processor: idle for {found.processors.shares['idle']:.0%} of the time"
    if not busy:
        return "unclear: nothing was counted of its disks"
    most = f"the busiest disk was so for {max(busy.values()):.0%} of the time"
    if found.in_flight is not None:
        return f"queue depth: at most {found.in_flight} under way, and {most}"
    return f"unclear: {most}"


def _some_disks(busy: dict[str, float]) -> str:
    full = [name for name, share in busy.items() if share >= FULL]
    rest = max(share for share in busy.values() if share < FULL)
    least = min(busy[name] for name in full)
    return f"{_words(full)}: busy for {least:.0%} of the time, no other disk for more than {rest:.0%}"


def _words(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
