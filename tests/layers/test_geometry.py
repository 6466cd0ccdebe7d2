"""How many disks each stack may lose before data is lost."""

from __future__ import annotations

import pytest

from tests.support.matrices import space

MATRIX = """\
name: lost
disks: {count: 4, size: 2GiB}
layouts:
  one: [%s]
workloads: {work: {rw: read, bs: 64KiB, runtime: 1s}}
"""


@pytest.mark.parametrize(
    ("stack", "losses"),
    [
        ("disk", 0),
        ("md: {level: 0}", 0),
        ("md: {level: 1}", 3),
        ("md: {level: 5}", 1),
        ("md: {level: 5, spare: 1}", 1),
        ("md: {level: 5, state: degraded}", 0),
        ("md: {level: 6}", 2),
        ("md: {level: 10, layout: n2}", 1),
        ("md: {level: 10, layout: f3}", 2),
        ("md: {level: linear}", 0),
        ("md: {level: 1, groups: 2}, md: {level: 0}", 1),
        ("md: {level: 0, groups: 2}, md: {level: 1}", 1),
        ("md: {level: 1, groups: 2}, md: {level: 1}", 3),
        ("md: {level: 5}, fs: {type: ext4}", 1),
        ("crypt, md: {level: 6}", 2),
        ("lvm: {stripes: 4}", 0),
        ("lvm: {type: raid1, mirrors: 3}", 3),
        ("lvm: {type: raid5}", 1),
        ("integrity, md: {level: 1}", 3),
        ("fs: {type: btrfs, data: raid1, metadata: raid1}", 1),
        ("fs: {type: btrfs, data: raid0, metadata: raid1}", 0),
        ("partition: {size: 50%}, md: {level: 5}", 1),
        # Partitions of one disk and volumes of one group fail together.
        ("partition: {count: 2}, md: {level: 5}", None),
        ("lvm: {volumes: 2}, md: {level: 1}", None),
    ],
)
def test_lost_disks_in_the_worst_case(stack: str, losses: int | None) -> None:
    (array,) = {cell.stack.label: cell.stack for cell in space(MATRIX % stack).cells()}.values()
    assert array.losses == losses
