from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.disks import Disk
from runner.model.layers import Md, OneDisk
from runner.model.shape import Below, Shape
from runner.model.tune import impossible, meaningless
from runner.render.layers.md import layout_number

GIB = 1 << 30


def disks(count: int) -> Below:
    return Below((Shape(GIB),) * count)


def problems(count: int = 4, **fields: Any) -> list[str]:
    return [f"{one.field}: {one.message}" for one in Md.model_construct(**fields).problems(disks(count))]


@pytest.mark.parametrize(
    ("count", "fields", "said"),
    [
        (3, {"level": 6}, "level: RAID 6 needs at least 4 disks; 3 disks are declared"),
        (4, {"level": 6, "spare": 1}, "level: RAID 6 needs at least 4 disks; 4 disks are declared, 1 of them spare"),
        (1, {"level": 1}, "level: RAID 1 needs at least 2 disks; 1 disk is declared"),
        (2, {"level": 10, "layout": "n3"}, "level: RAID 10 with 3 copies needs at least 3 disks; 2 disks are declared"),
        (4, {"level": 5, "devices": 6}, "devices: 6 devices are more than there are: 4 disks are declared"),
        (4, {"level": 5, "devices": 4, "spare": 1}, "devices: 4 devices and 1 spare are more than there are"),
        (4, {"level": 6, "devices": 3}, "devices: RAID 6 needs at least 4 devices, not 3"),
        (
            4,
            {"level": 0, "chunk": 100 * 1024},
            "chunk: a chunk must be a power of two and at least 4KiB; the nearest is 64KiB or 128KiB",
        ),
        (
            4,
            {"level": 0, "chunk": 2048},
            "chunk: a chunk must be a power of two and at least 4KiB; the nearest is 4KiB",
        ),
        (4, {"level": 0, "chunk": GIB}, "chunk: larger than a quarter of a disk (1GiB)"),
    ],
)
def test_what_the_kernel_would_refuse(count: int, fields: dict[str, object], said: str) -> None:
    (found,) = problems(count, **fields)
    assert found.startswith(said)


@given(st.sampled_from([0, 1, 4, 5, 6, 10]), st.integers(4, 12))
def test_four_disks_are_enough_for_anything(level: int, count: int) -> None:
    assert problems(count, level=level) == []


@pytest.mark.parametrize(
    ("level", "layout", "disks"),
    [(0, None, 4), (1, None, 1), (4, None, 3), (5, None, 3), (6, None, 2), (10, "n2", 2), (10, "f4", 1)],
)
def test_capacity(level: Any, layout: str | None, disks: int) -> None:
    (top,) = Md.model_construct(level=level, layout=layout).above(Below((Shape(GIB),) * 4))
    assert disks * GIB * 0.99 < top.size < disks * GIB


def test_what_is_left_open_is_filled_in() -> None:
    settled = Md.model_construct(level=10, spare=1).settled(disks(5))
    assert (settled.chunk, settled.devices, settled.layout) == (512 * 1024, 4, "n2")
    assert Md.model_construct(level=1).settled(disks(4)).chunk is None


def test_the_kernels_numbers_for_raid10_layouts() -> None:
    assert [layout_number(name) for name in ("n2", "f2", "o2", "n3", "f3", "o3")] == [258, 513, 66049, 259, 769, 66305]


def test_tunables_have_meaning_only_where_there_is_something_to_tune() -> None:
    sata, virtio = (Disk(GIB, "sata"),), (Disk(GIB, "virtio"),)
    parity, mirror = (Md.model_construct(level=5),), (Md.model_construct(level=1),)
    assert meaningless("stripe_cache_size", parity, sata) == ""
    assert "RAID 4, 5 or 6" in meaningless("stripe_cache_size", mirror, sata)
    assert "RAID 4, 5 or 6" in meaningless("stripe_cache_size", (OneDisk(),), sata)
    assert "no queue depth" in meaningless("ncq_depth", parity, virtio)
    assert meaningless("ncq_depth", parity, sata) == meaningless("readahead", mirror, virtio) == ""
    assert impossible({"ncq_depth": 64}, sata).keys() == {"ncq_depth"}
    assert not impossible({"ncq_depth": 32}, sata)
    assert not impossible({"ncq_depth": 64}, (Disk(GIB, "scsi"),))
