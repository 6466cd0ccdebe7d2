from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.language.tune import impossible, meaningless
from matrix_runner.layers.bare import OneDisk, SomeDisks
from matrix_runner.layers.base import BuildContext
from matrix_runner.layers.geometry import Below, Shape, usable
from matrix_runner.layers.md import Md, MdView, layout_number
from matrix_runner.simdisks.disk import Disk

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
        (4, {"level": 5, "devices": 6}, "devices: 6 devices are too many: 4 disks are declared"),
        (4, {"level": 5, "devices": 4, "spare": 1}, "devices: 4 devices and 1 spare are too many"),
        (4, {"level": 6, "devices": 3}, "devices: RAID 6 needs at least 4 devices, not 3"),
        (
            4,
            {"level": 5, "chunk": 100 * 1024},
            "chunk: a chunk must be a power of two and at least 4KiB; the nearest is 64KiB or 128KiB",
        ),
        (
            4,
            {"level": 10, "chunk": 2048},
            "chunk: a chunk must be a power of two and at least 4KiB; the nearest is 4KiB",
        ),
        (4, {"level": 0, "chunk": 6 * 1024}, "chunk: a chunk of RAID 0 must be a multiple of 4KiB"),
        (1, {"level": "linear"}, "level: md linear needs at least 2 disks; 1 disk is declared"),
        (
            4,
            {"level": 5, "layout": "left-symmetric-6"},
            "layout: 'left-symmetric-6' is no layout of RAID 5; it has left-",
        ),
        (4, {"level": 6, "layout": "n2"}, "layout: 'n2' is no layout of RAID 6; it has left-asymmetric"),
        (4, {"level": 10, "layout": "left-symmetric"}, "layout: 'left-symmetric' is no layout of RAID 10; it has n2"),
        (4, {"level": 0, "metadata": "0.90"}, "metadata: 0.90 cannot store the layout of RAID 0"),
        (4, {"level": 5, "metadata": "0.90", "ppl": True}, "metadata: 0.90 cannot store a partial parity log"),
        (4, {"level": 5, "metadata": "0.90", "journal": 1}, "metadata: 0.90 cannot store a partial parity log"),
        (28, {"level": 1, "metadata": "0.90"}, "metadata: 0.90 supports at most 27 devices"),
        (65, {"level": 5, "ppl": True}, "ppl: a partial parity log goes with at most 64 devices"),
        (4, {"level": 5, "ppl": True, "bitmap": "internal"}, "ppl: a partial parity log excludes a bitmap"),
        (4, {"level": 5, "journal": 1, "bitmap": "internal"}, "journal: a journal excludes a bitmap"),
        (
            4,
            {"level": 5, "metadata": "1.1", "bitmap": "lockless"},
            "bitmap: metadata 1.1 cannot store a lockless bitmap",
        ),
        (
            4,
            {"level": 5, "bitmap": "lockless", "sync": "background"},
            "sync: a lockless bitmap syncs only what was written",
        ),
        (4, {"level": 1, "write_mostly": 4}, "write_mostly: at least one device must stay"),
        (4, {"level": 5, "size": GIB}, "size: more than the smallest of the disks has beside md's metadata (1022MiB)"),
        (4, {"level": 5, "size": 2**20 + 512}, "size: md counts in whole KiB"),
        (4, {"level": 5, "size": 4096}, "level: metadata and whole chunks need more space than disks of 1GiB have"),
        (4, {"level": 5, "state": "degraded-2"}, "state: RAID 5 cannot lose 2 disks"),
        (4, {"level": 10, "layout": "f2", "state": "degraded-2"}, "state: RAID 10 cannot lose 2 disks"),
        (4, {"level": 5, "spare": 1, "state": "degraded"}, "state: a spare would replace a lost disk"),
        (4, {"level": 5, "sync": "background", "state": "rebuilding"}, "sync: a degraded array cannot resync"),
        (4, {"level": 0, "chunk": GIB}, "chunk: larger than a quarter of a disk (1GiB)"),
    ],
)
def test_arrays_refused_by_the_kernel_are_impossible(count: int, fields: dict[str, object], said: str) -> None:
    (found,) = problems(count, **fields)
    assert found.startswith(said)


