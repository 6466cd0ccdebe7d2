"""Kernel counters during a trial: of devices, processors and memory; and the bottleneck that they show. Pure."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from matrix_runner.base.findings import join
from matrix_runner.base.text import lines_of
from matrix_runner.records.record import Reading
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import Disk
from matrix_runner.work.fio.output import Figures, csv_text
from matrix_runner.work.metrics import DECIMALS
from matrix_runner.work.workload import Workload

_WORD, _BEFORE, _AFTER = "counted", "before", "after"
_SECTOR = 512  # the unit of `/proc/diskstats` in bytes, for any block size of a device
#: Columns of the first line of `/proc/stat`, in order. `user` includes guests.
KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NODE = ".node"  # the reading with the kernel's name of a device


@dataclass(frozen=True, slots=True)
class Use:
    device: str  # its name in readings: `disk0`, `md`, `lvm[2]`
    node: str  # its name in the kernel
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    waited: float  # s of reads and writes
    queued: float  # s: requests in flight, integrated over time
    busy: float  # s with at least one request in flight

    @property
    def moved(self) -> int:
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True)
class Processors:
    seconds: float
    shares: Mapping[str, float]  # by KINDS; the sum is 1
    interrupts: int
    switches: int
    ticks: int = 0  # of all processors together
    busiest: float = 0.0  # the share of the time in which the busiest processor worked
    ipis: int | None = None  # interrupts from processor to processor; None if they were not counted


@dataclass(frozen=True, slots=True)
class Memory:
    available: int  # available without swapping
    dirty: int  # waiting for write-back
    writeback: int  # under write-back


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    clock: float
    disks: Mapping[str, tuple[int, ...]]
    stat: Mapping[str, tuple[int, ...]]
    meminfo: Mapping[str, int] = field(default_factory=dict)  # KiB

    @property
    def memory(self) -> Memory | None:
        """Return the use of memory; None if a user's template does not print it."""
        try:
            return Memory(*(1024 * self.meminfo[name] for name in ("MemAvailable:", "Dirty:", "Writeback:")))
        except KeyError:
            return None


def split_counters(output: str) -> tuple[str, CounterSnapshot | None, CounterSnapshot | None]:
    rest, found, block = list[str](), dict[str, CounterSnapshot | None](), list[str]()
    when = clock = ""
    for line in lines_of(output, keepends=True):
        words = line.split(maxsplit=3)
        if not when and words[:1] == [_WORD] and len(words) == 3:
            _, when, clock = words
            block = []
        elif when and words == [_WORD]:
            found[when] = _read(clock, block)
            when = ""
        else:
            (block if when else rest).append(line)
    return "".join((*rest, *(block if when else ()))), found.get(_BEFORE), found.get(_AFTER)


def _read(clock: str, lines: Sequence[str]) -> CounterSnapshot | None:
    disks, stat, meminfo = dict[str, tuple[int, ...]](), dict[str, tuple[int, ...]](), dict[str, int]()
    try:
        when = _number(clock.replace(",", "."))
        for line in lines:
            words = line.split()
            if words[0].isdigit():
                disks[words[2]] = _counts(words[3:], _LEAST)
            elif words[0].endswith(":"):
                (meminfo[words[0]],) = _counts(words[1:2], 1)
            else:
                stat[words[0]] = _counts(words[1:], len(KINDS) if words[0] == "cpu" else 1)
    except (ValueError, IndexError):
        return None  # cut short, because the machine died, or not as a kernel writes it
    return CounterSnapshot(when, _with_paths(disks), stat, meminfo) if "cpu" in stat else None


_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")


