"""A matrix whose run ends with an answer."""

from __future__ import annotations

MATRIX = """\
name: three
disks: {count: 4, size: 64MiB}
layouts:
  raid5: [md: {level: 5}]
  raid10-far: [md: {level: 10, layout: f2}]
  stripe: [lvm: {stripes: 4, stripe_size: 64KiB}]
workloads:
  sequential: {rw: [read, write], bs: 1MiB, runtime: 1s}
  mixed: {rw: randrw, bs: 8KiB, runtime: 1s}
repeat: 3
"""