def test_the_chunk_of_a_bitmap_is_set_and_read_back() -> None:
    layer = Md.model_validate({"level": 5, "bitmap": "internal", "bitmap_chunk": "8MiB"})
    (view,) = layer.resolve(Below((Shape(GIB),) * 4)).views(
        BuildContext(("/dev/a", "/dev/b", "/dev/c", "/dev/d"), Below((Shape(GIB),) * 4), 0, True, "bay", "matrix")
    )
    assert isinstance(view, MdView)
    assert "--bitmap-chunk=8192K" in view.options
    (found,) = (one for one in view.expects if one.setting == "bitmap_chunk")
    assert (found.file, found.wanted) == ("md/bitmap/chunksize", str(8 << 20))
    assert "bitmap_chunk" in Md.idle({"level": 5, "bitmap": "none"})
    (refused,) = problems(4, level=5, bitmap="internal", bitmap_chunk=9 << 20)
    assert "a power of two" in refused


@pytest.mark.parametrize(  # as mdadm 4.4 did in a virtual machine
    ("size", "metadata", "refused", "accepted"),
    [
        (GIB, "1.2", 32 << 10, 64 << 10),
        (16 * GIB, "1.0", 32 << 10, 64 << 10),
        (16 * GIB, "0.90", 32 << 10, 64 << 10),
        (256 * GIB, "1.2", 256 << 10, 512 << 10),
        (GIB, "1.2", 1 << 40, 2 << 30),
        (GIB, "1.2", 0, 1 << 30),
    ],
)
def test_a_bitmap_has_the_chunks_that_mdadm_accepts(size: int, metadata: str, refused: int, accepted: int) -> None:
    def said(chunk: int) -> list[str]:
        fields: dict[str, Any] = {"level": 1, "bitmap": "internal", "metadata": metadata, "bitmap_chunk": chunk}
        layer = Md.model_construct(**fields)
        return [one.field for one in layer.problems(Below((Shape(size),) * 2))]

    assert (said(refused), said(accepted)) == (["bitmap_chunk"], [])


def test_the_bitmap_of_raid_10_counts_the_whole_array() -> None:
    fields: dict[str, Any] = {"level": 10, "layout": "n2", "bitmap": "internal"}
    sixteen = Below((Shape(16 * GIB),) * 4)
    said = [[*Md.model_construct(**fields, bitmap_chunk=chunk).problems(sixteen)] for chunk in (64 << 10, 128 << 10)]
    assert [len(one) for one in said] == [1, 0]


def test_a_lockless_bitmap_is_read_back_by_its_type() -> None:
    layer = Md(level=5, bitmap="lockless")
    (view,) = layer.resolve(Below((Shape(GIB),) * 4)).views(
        BuildContext(("/dev/a", "/dev/b", "/dev/c", "/dev/d"), Below((Shape(GIB),) * 4), 0, True, "bay", "matrix")
    )
    assert isinstance(view, MdView)
    assert "--bitmap=lockless" in view.options
    found = {one.setting: (one.file, one.wanted) for one in view.expects}
    assert found["bitmap"] == ("md/bitmap_type", "llbitmap")
    assert found["consistency_policy"] == ("md/consistency_policy", "bitmap")
    assert {need.linux for need in layer.needed} == {"", "6.18"}
    assert "cannot be made to forget" in layer.why_no_sync("resync")
    assert layer.why_no_sync("rebuild") == ""


@given(st.sampled_from([0, 1, 4, 5, 6, 10]), st.integers(4, 12))
def test_four_disks_are_enough_for_anything(level: int, count: int) -> None:
    assert problems(count, level=level) == []


@pytest.mark.parametrize(
    ("level", "layout", "disks"),
    [(0, None, 4), (1, None, 1), (4, None, 3), (5, None, 3), (6, None, 2), (10, "n2", 2), (10, "f4", 1)],
)
def test_capacity(level: Any, layout: str | None, disks: int) -> None:
    (top,) = Md.model_construct(level=level, layout=layout).devices_above(Below((Shape(GIB),) * 4))
    assert disks * GIB * 0.99 < top.size < disks * GIB