def _with_paths(disks: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    """Add the counters of NVMe disks that can have several paths: kernels such as 6.1 count only on these."""
    paths = defaultdict[str, list[tuple[int, ...]]](list)
    for name, counts in disks.items():
        if found := _PATH.fullmatch(name):
            paths["".join(found.groups())].append(counts)
    silent = {name: counts for name, counts in paths.items() if name in disks and not any(disks[name])}
    return {**disks, **{name: tuple(map(sum, zip(*counts, strict=False))) for name, counts in silent.items()}}


_LEAST = 11  # counters of a disk, since Linux 2.6


def _counts(words: Sequence[str], least: int) -> tuple[int, ...]:
    numbers = tuple(map(int, words))
    if len(numbers) < least or not all(0 <= number < 1 << 64 for number in numbers):
        raise ValueError("not the counters of a kernel")
    return numbers


def _number(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e12:
        raise ValueError("not a clock")
    return seconds


def device_use(
    before: CounterSnapshot, after: CounterSnapshot, readings: Sequence[Reading], slow: int = 1
) -> tuple[Use, ...]:
    nodes = [(one.setting.removesuffix(NODE), one.got) for one in readings if one.setting.endswith(NODE)]
    return tuple(
        _use(device, node, before.disks[node], after.disks[node], slow)
        for device, node in nodes
        if node in before.disks and node in after.disks and not _began_again(before.disks[node], after.disks[node])
    )


def _began_again(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether requests or sectors fell, as for a disk that was away for a while."""
    return any(after[at] < before[at] for at in (0, 2, 4, 6))


def _use(device: str, node: str, before: Sequence[int], after: Sequence[int], slow: int) -> Use:
    # Fields in the order of the kernel's Documentation/admin-guide/iostats.rst, from 0.
    done = [late - early for early, late in zip(before, after, strict=False)]
    return Use(
        device,
        node,
        reads=done[0],
        writes=done[4],
        read_bytes=done[2] * _SECTOR,
        written_bytes=done[6] * _SECTOR,
        waited=(done[3] % _WRAP + done[7] % _WRAP) / 1000 / slow,
        queued=done[10] % _WRAP / 1000 / slow,
        busy=done[9] % _WRAP / 1000 / slow,
    )


_WRAP = 1 << 32  # of milliseconds; the other counters have 64 bits


def processor_use(before: CounterSnapshot, after: CounterSnapshot, slow: int = 1) -> Processors:
    # `iowait` may fall: a task that waits belongs to no processor. See proc(5).
    stats = zip(KINDS, before.stat["cpu"], after.stat["cpu"], strict=False)
    ticks = {kind: max(0, late - early) for kind, early, late in stats}
    total = sum(ticks.values()) or 1
    shares = {kind: tick / total for kind, tick in ticks.items()}
    each = [name for name in before.stat if re.fullmatch(r"cpu\d+", name) and name in after.stat]
    busiest = max((_busy(before.stat[name], after.stat[name]) for name in each), default=0.0)
    once = {word: max(0, after.stat.get(word, (0,))[0] - before.stat.get(word, (0,))[0]) for word in ("intr", "ctxt")}
    ipis = after.stat["ipis"][0] - before.stat["ipis"][0] if "ipis" in before.stat.keys() & after.stat else None
    return Processors((after.clock - before.clock) / slow, shares, once["intr"], once["ctxt"], total, busiest, ipis)


def _busy(before: Sequence[int], after: Sequence[int]) -> float:
    ticks = dict(zip(KINDS, (max(0, late - early) for early, late in zip(before, after, strict=False)), strict=False))
    whole = sum(ticks.values())
    return 1 - (ticks["idle"] + ticks["iowait"] + ticks["steal"]) / whole if whole and len(ticks) == len(KINDS) else 0.0


_FEW = 8  # QEMU sends at most 16 requests at a time to a disk; a burst of 15 has this mean
FULL = 0.9  # a device that is busy for this share of the time is saturated
_ALL = 0.995  # a share that is 100 % without decimals
NO_IDLE = 0.05  # a machine with less idle time than this cannot process more requests


@dataclass(frozen=True, slots=True)
class Bus:
    name: str
    moved: float
    limit: float


def evenness(disks: Sequence[Use], spares: int = 0) -> float | None:
    """Return the bytes of the least used disk (without spares) as a part of those of the most used; None: unknown."""
    moved = sorted(disk.moved for disk in disks)[spares:]
    return moved[0] / moved[-1] if len(moved) > 1 and moved[-1] else None


def _how_long(share: float, least: str = "") -> str:
    return "all the time" if share >= _ALL else f"for {least}{share:.0%} of the time"


@dataclass(frozen=True, slots=True)
class TrialUse:
    devices: tuple[Use, ...]
    processors: Processors
    seconds: float
    memory: tuple[Memory | None, Memory | None] = (None, None)  # before and after; None if the script did not print it

    @property
    def disks(self) -> tuple[Use, ...]:
        return tuple(one for one in self.devices if one.device.startswith("disk"))

    def files(self) -> dict[str, str]:
        whole = self.processors
        shares = [f"{whole.shares.get(kind, 0):.4f}" for kind in KINDS]
        files = {
            "devices.csv": _devices(self.devices, self.seconds),
            "processors.csv": csv_text(
                ("seconds", *KINDS, "interrupts", "context_switches"),
                [(f"{whole.seconds:.3f}", *shares, whole.interrupts, whole.switches)],
            ),
        }
        memory = zip(("before", "after"), self.memory, strict=True)
        if rows := [(when, one.available, one.dirty, one.writeback) for when, one in memory if one]:
            files["memory.csv"] = csv_text(("when", "available", "dirty", "writeback"), rows)
        return files


def observe_use(
    before: CounterSnapshot | None,
    after: CounterSnapshot | None,
    readings: Sequence[Reading],
    figures: Figures | None,
    work: Workload,
    slow: int = 1,
) -> TrialUse | None:
    """Return the use of devices, processors and memory. In slow motion its seconds are those of the disks."""
    if before is None or after is None:
        return None
    at_work = figures.runtime + work.ramp if figures else (after.clock - before.clock) / slow
    memory = (before.memory, after.memory)
    return TrialUse(device_use(before, after, readings, slow), processor_use(before, after, slow), at_work, memory)


def count_cache_flushes(beside: TrialUse, done: Sequence[Report]) -> TrialUse:
    """Count a disk as busy while it writes back its own cache, which the kernel cannot see."""
    media = {f"disk{number}": report.busy for number, report in enumerate(done)}
    devices = (replace(one, busy=max(one.busy, media.get(one.device, 0.0))) for one in beside.devices)
    return replace(beside, devices=tuple(devices))


def transit_share(beside: TrialUse, done: Sequence[Report], *, direct: bool) -> float:
    """Return the share of the time of requests between the kernel and the simulated disks.

    If a disk is always busy, or has many requests at a time, they also wait in the queues of the kernel and of QEMU.
    Buffered writes wait there by themselves, so what counts is the time in which the kernel had any, and a disk none.
    """
    if any(report.occupied >= FULL * beside.seconds for report in done):
        return 0.0
    reports = {f"disk{number}": report for number, report in enumerate(done)}
    known = [(use, reports[use.device]) for use in beside.disks if use.device in reports]
    waited, busy = sum(use.waited for use, _ in known), sum(use.busy for use, _ in known)
    if not waited or (direct and waited > _FEW * busy):
        return 0.0
    if direct:
        return max(0.0, 1 - sum(report.owed + report.late for _, report in known) / waited)
    return max(0.0, 1 - sum(report.occupied for _, report in known) / min(waited, busy)) if busy else 0.0


_TICK = 0.01  # seconds of a tick of `/proc/stat`, on every Linux


def lost_to_others(beside: TrialUse, figures: Figures, work: Workload) -> tuple[float, float]:
    """Return the shares of the processors that other programs and other virtual machines used; 0 if some were idle.

    The kernel's own work may be that of the stack, so only time in user mode counts.
    """
    shares = beside.processors.shares
    if work.job_names or shares.get("idle", 1.0) + shares.get("iowait", 0.0) >= NO_IDLE:
        return 0.0, 0.0
    own = figures.cpu_usr / 100 * work.numjobs * beside.seconds / _TICK / max(1, beside.processors.ticks)
    programs = shares.get("user", 0.0) + shares.get("nice", 0.0) - own
    return max(0.0, programs), shares.get("steal", 0.0)


def shares_of(beside: TrialUse, spares: int, slow: int = 1) -> dict[str, float]:
    """Return shares of a trial. In slow motion processors wait longer for each request: their waiting is left out."""
    waiting = beside.processors.shares.get("iowait", 0.0) if slow == 1 else None
    shares = {"evenness": evenness(beside.disks, spares), "iowait": waiting}
    return {name: round(share, DECIMALS[name]) for name, share in shares.items() if share is not None}


def cost_of_a_request(
    beside: TrialUse, figures: Figures, work: Workload, slow: int, host: float | None = None
) -> dict[str, float]:
    """Return what a request costs: processor time of the kernel and of fio's jobs in ns, context switches, and IPIs.

    Other time in user mode is left out: the start of fio takes longer than many short trials. `host`: how many
    processors of the host beneath worked for the machine, on average.
    """
    requests, shares = figures.total_iops * beside.seconds, beside.processors.shares
    of_kernel = sum(shares.get(kind, 0.0) for kind in ("system", "irq", "softirq")) * beside.processors.ticks * _TICK
    of_fio = figures.cpu_usr / 100 * work.numjobs * beside.seconds * slow
    if not requests or work.job_names:
        return {}
    counted = {"switches_per_io": beside.processors.switches, "ipis_per_io": beside.processors.ipis}
    of_each = {name: round(count / requests, DECIMALS[name]) for name, count in counted.items() if count is not None}
    of_host = {} if host is None else {"host_cpu_per_io": round(host * slow / figures.total_iops * 1e9)}
    return {"cpu_per_io": round((of_kernel + of_fio) / requests * 1e9), **of_each, **of_host}


def find_bottleneck(beside: TrialUse, figures: Figures, work: Workload, buses: tuple[Bus, ...], overload: str) -> str:
    """Return the bottleneck with its evidence. The first match wins, from certain limits to possible ones.

    `overload`: the bottleneck of a trial whose host, or its emulated processors, could not keep up with its disks.
    """
    # Counters begin slightly before fio and end slightly after.
    busy = {disk.device: min(1.0, disk.busy / beside.seconds) for disk in beside.disks} if beside.seconds else {}
    of_fio, shares = (figures.cpu_usr + figures.cpu_sys) / 100, beside.processors.shares
    if overload:
        return overload
    if full := next((bus for bus in buses if bus.moved >= FULL * bus.limit), None):
        return f"bus {full.name}: {full.moved / 1e6:.4g} of {full.limit / 1e6:.4g} MB/s"
    if busy and min(busy.values()) >= FULL:
        return f"disks: each busy {_how_long(min(busy.values()), 'at least ')}"
    if busy and max(busy.values()) >= FULL:
        full_disks = {name: share for name, share in busy.items() if share >= FULL}
        rest = max(share for share in busy.values() if share < FULL)
        least = min(full_disks.values())
        return f"{join(full_disks)}: busy {_how_long(least)}, no other disk for more than {rest:.0%}"
    if of_fio >= FULL:  # each job's mean share of a processor
        return f"processor: each of fio's jobs used {min(of_fio, 1):.0%} of one"
    if shares["idle"] + shares["iowait"] < NO_IDLE:
        return f"processor: idle for {shares['idle']:.0%} of the time"
    if not busy:
        return "unclear: there are no counters of its disks"
    most = f"the busiest disk was so for {max(busy.values()):.0%} of the time"
    if work.in_flight is not None:  # else the kernel's cache decides
        return f"queue depth: at most {work.in_flight} under way, and {most}"
    return f"unclear: {most}"


def buses(declared: Sequence[Disk], done: Sequence[Report], seconds: float) -> tuple[Bus, ...]:
    moved: dict[tuple[str, float], float] = defaultdict(float)
    for disk, report in zip(declared, done, strict=False):
        if disk.link and seconds:
            moved[disk.link.name, disk.link.rate] += (report.read_bytes + report.written_bytes) / seconds
    return tuple(Bus(name, rate, limit) for (name, limit), rate in moved.items())


def _devices(devices: Sequence[Use], seconds: float) -> str:
    rows = [
        (
            *(one.device, one.node, one.reads, one.writes, one.read_bytes, one.written_bytes),
            f"{one.waited / max(1, one.reads + one.writes):.6g}",
            *(f"{total / seconds if seconds else 0:.4g}" for total in (one.queued, one.busy)),
        )
        for one in devices
    ]
    head = ("device", "node", "reads", "writes", "read_bytes", "written_bytes", "await", "queue", "utilisation")
    return csv_text(head, rows)
