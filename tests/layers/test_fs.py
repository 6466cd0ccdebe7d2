"""What may be declared of file systems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.layers.fs import Fs
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.space.space import Space
from tests.support.matrices import space

TEXT = """\
name: fs
disks: {count: 4, size: 1GiB}
layouts: {l: [md: {level: 5, chunk: 64KiB}, fs: %s]}
workloads: {w: {rw: read}}
"""


def of(fs: str) -> Space:
    return space(TEXT % fs)


def layer_of(fs: str) -> Fs:
    (array,) = of(fs).stacks
    layer = array.layers.value[-1]
    assert isinstance(layer, Fs)
    return layer


def test_alignment_follows_the_stripes_below() -> None:
    assert layer_of("{type: ext4}").align == "64KiB x 3"
    assert layer_of("{type: xfs, align: off}").align == "off"
    assert layer_of("{type: xfs, align: 16384B x 5}").align == "16KiB x 5"
    assert layer_of("{type: btrfs}").align == "auto", "which it does not know"


def test_filters_use_written_values_and_ids_use_resolved_values() -> None:
    found = of("{type: ext4, align: [auto, off, 64KiB x 3]}")
    assert [array.label for array in found.stacks] == ["l/align=auto", "l/align=off"]
    assert dict(found.stacks[0].layers.also[0])["fs.align"] == "64KiB x 3"


def test_spelling_does_not_make_another_file_system() -> None:
    same = ["{type: ext4}", "{type: ext4, block_size: 4096B}", "{type: ext4, options: defaults, align: auto}"]
    assert len({of(text).stacks[0].key for text in same}) == 1
    others = [*same, "{type: ext3}", "{type: ext4, options: noatime}", "{type: ext4, journal: none}"]
    assert len({of(text).stacks[0].key for text in others}) == 4


@pytest.mark.parametrize(
    ("fs", "said"),
    [
        ("{type: ext5}", "ext5"),
        ("{type: ext4, block_size: 3KiB}", "power of two"),
        ("{type: xfs, block_size: 64KiB}", "larger than a page of memory"),
        ("{type: ext4, align: 6KiB x 3}", "not a whole number of blocks of 4KiB"),
        ("{type: ext4, align: 64KiB}", "write auto, off, or a unit and a count"),
        ("{type: ext4, inode_size: 100B}", "power of two"),
        ("{type: ext4, inode_size: 8KiB}", "at most a block"),
        ("{type: xfs, inode_size: 128B}", "at least 256B"),
        ("{type: btrfs, inode_size: 512B}", "btrfs has no inodes of a fixed size"),
        ("{type: ext4, allocation_groups: 4}", "xfs has"),
        ("{type: ext3, checksums: true}", "ext4 and xfs can have them"),
        ("{type: ext4, mkfs: -d /etc}", "mkfs"),
        ("{type: xfs, mkfs: '-l logdev=/dev/sda'}", "mkfs"),
        ("{type: ext4, mkfs: '-N 100; reboot'}", "mkfs"),
        ("{type: ext4, options: ro}", "'ro' is no option for a layout"),
        ("{type: ext4, options: 'noatime,x-mount.mkdir'}", "'x-mount.mkdir' is no option for a layout"),
        ("{type: ext4, options: 'a;b'}", "words separated by commas"),
        ("{type: btrfs, metadata: raid1}", "raid1 needs at least 2 devices; 1 array is below"),
        ("{type: btrfs, align: off}", "'align' has no effect: btrfs has no stripe options"),
        ("{type: xfs, data: raid1}", "'data' has no effect: xfs has no profiles"),
        ("{type: ext3, journal: none}", "'journal' has no effect: only ext4"),
    ],
)
def test_impossible_file_systems_are_refused(fs: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        of(fs)
    assert said in str(error.value.details)


@pytest.mark.parametrize("kind", ["ext2", "ext4", "xfs", "f2fs"])
def test_several_devices_are_for_btrfs_alone(kind: str) -> None:
    with pytest.raises(BadInput) as error:
        space(TEXT.replace("md: {level: 5, chunk: 64KiB}, ", "") % f"{{type: {kind}}}")
    assert f"{kind} uses one device, but 4 disks are declared: put md or lvm between" in str(error.value.details)


def test_a_file_system_is_the_last_layer() -> None:
    with pytest.raises(BadInput) as error:
        space(TEXT.replace("%s]", "%s, md: {level: 1}]") % "{type: ext4}")
    assert "md cannot be built on a file system" in str(error.value.details)


@given(st.sampled_from(["ext2", "ext4", "xfs", "f2fs", "btrfs"]), st.integers(300 << 20, 1 << 48), st.integers(1, 8))
def test_a_file_system_holds_less_than_its_devices_and_most_of_large_ones(kind: str, size: int, count: int) -> None:
    below = Below((Shape(size),) * (count if kind == "btrfs" else 1))
    layer = Fs.model_validate({"type": kind}).resolve(below)
    (shape,) = layer.devices_above(below)
    assert shape.files
    assert 0 < shape.size < size * below.count
    if size > 1 << 34:
        assert shape.size > size * below.count * 0.9


@pytest.mark.parametrize(("size", "least"), [(2**30, 0.83), (100 * 2**30, 0.97), (12 * 2**40, 0.97)])
def test_the_room_of_xfs_is_near_to_that_of_a_new_one(size: int, least: float) -> None:
    """Of 1 GiB, 100 GiB and 12 TiB, `df` shows 90, 99.2 and 99.3 % as free."""
    (top,) = Fs.model_validate({"type": "xfs"}).devices_above(Below((Shape(size),)))
    assert least < top.size / size < 0.99
