"""Tunables that cannot change the result of a workload: readahead and write-back act on cached I/O only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from matrix_runner.base.axes import written
from matrix_runner.base.findings import Note, few
from matrix_runner.language.tune import split
from matrix_runner.work.fio.values import TRIMS

if TYPE_CHECKING:
    from matrix_runner.base.variants import Variant
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.work.fio.workload import Workload

_READS = "it acts on buffered reads only (`direct: false`)"
_WRITES = "it acts on buffered writes only (`direct: false`)"
_CACHED = "it acts on buffered I/O only (`direct: false`)"
_FILES = "it acts on file systems and buffered I/O only"
#: Buses with one queue per CPU. The kernel's default for several queues is no scheduler.
_UNSCHEDULED = frozenset({"virtio", "nvme"})


def idle_tunables(matrix: Matrix, workloads: Iterable[tuple[Variant[Workload], bool]]) -> Iterator[Note]:
    works = list(workloads)
    buses = {disk.bus for disk in matrix.every_disk()}
    # Physical disks have their own bus. The one that `disks:` declares does not count.
    unscheduled = not matrix.needs and buses <= _UNSCHEDULED and matrix.machine.cpus > 1
    for name, values in written(matrix.tune).items():
        if set(values) == {"default"}:
            continue
        yield from _idle_for(name, len(values), works)
        if unscheduled and split(name)[1] == "scheduler" and {"default", "none"} <= set(values):
            where = " and ".join(sorted(buses))
            text = f"{name}: default and none are the same for disks on {where}: none is the kernel's default"
            yield Note(text, simulated=True)


def _idle_for(name: str, values: int, works: list[tuple[Variant[Workload], bool]]) -> Iterator[Note]:
    reasons: dict[str, set[str]] = {}
    for work, in_files in works:
        reasons.setdefault(dict(work.coords)["workload"], set()).add(no_effect(name, work.value, in_files=in_files))
    idle = [one for one, why in reasons.items() if "" not in why]
    if idle and (values > 1 or len(idle) == len(reasons)):
        (why, *_) = reasons[idle[0]]
        which = "any workload" if len(idle) == len(reasons) else f"workload {few(idle)}"
        again = f"; its {values} values give the same result" if values > 1 else ""
        yield Note(f"{name} has no effect on {which}: {why}{again}")


def no_effect(tunable: str, work: Workload, *, in_files: bool) -> str:
    key = split(tunable)[1]
    buffered = not work.direct
    if key == "readahead":
        # mmap reads a page before it writes to it.
        reads = (work.write_share < 1 and work.rw not in TRIMS) or work.ioengine == "mmap"
        return "" if buffered and reads else _READS
    if key == "wbt_lat_usec" or key.startswith("vm.dirty_"):
        cached = buffered or (in_files and work.new)  # new files have metadata, which is always cached
        return "" if cached and work.write_share else _WRITES
    if key == "vm.swappiness":
        return "" if buffered else _CACHED
    if key == "vm.vfs_cache_pressure":
        return "" if buffered or in_files else _FILES
    return ""
