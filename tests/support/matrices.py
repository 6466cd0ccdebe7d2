"""Matrices that several tests start from."""

from matrix_runner.space.load import parse
from matrix_runner.space.space import Space

SWEEP = """\
name: sweep
disks: {count: 4, size: 1GiB, bus: sata}
layouts:
  single:  [disk]
  striped: [md: {level: 0, chunk: [64KiB, 256KiB, 1MiB]}]
  parity:  [md: {level: [5, 6], chunk: [64KiB, 256KiB]}]
  far:     [md: {level: 10, layout: [n2, f2, o2], chunk: 512KiB}]
tune:
  readahead: [default, 32MiB]
  stripe_cache_size: [256, 16384]
  ncq_depth: [1, 31]
workloads:
  seqread: {rw: read, bs: [64KiB, 1MiB], iodepth: 8, runtime: 1s}
  oltp:    {rw: randrw, bs: [4KiB, 16KiB], iodepth: 64, rwmixread: 70, runtime: 1s}
repeat: 2
"""

SMALL = """\
name: small
disks: {count: 4, size: 64MiB}
layouts:
  raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]
workloads:
  work: {rw: [read, randwrite], bs: 4KiB, runtime: 1s}
repeat: 2
"""


def space(text: str = SWEEP) -> Space:
    return parse("sweep.yaml", text).space
