"""Copies of btrfs: devices that they need, room, and lost disks that data survives."""

from __future__ import annotations

import pytest

from matrix_runner.layers.fs import Fs
from matrix_runner.layers.geometry import Below, Shape

GIB = 1 << 30


@pytest.mark.parametrize(("profile", "copies"), [("raid1", 2), ("raid1c3", 3), ("raid1c4", 4)])
def test_each_copy_takes_a_device_and_survives_one_more_lost_disk(profile: str, copies: int) -> None:
    layer = Fs.model_validate({"type": "btrfs", "data": profile, "metadata": profile})
    (top,) = layer.devices_above(Below((Shape(GIB),) * 6))
    (single,) = layer.model_copy(update={"data": "single"}).devices_above(Below((Shape(GIB),) * 6))
    assert (top.losses, top.size) == (copies - 1, single.size // copies)
    few = [problem.message for problem in layer.problems(Below((Shape(GIB),) * (copies - 1)))]
    assert few == [f"{profile} needs at least {copies} devices; {Below((Shape(GIB),) * (copies - 1)).description}"] * 2