def test_missing_keys_get_defaults() -> None:
    settled = Md.model_construct(level=10, spare=1).resolve(disks(5))
    assert (settled.chunk, settled.devices, settled.layout) == (512 * 1024, 4, "n2")
    assert Md.model_construct(level=1).resolve(disks(4)).chunk is None


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
    mixed = (*sata[:1], Disk(GIB, "nvme"), Disk(GIB))
    assert "disks on nvme have no queue depth" in meaningless("ncq_depth", (OneDisk(number=1),), mixed)
    assert "disks on virtio have no queue depth" in meaningless("ncq_depth", (OneDisk(number=2),), mixed)
    assert meaningless("ncq_depth", parity, mixed) == meaningless("ncq_depth", (SomeDisks(count=2),), mixed) == ""
    assert impossible({"ncq_depth": 64}, sata).keys() == {"ncq_depth"}
    assert not impossible({"ncq_depth": 32}, sata)
    assert not impossible({"ncq_depth": 64}, (Disk(GIB, "scsi"),))


@pytest.mark.parametrize(
    ("fields", "size"),
    [  # as the kernel said for four disks (RAID 10: five) of 64 MiB, in sectors
        ({"level": 0, "chunk": 4096}, 516096),
        ({"level": 0, "chunk": 12 << 10}, 516096),
        ({"level": 0, "chunk": 1 << 20, "metadata": "1.1"}, 499712),
        ({"level": 5, "chunk": 16 << 20}, 98304),
        ({"level": 5, "ppl": True}, 374784),
        ({"level": 5, "ppl": True, "metadata": "1.0"}, 384000),
        ({"level": 4, "metadata": "0.90"}, 390144),
        ({"level": 1, "metadata": "1.0"}, 130944),
        ({"level": 10, "layout": "n3", "devices": 5}, 210944),
        ({"level": 10, "layout": "o3", "devices": 5}, 209920),
        ({"level": 10, "layout": "f2", "devices": 4, "metadata": "0.90"}, 258048),
        ({"level": 5, "size": 20500 << 10, "chunk": 64 << 10}, 122880),
    ],
)
def test_the_size_of_an_array_is_exact_to_the_sector(fields: dict[str, Any], size: int) -> None:
    array = Md.model_construct(**fields)
    (top,) = array.devices_above(Below((Shape(64 << 20),) * array.active(4)))
    assert top.size == size * 512


@pytest.mark.parametrize(
    ("chunk", "size"),
    [(4 << 10, 205520896), (20 << 10, 205463552), (36 << 10, 205414400), (64 << 10, 205520896)],
)
def test_a_chunk_of_raid0_that_is_no_power_of_two_costs_what_the_kernel_cuts(chunk: int, size: int) -> None:
    array = Md.model_construct(level=0, chunk=chunk)
    (top,) = array.devices_above(Below((Shape(103_809_024),) * 2))
    assert top.size == size


@given(st.integers(64 << 20, 20 << 40), st.integers(0, 1 << 26), st.sampled_from(["1.0", "1.1", "1.2", "0.90"]))
def test_a_member_that_is_a_little_larger_than_known_holds_no_less(size: int, more: int, metadata: str) -> None:
    more = min(more, size // 64)
    assert usable(size, metadata, 1 << 16, ppl=False) <= real_room(size + more, metadata, 1 << 16)


def real_room(size: int, metadata: str, chunk: int) -> int:
    """What mdadm 4.4 leaves of a member, rule for rule."""
    sectors = size // 512
    if metadata == "0.90":
        return (sectors // 128 * 128 - 128) * 512
    space = 256 if sectors - 128 >= 400 << 20 else 128 if sectors - 8 > 16 << 20 else 8
    if metadata == "1.0":
        return (sectors // 8 * 8 - 24 - space) * 512
    headroom = 128 * 1024 * 2
    while headroom << 10 > sectors and headroom > chunk // 1024 * 4:
        headroom >>= 1
    return (sectors - -(-(24 + space + headroom) // 2048) * 2048) * 512
