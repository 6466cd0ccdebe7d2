"""The boxes of a stack: groups of disks, layers, and what each of them uses."""

from __future__ import annotations

import pytest

from matrix_runner.session.stack_boxes import boxes_of
from matrix_runner.space.variants import disks_of
from tests.support.matrices import space
from tests.support.parted import PARTED


def described(text: str) -> list[tuple[str, int, str, tuple[tuple[int, str], ...]]]:
    found = space(text)
    boxes = boxes_of(found.stacks[0].layers.value, disks_of(found.matrix))
    return [(one.title, one.devices, one.noun, one.below) for one in boxes]


def test_a_layer_stands_on_the_one_below_it_and_on_its_parts() -> None:
    layout = "x: {on: hdd, layers: [{md: {level: 5}}, {writecache: {cache: ssd}}, {fs: {type: xfs}}]}"
    assert described(PARTED % layout) == [
        ("hdd", 4, "disks", ()),
        ("ssd", 1, "disks", ()),
        ("RAID 5", 1, "arrays", ((0, ""),)),
        ("writecache", 1, "write-cached devices", ((2, ""), (1, "cache"))),
        ("xfs", 1, "file systems", ((3, ""),)),
    ]


def test_a_part_is_used_under_its_name() -> None:
    layout = "x: {parts: {array: {on: hdd, layers: [{md: {level: 1}}]}}, on: [array, ssd], layers: [{md: {level: 0}}]}"
    boxes = described(PARTED % layout)
    assert boxes[2:] == [("RAID 1", 1, "arrays", ((0, ""),)), ("RAID 0", 1, "arrays", ((2, ""), (1, "")))]


@pytest.mark.parametrize("count", [1, 3])
def test_disks_without_groups_are_one_box(count: int) -> None:
    text = PARTED.replace(
        "{hdd: {count: 4, size: 1GiB}, ssd: {count: 1, size: 512MiB}}", f"{{count: {count}, size: 1GiB}}"
    )
    assert described(text % "x: [disks]")[0] == ("disks", count, "disks", ())
