"""Matrices whose scripts are looked at, and these scripts."""

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from matrix_runner.scripts.cell import (
    cell_scripts,
    files_of,
    job,
    stack_scripts,
    trial_seed,
)
from matrix_runner.space.space import Cell

DISKS = tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(4))


class _Text(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def rendered(cell: Cell, *, zeroed: bool = True, disks: tuple[str, ...] = DISKS) -> dict[str, str]:
    array = stack_scripts(cell.stack, disks, zeroed=zeroed)
    files = files_of(array, cell_scripts(cell, array.stack))
    return {**files, "trial-1/job.fio": job(cell, array.stack, trial_seed(1, cell.id, 1))}


EVERYTHING = """\
name: everything
disks: {count: 5, size: 1GiB, bus: scsi, model: sata-ssd}
faults: [{disk: 1, kind: dies}]
layouts:
  disk: [disk: {number: [0, 4]}]
  striped: [md: {level: [linear, 0], metadata: [1.0, 1.1, 1.2]}]
  md: [md: {level: [1, 4, 5, 6, 10], metadata: [0.90, 1.0, 1.1, 1.2], bitmap: [none, internal], spare: [0, 1], sync: [auto, wait]}]
  lost: [md: {level: [1, 10], state: [degraded, rebuilding], write_mostly: 1}]
  syncing: [md: {level: [1, 6, 10], sync: background, bitmap: internal}]
  logged: [partition: {count: 2}, md: {level: 5, devices: 4, ppl: true}, partition: {from: 1MiB, align: 512B}]
  journalled: [md: {level: [4, 5, 6], journal: 1, sync: background}]
tune: {readahead: [default, 1MiB], stripe_cache_size: [default, 4096], ncq_depth: [default, 8], scheduler: [default, mq-deadline],
  group_thread_cnt: 2, preread_bypass_threshold: 8, sync_speed_min: 2MiB/s, sync_speed_max: default, iosched: {read_expire: 248},
  nr_requests: 64, max_sectors_kb: 512, rotational: false, write_cache: write through, rq_affinity: 2, nomerges: 1,
  vm: {dirty_ratio: 11, dirty_background_bytes: 64MiB}, cpu_governor: performance, transparent_hugepages: never,
  sysfs: {queue/wbt_lat_usec: 0, md/rmw_level: 0}, md: {nomerges: 2, write_cache: write back, sysfs: {queue/iostats: 0}}}
workloads:
  w: {rw: [read, write, randread, randwrite, rw, randrw], bs: 8KiB, size: 10%, offset: [0, 1MiB], ramp: 500ms, sync: [none, dsync],
      fsync: [0, 4], numjobs: 2, ioengine: io_uring, fio: {buffer_compress_percentage: 30, norandommap: true}}
"""
