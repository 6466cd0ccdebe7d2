"""Preconditioned devices."""

from matrix_runner.layers.bare import Precondition
from matrix_runner.layers.geometry import Below, Shape

GIB = 1 << 30


def test_preconditioned_devices_keep_their_noun() -> None:
    below = Below((Shape(GIB),) * 2, "partitions")
    assert Precondition.model_construct(how="fill").noun_above(below) == "partitions"
