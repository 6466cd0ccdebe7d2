"""The bottleneck of a trial from its counters, and the balance of its disks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.results.monitor.counters import Processors, Use

#: A device that is busy for this share of the time is saturated.
FULL = 0.9
#: A machine with less idle time than this cannot process more requests.
NO_IDLE = 0.05


@dataclass(frozen=True, slots=True)
class Bus:
    """A link that disks share, and its throughput in bytes per second."""

    name: str
    moved: float
    limit: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """The observations of a trial besides its figures."""

    seconds: float  # run time of fio
    disks: tuple[Use, ...]
    processors: Processors | None
    fio: float  # mean share of a processor that a job of fio used
    in_flight: int | None  # most requests that the workload keeps in flight; None: the kernel's cache decides
    buses: tuple[Bus, ...] = ()
    host_limited: str = ""  # how far the trial was host-limited


def evenness(disks: Sequence[Use], spares: int = 0) -> float | None:
    """Return the bytes of the least used disk relative to the most used one; None without I/O, or for one disk.

    The least used `spares` disks do not count.
    """
    moved = sorted(disk.moved for disk in disks)[spares:]
    return moved[0] / moved[-1] if len(moved) > 1 and moved[-1] else None


def bottleneck(found: Evidence) -> str:
    """Return the bottleneck with its evidence. The first match wins, from certain limits to possible ones."""
    # Counters begin slightly before fio and end slightly after.
    busy = {disk.device: min(1.0, disk.busy / found.seconds) for disk in found.disks} if found.seconds else {}
    if found.host_limited:
        return f"host: too slow for its simulated disks, {found.host_limited}"
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
        return "unclear: there are no counters of its disks"
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
