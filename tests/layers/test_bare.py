"""Devices that `pick` selects."""

from matrix_runner.layers.bare import Pick
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.partition import Partition

GIB = 1 << 30


def test_devices_that_pick_selects_keep_their_noun() -> None:
    below = Below((Shape(GIB),) * 2, "partitions")
    assert Pick.model_construct(number=1).noun_above(below) == "partitions"
    (found,) = Partition.model_construct(count=2).problems(below)
    assert found.message.startswith("partitions cannot be partitioned: the kernel ignores tables on them")
    assert not list(Partition.model_construct(count=2).problems(Below((Shape(GIB),), "volumes")))
