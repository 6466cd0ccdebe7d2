"""What holds of each layer."""

import pytest

from matrix_runner.layers import Layer
from matrix_runner.layers.dm import Crypt, Integrity
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.lvm import Lvm
from matrix_runner.layers.md import Md
from matrix_runner.layers.partition import Partition

GIB = 1 << 30


@pytest.mark.parametrize(
    ("layer", "sector"),
    [
        (Crypt.model_construct(sector_size=512), 2048),
        (Crypt.model_construct(sector_size=4096), 4096),
        (Integrity.model_construct(sector_size=4096), 4096),
        (Integrity.model_construct(), 2048),
        (Md.model_construct(level=0), 2048),
        (Md.model_construct(level=1), 2048),
        (Md.model_construct(level="linear"), 2048),
        (Lvm.model_construct(), 2048),
        (Partition.model_construct(count=1), 2048),
    ],
)
def test_sectors_get_no_smaller_on_the_way_up(layer: Layer, sector: int) -> None:
    assert {shape.sector for shape in layer.devices_above(Below((Shape(GIB, sector=2048),) * 2))} == {sector}
