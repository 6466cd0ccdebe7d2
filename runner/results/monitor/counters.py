"""What the kernel counted while fio ran: of every block device, and of the processors; and what memory held.

The script that measures tells `/proc/diskstats`, `/proc/stat` and `/proc/meminfo` before and after fio, behind a line
with the word `counted`, which of both it is, and the time, and before a line with that word alone. It is a few reads
and no process, so it is done beside every trial.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.results.record import Reading

_WORD, _BEFORE, _AFTER = "counted", "before", "after"
#: How `/proc/diskstats` counts bytes, whatever a device's blocks are.
_SECTOR = 512
#: Of the first line of `/proc/stat`, in its order; what guests got is in `user` already.
KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
#: What a read-back calls the kernel's name of a device.
NODE = ".node"


@dataclass(frozen=True, slots=True)
class Use:
    """What one device of the stack did. Seconds are summed over requests, except `busy`."""

    device: str  # as readings call it: `disk0`, `md`, `lvm[2]`
    node: str  # as the kernel does
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    waited: float  # s that reads and writes took
    queued: float  # s: requests under way, integrated over time
    busy: float  # s in which there was at least one under way

    @property
    def moved(self) -> int:
        """Bytes, either way."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True)
class Processors:
    """What all processors of the machine did from before fio was started until after it ended."""

    seconds: float
    shares: Mapping[str, float]  # by KINDS; they add up to 1
    interrupts: int
    switches: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What memory held at a moment, in bytes."""

    available: int  # could be had without swapping
    dirty: int  # waited to be written out
    writeback: int  # was being written out


@dataclass(frozen=True, slots=True)
class Counted:
    """Lines of these files, and when they were read."""

    clock: float
    disks: Mapping[str, tuple[int, ...]]
    stat: Mapping[str, tuple[int, ...]]
    meminfo: Mapping[str, int] = field(default_factory=dict)  # KiB

    @property
    def memory(self) -> Memory | None:
        """What memory held; None where a template of the user's own does not tell."""
        told = [self.meminfo.get(name) for name in ("MemAvailable:", "Dirty:", "Writeback:")]
        known = [1024 * one for one in told if one is not None]
        return Memory(*known) if len(known) == len(told) else None


def split(output: str) -> tuple[str, Counted | None, Counted | None]:
    """What a measurement said beside its counters; and these, before and after. None: there are none, or not all."""
    rest, found, heard = list[str](), dict[str, Counted | None](), list[str]()
    when = clock = ""
    for line in output.splitlines(keepends=True):
        words = line.split(maxsplit=3)
        if not when and words[:1] == [_WORD] and len(words) == 3:
            _, when, clock = words
            heard = []
        elif when and words == [_WORD]:
            found[when] = _read(clock, heard)
            when = ""
        else:
            (heard if when else rest).append(line)
    return "".join((*rest, *(heard if when else ()))), found.get(_BEFORE), found.get(_AFTER)


def _read(clock: str, lines: Sequence[str]) -> Counted | None:
    disks, stat, meminfo = dict[str, tuple[int, ...]](), dict[str, tuple[int, ...]](), dict[str, int]()
    try:
        when = float(clock.replace(",", "."))
        for line in lines:
            words = line.split()
            if words[0].isdigit():
                disks[words[2]] = tuple(int(word) for word in words[3:])
            elif words[0].endswith(":"):
                meminfo[words[0]] = int(words[1])
            else:
                stat[words[0]] = tuple(int(word) for word in words[1:])
    except (ValueError, IndexError):
        return None  # cut short, as the output of a machine that died
    return Counted(when, disks, stat, meminfo) if "cpu" in stat else None


def used(before: Counted, after: Counted, readings: Sequence[Reading]) -> tuple[Use, ...]:
    """What the devices of a stack did in between. The readings tell which these are."""
    nodes = [(one.setting.removesuffix(NODE), one.got) for one in readings if one.setting.endswith(NODE)]
    return tuple(
        _use(device, node, before.disks[node], after.disks[node])
        for device, node in nodes
        if node in before.disks and node in after.disks
    )


def _use(device: str, node: str, before: Sequence[int], after: Sequence[int]) -> Use:
    # Fields as the kernel's Documentation/admin-guide/iostats.rst numbers them, from 0 here.
    done = [late - early for early, late in zip(before, after, strict=False)]
    return Use(
        device,
        node,
        reads=done[0],
        writes=done[4],
        read_bytes=done[2] * _SECTOR,
        written_bytes=done[6] * _SECTOR,
        waited=(done[3] + done[7]) / 1000,
        queued=done[10] / 1000,
        busy=done[9] / 1000,
    )


def processors(before: Counted, after: Counted) -> Processors:
    """What the processors did in between."""
    ticks = [late - early for early, late in zip(before.stat["cpu"], after.stat["cpu"], strict=True)][: len(KINDS)]
    total = sum(ticks) or 1
    shares = {kind: tick / total for kind, tick in zip(KINDS, ticks, strict=False)}
    once = {word: after.stat.get(word, (0,))[0] - before.stat.get(word, (0,))[0] for word in ("intr", "ctxt")}
    return Processors(after.clock - before.clock, shares, once["intr"], once["ctxt"])
