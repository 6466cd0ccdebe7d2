"""Where partitions begin."""

from typing import Any

import pytest

from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.partition import Partition


@pytest.mark.parametrize(
    ("fields", "ranges"),
    [
        ({"align": 512, "from": 32256}, [(63 * 512, 63 << 20)]),
        ({"align": 512}, [(34 * 512, 63 << 20)]),
        ({"at": "25%", "size": "50%"}, [(16 << 20, 48 << 20)]),
        ({"count": 3}, [(1 << 20, 21 << 20), (21 << 20, 41 << 20), (41 << 20, 61 << 20)]),
    ],
)
def test_partitions_begin_where_they_should(fields: dict[str, Any], ranges: list[tuple[int, int]]) -> None:
    layer: Any = Partition.model_construct(**fields)
    assert layer.ranges(Shape(64 << 20)) == ranges


def test_on_large_sectors_a_table_is_longer_and_partitions_begin_at_whole_ones() -> None:
    large = Below((Shape(64 << 20, sector=4096),), "encrypted devices")
    odd: Any = Partition.model_construct(align=512)
    (found,) = odd.problems(large)
    assert found == ("align", "partitions begin at whole sectors of 4KiB")
    layer: Any = Partition.model_construct(align=4096, count=2)
    assert not list(layer.problems(large))
    assert layer.ranges(large.devices[0])[0][0] == 6 * 4096
    assert {shape.sector for shape in layer.devices_above(large)} == {4096}
