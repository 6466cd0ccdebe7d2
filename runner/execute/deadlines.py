"""How long things may take before they count as hung."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.expand.layouts import levels

if TYPE_CHECKING:
    from runner.expand.layouts import Stack
    from runner.model.shape import Below
    from runner.model.workload import Workload

#: For scripts that only write and read sysfs, and for fio to start, on a slow and loaded host.
GRACE = 120.0
#: An array with a first resync to wait for; the disks may be large.
SET_UP = 24 * 3600.0
#: Nothing that is worth measuring moves less than this, bytes/s.
_CRAWL = 10**6


def set_up(stack: Stack, disks: Below) -> float:
    """After so many seconds building a stack is given up."""
    return SET_UP + sum(layer.waits + layer.writes(below) / _CRAWL for layer, below in levels(stack, disks))


def expected(workload: Workload) -> float:
    """How long fio is going to be quiet, at least."""
    return workload.ramp + (workload.runtime or 0.0)


def deadline(workload: Workload, span: int, laid_out: int = 0) -> float:
    """After so many seconds a trial is given up.

    `span`: bytes that each job goes over, for a workload with no end time; `laid_out`: bytes of files written before.
    """
    before = laid_out / _CRAWL + GRACE
    if workload.runtime is not None:
        return expected(workload) + before
    return workload.ramp + span * workload.numjobs / _CRAWL + before
