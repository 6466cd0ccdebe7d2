"""Matrices whose cells or rounds follow from figures: a screen, a search for the best value and a race."""

from __future__ import annotations

from tests.support.matrices import SMALL

SCREEN = """\
name: tunables
disks: {count: 4, size: 64MiB}
layouts:
  raid5: [md: {level: 5, chunk: [16KiB, 64KiB]}]
  raid0: [md: {level: 0, chunk: [16KiB, 64KiB]}]
tune: {scheduler: [mq-deadline, bfq], max_sectors_kb: [64, 128, 512], rotational: [0, 1]}
workloads:
  work: {rw: [read, randwrite], bs: 4KiB, iodepth: [1, 4, 16], runtime: 1s}
repeat: 1
"""
BEST = """\
name: best
disks: {count: 4, size: 512MiB, model: nas-7200}
layouts: {raid5: [md: {level: 5}]}
tune: {stripe_cache_size: [VALUES]}
workloads:
  copy: {rw: write, bs: 1MiB, size: 64MiB, runtime: 1s, find: {max: write.bw, over: tune.stripe_cache_size}}
repeat: 3
"""
FIVE = SMALL.replace("chunk: [16KiB, 64KiB]", "chunk: [4KiB, 16KiB, 64KiB, 256KiB, 1MiB]")
