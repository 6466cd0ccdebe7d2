"""Counters of a trial as files of its folder and as notes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.language.metrics import DECIMALS
from runner.results.counters import KINDS, Bus, Evidence, Use, bottleneck, device_use, evenness, processor_use
from runner.results.fio_output import Figures, csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.language.workload import Workload
    from runner.results.counters import CounterSnapshot, Memory, Processors
    from runner.results.record import Reading
    from runner.simdisks.clib import Report
    from runner.simdisks.disk import Disk


@dataclass(frozen=True, slots=True)
class TrialUse:
    """The use of devices and processors during a trial. `seconds` is the run time of fio."""

    devices: tuple[Use, ...]
    processors: Processors
    seconds: float
    #: Before and after; None if the script did not print it.
    memory: tuple[Memory | None, Memory | None] = (None, None)

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
) -> TrialUse | None:
    if before is None or after is None:
        return None
    at_work = figures.runtime + work.ramp if figures else after.clock - before.clock
    memory = (before.memory, after.memory)
    return TrialUse(device_use(before, after, readings), processor_use(before, after), at_work, memory)


def count_cache_flushes(beside: TrialUse, done: Sequence[Report]) -> TrialUse:
    """Count a disk as busy while it writes back its own cache, which the kernel cannot see."""
    media = {f"disk{number}": report.busy for number, report in enumerate(done)}
    devices = (replace(one, busy=max(one.busy, media.get(one.device, 0.0))) for one in beside.devices)
    return replace(beside, devices=tuple(devices))


def notes(
    beside: TrialUse, figures: Figures, work: Workload, spares: int, buses: tuple[Bus, ...], host_limited: str
) -> dict[str, str]:
    found = bottleneck(
        Evidence(
            seconds=beside.seconds,
            disks=beside.disks,
            processors=beside.processors,
            fio=(figures.cpu_usr + figures.cpu_sys) / 100,
            in_flight=in_flight(work),
            buses=buses,
            host_limited=host_limited,
        )
    )
    shares = {"evenness": evenness(beside.disks, spares), "iowait": beside.processors.shares.get("iowait", 0.0)}
    written = {name: f"{share:.{DECIMALS[name]}f}" for name, share in shares.items() if share is not None}
    return {**written, "bottleneck": found}


def in_flight(work: Workload) -> int | None:
    return work.iodepth * work.numjobs if work.direct else None


def buses(declared: Sequence[Disk], done: Sequence[Report], seconds: float) -> tuple[Bus, ...]:
    moved: dict[tuple[str, float], float] = {}
    for disk, report in zip(declared, done, strict=False):
        if disk.link and seconds:
            key = (disk.link.name, disk.link.rate)
            moved[key] = moved.get(key, 0.0) + (report.read_bytes + report.written_bytes) / seconds
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
