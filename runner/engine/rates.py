"""Estimated rates of a stack, from its disks and layers. Pure; for plans, not for verdicts."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from runner.language.workload import SYNCHRONOUS
from runner.layers import Fs
from runner.layers.fs import EXT
from runner.space.layouts import levels

if TYPE_CHECKING:
    from runner.engine.costs import Costs
    from runner.language.workload import Workload
    from runner.layers import Layer
    from runner.layers.geometry import Below
    from runner.simdisks.disk import Physics
    from runner.space.space import Array

MIB = 2**20
#: The log of XFS, which mkfs writes.
_XFS_LOG = 64 * MIB
#: Bytes of one flushed write.
_PAGE = 4096


def disks_at_work(array: Array) -> int:
    devices = array.disks.devices
    for layer, below in levels(array.stack.value, array.disks):
        devices = below.devices if isinstance(layer, Fs) else layer.devices_above(below)
    return max(1, sum(device.stripes for device in devices))


def sequential(array: Array, physics: Physics | None, costs: Costs, *, write: bool = True) -> float:
    each = physics.rate(MIB, random=False, write=write) if physics else inf
    return min(each * disks_at_work(array), _most(array, costs, write=write))


def rate(work: Workload, array: Array, physics: Physics | None, costs: Costs) -> float:
    share = work.write_share
    seconds = 0.0
    for part, write in ((1 - share, False), (share, True)):
        if part:
            seconds += part / _one_way(work, array, physics, costs, write=write)
    return 1 / seconds


def _one_way(work: Workload, array: Array, physics: Physics | None, costs: Costs, *, write: bool) -> float:
    random = work.rw.startswith("rand")
    if not (random or work.direct):
        return sequential(array, physics, costs, write=write)  # the page cache merges small requests
    width = disks_at_work(array)
    most = min(_most(array, costs, write=write), costs.requests * work.bs)
    if physics is None:
        return most
    under_way = work.numjobs * (1 if work.ioengine in SYNCHRONOUS else work.iodepth)
    # A request that spans several chunks keeps several disks busy.
    busy = width if not random else min(width, under_way)
    return min(most, busy * physics.rate(work.bs, random=random, write=write, depth=max(1.0, under_way / busy)))


def _most(array: Array, costs: Costs, *, write: bool) -> float:
    """Return the limit of the machine and its processors."""
    found = [costs.bandwidth]
    for layer in array.stack.value:
        parity = write and getattr(layer, "level", None) in {4, 5, 6}
        found.append(costs.computed.get("parity" if parity else layer.kind, inf))
    return min(found)


def flushed_write(physics: Physics | None) -> float:
    """Return the seconds for one small flushed write, such as a superblock."""
    return _PAGE / physics.rate(_PAGE, random=True, write=False) if physics else 0.0


def mkfs_writes(layer: Layer, below: Below) -> int:
    if not isinstance(layer, Fs):
        return 0
    if layer.type in EXT:
        return below.smallest - layer.devices_above(below)[0].size
    return _XFS_LOG if layer.type == "xfs" else 0
