"""What may be declared of LVM: what is refused, what is filled in, what comes out on top."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.layers.base import BuildContext, tops
from matrix_runner.layers.geometry import Below, Shape
from matrix_runner.layers.lvm import Lvm, LvmView, config
from tests.support.matrices import space

MIB, GIB = 1 << 20, 1 << 30
MATRIX = """\
name: lvm
disks: {count: 4, size: 1GiB}
layouts: {lvm: [lvm: {%s}]}
workloads: {work: {rw: read}}
"""


def disks(count: int, size: int = GIB) -> Below:
    return Below((Shape(size),) * count)


def problems(count: int = 4, **fields: Any) -> list[str]:
    return [f"{one.field}: {one.message}" for one in Lvm.model_construct(**fields).problems(disks(count))]


def settled(count: int = 4, **fields: Any) -> Lvm:
    return Lvm.model_construct(**fields).resolve(disks(count))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stripes": 5}, "stripes: 5 devices are too many: 4 disks are declared"),
        ({"devices": 5}, "devices: 5 devices are too many: 4 disks are declared"),
        ({"stripes": 3, "devices": 4}, "stripes: 4 devices cannot be used evenly by a striped volume that takes 3"),
        ({"type": "raid6"}, "type: a raid6 volume needs at least 3 stripes, on 5 devices; 4 disks are declared"),
        ({"type": "raid6", "stripes": 2}, "stripes: a raid6 volume needs at least 3 stripes, on 5 devices"),
        ({"type": "raid5", "devices": 2}, "devices: a raid5 volume needs at least 2 stripes, on 3 devices"),
        ({"type": "raid1", "mirrors": 4}, "type: a raid1 volume needs 5 devices for this; it has 4"),
        ({"type": "raid1", "mirrors": 2}, "mirrors: 4 devices cannot be used evenly by a raid1 volume that takes 3"),
        ({"type": "raid10", "devices": 3}, "devices: a raid10 volume needs at least 2 stripes, on 4 devices"),
        ({"type": "cache", "fast": 4}, "type: a cache volume needs 1 devices and 4 for the cache for this; it has 4"),
        ({"stripes": 2, "stripe_size": 48 * 1024}, "stripe_size: a stripe size must be a power of two"),
        ({"stripes": 2, "stripe_size": 2048}, "stripe_size: a stripe size must be a power of two and at least 4KiB"),
        ({"stripes": 2, "stripe_size": 8 * MIB}, "stripe_size: larger than an extent (4MiB)"),
        ({"extent_size": 3 * 1024}, "extent_size: an extent must be a power of two and at least 1KiB, or a multiple"),
        ({"extent_size": 0}, "extent_size: an extent must be a power of two"),
        ({"extent_size": GIB}, "extent_size: 1GiB is too large for devices of 1GiB"),
        ({"alignment": 1000}, "alignment: data begins at whole sectors of 512B"),
        ({"order": "1 2 3"}, "order: must name each of the 4 devices once, by its number counted from 1"),
        ({"order": "1 2 3 3"}, "order: must name each"),
        ({"order": "1 2 3 5"}, "order: must name each"),
        ({"stripes": 2, "order": "1 2 3 4"}, "order: must name each of the 2 devices once"),
        ({"size": 5 * GIB}, "size: there is room for "),
        ({"size": 0}, "size: too little space for one extent"),
        ({"size": "0.01%"}, "size: less than one extent (4MiB) for each stripe"),
        ({"type": "thin", "chunk": 48 * 1024}, "chunk: chunks of a thin volume are a multiple of 64KiB, up to 1GiB"),
        ({"type": "cache", "chunk": 16 * 1024}, "chunk: chunks of a cache volume are a multiple of 32KiB, up to 1GiB"),
        ({"type": "raid6", "devices": 5, "sync": "assume-clean"}, "sync: LVM always synchronises raid6"),
        ({"type": "mirror", "sync": "background"}, "sync: a mirror cannot be synchronised again"),
        ({"type": "cache", "volumes": 2}, "volumes: a cache serves one volume; for several, use `groups`"),
        ({"stripes": 4, "volumes": 256}, "volumes: less than one extent (4MiB) a stripe would be left for each of 256"),
        ({"volumes": 4, "size": GIB}, "size: there is room for 1020MiB each"),
    ],
)  # fmt: skip
def test_volumes_refused_by_lvm_are_impossible(fields: dict[str, Any], said: str) -> None:
    (found,) = problems(5 if fields.get("devices") == 5 and "type" in fields else 4, **fields)
    assert found.startswith(said)


def test_a_cache_must_be_large_enough_and_not_too_finely_cut() -> None:
    small = Below((Shape(GIB), Shape(8 * MIB)))
    (found,) = Lvm.model_construct(type="cache").problems(small)
    assert found == ("fast", "too small to hold a cache")
    (found,) = Lvm.model_construct(type="cache").problems(disks(2, 100 * GIB))
    assert found.field == "chunk"


def test_the_striping_study_needs_as_many_disks_as_stripes() -> None:
    found = space(MATRIX % "stripes: [1, 2, 3, 4], stripe_size: 64KiB")
    layers = [array.layers.value[0] for array in found.stacks]
    assert [(layer.type, layer.devices) for layer in layers if isinstance(layer, Lvm)] == [
        ("linear", 1), ("striped", 2), ("striped", 3), ("striped", 4),
    ]  # fmt: skip
    assert any("stripe_size is not an axis where a linear volume" in note for note in found.notes)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, {"type": "linear", "stripes": 1, "devices": 4, "order": "1 2 3 4", "stripe_size": None}),
        ({"type": "striped"}, {"stripes": 4, "stripe_size": 65536}),
        ({"type": "striped", "stripes": 1}, {"type": "linear", "devices": 1}),
        ({"type": "raid5"}, {"stripes": 3, "devices": 4}),
        ({"type": "raid4", "stripes": 2}, {"devices": 3}),
        ({"type": "raid10"}, {"stripes": 2, "mirrors": 1, "devices": 4}),
        ({"type": "raid1"}, {"stripes": 1, "mirrors": 1, "devices": 4}),
        ({"type": "thin"}, {"stripes": 1, "chunk": 65536}),
        ({"type": "cache", "stripes": 2}, {"devices": 3, "fast": 1, "cache_mode": "writethrough"}),
    ],
)
def test_missing_keys_get_defaults(fields: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = settled(**fields)
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert found.resolve(disks(4)) == found


def test_two_spellings_of_one_order_are_one_cell() -> None:
    assert len(space(MATRIX % 'order: ["1 2 3 4", "1  2 3 04", "2 1 3 4"]').stacks) == 2
    with pytest.raises(BadInput) as caught:
        space(MATRIX % "order: first")
    assert "not an order; write the numbers" in caught.value.details


@pytest.mark.parametrize(
    "text",
    ["stripe_size: 64KiB", "mirrors: 2", "sync: wait", "chunk: 64KiB", "fast: 1", "cache_mode: writeback",
     "type: raid1, stripe_size: 64KiB", "type: raid1, stripes: 2", "type: mirror, stripe_size: 64KiB"],
)  # fmt: skip
def test_keys_without_effect_are_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        space(MATRIX % text)
    assert "has no effect" in caught.value.details


TYPES = ["linear", "striped", "mirror", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "thin", "cache"]


@given(
    st.sampled_from(TYPES), st.integers(1, 8), st.sampled_from([128 * 1024, MIB, 4 * MIB, 384 * 1024]),
    st.sampled_from(["100%", "50%", 33 * 10**6]), st.integers(1, 9),
)  # fmt: skip
def test_sizes_are_whole_extents_within_the_group(kind: Any, count: int, extent: int, size: Any, volumes: int) -> None:
    layer = Lvm.model_construct(type=kind, extent_size=extent, size=size, volumes=volumes)
    below = disks(count)
    if list(layer.problems(below)):
        return
    found = layer.resolve(below)
    shape, *others = found.devices_above(below)
    assert others == [shape] * (volumes - 1)
    assert shape == layer.devices_above(below)[0]
    assert shape.size % (extent * (found.stripes or 1)) == 0
    assert 0 < shape.size * volumes < GIB * (count - found.cache_devices(below)) / found.copies
    assert shape.stripes == (found.stripes or 1)


def test_a_concatenation_of_equal_stripes_is_striped_alike() -> None:
    stripes = Below((Shape(GIB, 65536, 4),) * 4, "volumes")
    (shape,) = Lvm.model_construct(order="4 3 1 2").devices_above(stripes)
    assert (shape.chunk, shape.stripes) == (65536, 4)
    thin = Lvm.model_construct(type="thin", stripes=4, stripe_size=65536, chunk=65536)
    assert thin.devices_above(disks(4))[0].chunk is None


def view(count: int = 4, **fields: Any) -> LvmView:
    below = disks(count)
    ground = BuildContext(
        tuple(f"/dev/disk/by-id/a.b-{one}" for one in range(count)), below, 0, zeroed=True, bay="0", prefix="matrix"
    )
    (found,) = Lvm.model_construct(**fields).resolve(below).views(ground)
    assert isinstance(found, LvmView)
    return found


def test_lvm_sees_the_devices_of_the_layer_and_no_others() -> None:
    text = config(("/dev/sda", "/dev/disk/by-id/a.b+c"))
    patterns = re.findall(r'"a\|(.*?)\|"', text)
    assert [bool(re.search(pattern, "/dev/sda1")) for pattern in patterns[:2]] == [False, False]
    assert [bool(re.search(pattern, "/dev/disk/by-id/a.b+c")) for pattern in patterns[:2]] == [False, True]
    assert text.count('"r|.*|"]') == 2


def test_the_order_is_that_of_the_commands() -> None:
    found = view(order="4 3 1 2")
    assert found.members == tuple(f"/dev/disk/by-id/a.b-{one}" for one in range(4))
    for command in found.commands:
        assert [word[-1] for word in command if word.startswith("/dev/")] == ["3", "2", "0", "1"]
    assert found.tag != view().tag


def test_the_first_resync_is_ruled_out_where_lvm_lets_it() -> None:
    assert "--nosync" in view(type="raid5").commands[1]
    assert "--nosync" not in view(type="raid5", sync="wait").commands[1]
    assert view(5, type="raid6").resync == "waited for"
    assert view(type="raid5", sync="background").under_way == "resync"


def test_several_volumes_are_equal_parts_of_their_group() -> None:
    below = disks(4)
    layer = Lvm.model_construct(groups=2, volumes=3, size="50%").resolve(below)
    assert len(layer.devices_above(below)) == 6
    one = Lvm.model_construct(groups=2).resolve(below).devices_above(below)[0].size
    assert 0 <= one / 6 - layer.devices_above(below)[0].size < 4 * MIB
    ground = BuildContext(tuple(f"/dev/{letter}" for letter in "abcd"), below, 1, zeroed=True, bay="0", prefix="matrix")
    assert tops(layer.views(ground)) == (
        "/dev/mapper/matrix--1--0-volume1", "/dev/mapper/matrix--1--1-volume1",
        "/dev/mapper/matrix--1--0-volume2", "/dev/mapper/matrix--1--1-volume2",
        "/dev/mapper/matrix--1--0-volume3", "/dev/mapper/matrix--1--1-volume3",
    )  # fmt: skip


def test_linear_volumes_lie_one_behind_the_other_in_the_order_of_the_devices() -> None:
    below = Below((Shape(66 * MIB), Shape(34 * MIB)))
    layer = Lvm.model_construct(extent_size=MIB, volumes=3, order="2 1").resolve(below)
    assert [layer.pieces(below, number) for number in range(3)] == [
        [(0, 0, 31)], [(1, 0, 31)], [(1, 32, 63)],
    ]  # fmt: skip
    half = Lvm.model_construct(extent_size=MIB, size="50%").resolve(below)
    (found,) = half.views(BuildContext(("/dev/a:1", "/dev/b"), below, 0, zeroed=True, bay="0", prefix="matrix"))
    assert isinstance(found, LvmView)
    assert found.commands[1][-3:] == ("48", "matrix-0", "/dev/a\\:1:0-47")
    assert found.volumes[0].readings["order"] == "1"
    most = half.model_copy(update={"size": "75%"})
    (found,) = most.views(BuildContext(("/dev/a", "/dev/b"), below, 0, zeroed=True, bay="0", prefix="matrix"))
    assert isinstance(found, LvmView)
    assert found.commands[2] == ("lvextend", "--extents", "+8", "matrix-0/volume", "/dev/b:0-7")
    assert found.volumes[0].readings["order"] == "1 2"


def test_several_thin_volumes_share_one_pool_and_fit_into_it() -> None:
    found = view(type="thin", volumes=3, chunk=384 * 1024, extent_size=256 * 1024)
    pool, *more = [command for command in found.commands if command[0] == "lvcreate"]
    assert [command[2] for command in (pool, *more)] == ["volume1", "volume2", "volume3"]
    sizes = dict(itertools.pairwise(pool))
    each = int(sizes["--virtualsize"].removesuffix("b"))
    assert each % (384 * 1024) == 0
    assert 3 * each <= int(sizes["--size"].removesuffix("b"))
    assert all(f"{each}b" in command and "--size" not in command for command in more)


def test_a_group_of_one_volume_is_what_it_was_before_there_could_be_several() -> None:
    one, plain = (space(MATRIX % text) for text in ("volumes: 1, stripes: 2", "stripes: 2"))
    assert [(cell.id, cell.name) for cell in one.cells()] == [(cell.id, cell.name) for cell in plain.cells()]
    assert [cell.id for cell in plain.cells()] == ["80b05ce2f903f04d"]


def test_concatenating_unequal_devices_keeps_their_order() -> None:
    below = Below((Shape(GIB), Shape(2 * GIB)))
    layer = Lvm.model_construct().resolve(below)
    (found,) = layer.views(BuildContext(("/dev/a", "/dev/b"), below, 0, zeroed=True, bay="0", prefix="matrix"))
    assert isinstance(found, LvmView)
    assert [command[0] for command in found.commands] == ["vgcreate", "lvcreate", "lvextend"]
    assert [command[-1] for command in found.commands[1:]] == ["/dev/a", "/dev/b"]


def test_a_linear_volume_ignores_the_stripes_of_others() -> None:
    found = space(MATRIX % "type: [linear, striped], stripes: 2")
    layers = [array.layers.value[0] for array in found.stacks]
    assert [(layer.type, layer.stripes, layer.devices) for layer in layers if isinstance(layer, Lvm)] == [
        ("linear", 1, 4), ("striped", 2, 2),
    ]  # fmt: skip
    assert [dict(array.coords).get("lvm.stripes") for array in found.stacks] == [None, "2"]


def test_stripes_of_a_linear_volume_are_a_contradiction() -> None:
    with pytest.raises(BadInput) as error:
        space(MATRIX % "stripes: 2, type: linear")
    told = "sweep.yaml:3:32: 'stripes' has no effect: a linear volume has no stripes; `devices` sets how many it uses"
    assert told in error.value.details
