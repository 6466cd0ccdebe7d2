"""A matrix with two groups of disks, for stacks with parts."""

PARTED = """\
name: parted
disks: {hdd: {count: 4, size: 1GiB}, ssd: {count: 1, size: 512MiB}}
layouts: {%s}
workloads: {work: {rw: write, bs: 64KiB, size: 8MiB}}
repeat: 1
"""
