"""Seconds after which work counts as hung."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.space.layouts import levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.language.workload import Workload
    from runner.layers import Layer
    from runner.layers.geometry import Below
    from runner.simdisks.disk import Disk
    from runner.simdisks.faults import Fault
    from runner.space.layouts import Stack

#: For scripts that only write and read sysfs, and for the start of fio, on a slow and loaded host.
GRACE = 120.0
#: Building layers takes many programs, each slow to start on an emulated processor.
SET_UP = 900.0
#: Every measurable workload moves at least this, bytes/s …
_CRAWL = 10**6
#: … and no request takes longer than this, unless a disk's model says so.
_SLOWEST_REQUEST = 0.05
#: This part of a machine's memory may wait to be written when fio ends …
_DIRTY_SHARE = 0.25
#: … in requests as small as this, at random places.
_PAGE = 4096
#: Requests to one disk, one after the other, for one request to an array.
_IN_TURN = 4


def set_up(stack: Stack, disks: Below) -> float:
    """After so many seconds building a stack is given up."""
    return SET_UP + sum(layer.wait_seconds + _written(layer, below) / _CRAWL for layer, below in levels(stack, disks))


def _written(layer: Layer, below: Below) -> int:
    """Return what building a layer writes; a first resync goes over the whole device."""
    resync = getattr(layer, "sync", "") in {"auto", "wait"} and "sync" not in layer.idle(dict(layer))
    return layer.bytes_written(below) + (sum(device.size for device in below.devices) if resync else 0)


def expected(workload: Workload) -> float:
    """Return how long fio is quiet, at least."""
    return workload.ramp + (workload.runtime or 0.0)


def slowest_request(workload: Workload, disks: Iterable[Disk]) -> float:
    modelled = (disk.physics.slowest(workload.bs) for disk in disks if disk.physics)
    return max(_SLOWEST_REQUEST, _IN_TURN * max(modelled, default=0.0))


def deadline(workload: Workload, span: int, laid_out: int = 0, slowest: float = _SLOWEST_REQUEST) -> float:
    """After so many seconds a trial is given up.

    `span`: bytes that each job goes over, for a workload with no end time; `laid_out`: bytes of files written before;
    `slowest`: what a request takes at most.
    """
    before = laid_out / _CRAWL + GRACE
    if workload.runtime is not None:
        return expected(workload) + slowest * workload.iodepth * workload.numjobs + before
    total = span * workload.numjobs
    return workload.ramp + total / _CRAWL + total / workload.bs * slowest + before


def flush_seconds(workload: Workload, memory: int, slowest: float = _SLOWEST_REQUEST) -> float:
    """Return how long dirty memory may take to reach the disks after fio ends."""
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
