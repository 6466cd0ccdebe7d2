"""Seconds after which work counts as hung."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.space.layouts import levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.language.workload import Workload
    from runner.layers import Layer
    from runner.layers.geometry import Below
    from runner.simdisks.disk import Disk, Fault
    from runner.space.layouts import Stack

#: For scripts that only write and read sysfs, and for the start of fio, on a slow and loaded host.
GRACE = 120.0
#: Building layers starts many programs, and starts are slow on an emulated processor.
SET_UP = 900.0
#: The slowest rate of a workload that can be measured, bytes/s.
_CRAWL = 10**6
#: The longest request, unless the model of a disk has longer ones, seconds.
_SLOWEST_REQUEST = 0.05
#: The part of a machine's memory that may be dirty when fio ends.
_DIRTY_SHARE = 0.25
#: The smallest request that writes dirty memory.
_PAGE = 4096
#: Serial requests to one disk for one request to a stack.
_IN_TURN = 4


def set_up(stack: Stack, disks: Below) -> float:
    """Return the deadline for building a stack."""
    return SET_UP + sum(layer.wait_seconds + _written(layer, below) / _CRAWL for layer, below in levels(stack, disks))


def _written(layer: Layer, below: Below) -> int:
    """Return the bytes that building a layer writes, with a first resync."""
    resync = getattr(layer, "sync", "") in {"auto", "wait"} and "sync" not in layer.idle(dict(layer))
    return layer.bytes_written(below) + (sum(device.size for device in below.devices) if resync else 0)


def expected(workload: Workload) -> float:
    """Return the shortest time without output of fio."""
    return workload.ramp + (workload.runtime or 0.0)


def slowest_request(workload: Workload, disks: Iterable[Disk]) -> float:
    modelled = (disk.physics.slowest(workload.bs) for disk in disks if disk.physics)
    return max(_SLOWEST_REQUEST, _IN_TURN * max(modelled, default=0.0))


def deadline(workload: Workload, span: int, laid_out: int = 0, slowest: float = _SLOWEST_REQUEST) -> float:
    """Return the deadline of a trial.

    `span`: bytes of each job, for a workload without run time; `laid_out`: bytes of files that are written first;
    `slowest`: seconds of the longest request.
    """
    before = laid_out / _CRAWL + GRACE
    if workload.runtime is not None:
        return expected(workload) + slowest * workload.iodepth * workload.numjobs + before
    total = span * workload.numjobs
    return workload.ramp + total / _CRAWL + total / workload.bs * slowest + before


def flush_seconds(workload: Workload, memory: int, slowest: float = _SLOWEST_REQUEST) -> float:
    """Return the longest time to write dirty memory after fio ends."""
    if workload.direct or not workload.write_share:
        return 0.0
    dirty = memory * _DIRTY_SHARE
    return dirty / _CRAWL + (dirty / _PAGE * slowest if workload.rw.startswith("rand") else 0.0)


def with_faults(
    seconds: float, workload: Workload, faults: Sequence[Fault], slowest: float = _SLOWEST_REQUEST
) -> float:
    factor = max((fault.factor for fault in faults), default=1.0)
    drained = slowest * workload.iodepth * workload.numjobs * factor
    work = seconds + drained if workload.runtime is not None else seconds * factor
    return work + sum(GRACE + (fault.seconds or 0.0) for fault in faults)
