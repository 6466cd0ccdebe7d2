"""Stacks with parts: groups of disks, parts that layers name, and what is refused about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import BadInput
from matrix_runner.scripts.cell import stack_scripts
from matrix_runner.scripts.recommended_commands import recommended_script
from matrix_runner.space.variants import disks_at_work, levels
from tests.support.matrices import space
from tests.support.parted import PARTED

if TYPE_CHECKING:
    from matrix_runner.scripts.stack import StackView
    from matrix_runner.space.space import Stack


def stacks(layouts: str) -> dict[str, Stack]:
    return {cell.stack.label: cell.stack for cell in space(PARTED % layouts).cells()}


def view(stack: Stack) -> StackView:
    return stack_scripts(stack, [f"/dev/disk/by-id/matrix-{number}" for number in range(5)], zeroed=True).stack


def view_script(stack: Stack) -> str:
    return stack_scripts(stack, [f"/dev/disk/by-id/matrix-{number}" for number in range(5)], zeroed=True).set_up


def refused(layouts: str) -> str:
    with pytest.raises(BadInput) as caught:
        space(PARTED % layouts)
    return caught.value.details


CACHED = "{on: array, layers: [lvm: {type: cache, fast: ssd}], parts: {array: {on: hdd, layers: [md: {level: 5}]}}}"


def test_a_layer_gets_the_devices_below_and_those_of_the_part_that_it_names() -> None:
    (stack,) = stacks(f"cached: {CACHED}").values()
    *_, lvm = view(stack).layers
    assert lvm.members == ("/dev/md/matrix-1", "/dev/disk/by-id/matrix-4")
    assert view(stack).tops == lvm.tops
    assert len(view(stack).disks) == 5


def test_a_layout_on_one_group_leaves_the_other_disks_alone() -> None:
    (stack,) = stacks("fast: {on: ssd, layers: [crypt]}").values()
    assert view(stack).disks == ("/dev/disk/by-id/matrix-4",)
    assert 400 << 20 < stack.room < 512 << 20


def test_groups_together_are_in_the_order_of_on() -> None:
    (stack,) = stacks("both: {on: [ssd, hdd], layers: [md: {level: linear}]}").values()
    assert view(stack).disks == tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(5))
    assert view(stack).layers[-1].members[0] == "/dev/disk/by-id/matrix-4"


def test_a_short_list_is_on_the_disks_of_all_groups() -> None:
    (stack,) = stacks("all: [md: {level: 6}]").values()
    assert len(view(stack).disks) == 5


def test_a_lost_cache_loses_data_and_a_lost_member_of_the_array_does_not() -> None:
    late = CACHED.replace("fast: ssd", "fast: ssd, cache_mode: writeback")
    found = stacks(f"once: {CACHED}, late: {late}, plain: {{on: hdd, layers: [md: {{level: 5}}]}}")
    losses = {name: stack.losses for name, stack in found.items()}
    assert losses == {"once": 1, "late": 0, "plain": 1}, "a cache that writes through has no data of its own"


def test_only_layers_below_decide_whether_disks_read_as_zeros() -> None:
    parts = "{log: {on: ssd, layers: [crypt]}, array: {on: hdd, layers: [md: {level: 5, sync: assume-clean}]}}"
    (stack,) = stacks(f"one: {{on: array, layers: [lvm: {{type: cache, fast: log}}], parts: {parts}}}").values()
    assert stack.assumes_zeros
    other = "{on: array, layers: [md: {level: 1, sync: assume-clean}], parts: {array: {on: hdd, layers: [crypt]}}}"
    assert "assume-clean needs members that read as zeros, not crypt" in refused(f"one: {other}")


def test_names_and_shapes_of_groups_are_part_of_the_id() -> None:
    text = PARTED % "one: {on: hdd, layers: [md: {level: 5}]}"

    def ids(text: str) -> set[str]:
        return {cell.id for cell in space(text).cells()}

    other = text.replace("hdd: {count: 4", "hdd: {count: 3").replace("ssd: {count: 1", "ssd: {count: 2")
    assert len(ids(text) | ids(text.replace("hdd", "slow")) | ids(other)) == 3
    short = PARTED % "one: [md: {level: 5}]"
    unnamed = short.replace("{hdd: {", "[{").replace("}, ssd: {", "}, {").replace("MiB}}\nlayouts", "MiB}]\nlayouts")
    assert ids(short) == ids(unnamed)


def test_a_run_recognises_its_matrix_by_the_names_of_groups() -> None:
    needs = "needs: {disks: {hdd: {count: 4, kind: hdd}, ssd: {count: 1}}}\n"
    text = PARTED % f"one: {CACHED}, two: {{on: ssd}}"
    first, second = (space(one).matrix.model_dump(mode="json") for one in (text, text + needs))  # a warning is an error
    assert first["needs"] is None
    assert second["needs"]["disks"]["hdd"]["kind"] == "hdd"
    assert [group["group"] for group in first["disks"]] == ["hdd", "ssd"]
    assert [first["layouts"][name]["on"] for name in ("one", "two")] == [["array"], ["ssd"]]


def test_an_axis_may_name_several_parts() -> None:
    parts = "{fast: {on: ssd, layers: [partition: {size: 50%%}]}}".replace("%%", "%")
    found = stacks(
        f"one: {{on: hdd, layers: [md: {{level: 5}}, lvm: {{type: cache, fast: [ssd]}}]}}, "
        f"two: {{on: hdd, layers: [md: {{level: 5}}, lvm: {{type: cache, fast: fast}}], parts: {parts}}}"
    )
    assert set(found) == {"one", "two"}


@pytest.mark.parametrize(("kind", "option"), [("ext4", "-Jdevice="), ("ext3", "-Jdevice="), ("xfs", "-llogdev=")])
def test_a_journal_on_a_part_is_no_device_of_the_file_system(kind: str, option: str) -> None:
    found = stacks(f"one: {{on: hdd, layers: [md: {{level: 5}}, fs: {{type: {kind}, journal: [internal, ssd]}}]}}")
    inside, beside = found["one/journal=internal"], found["one/journal=ssd"]
    assert inside.room == beside.room
    assert (inside.losses, beside.losses) == (1, 0)
    *_, fs = view(beside).layers
    assert fs.members == ("/dev/md/matrix-1", "/dev/disk/by-id/matrix-4")
    text = stack_scripts(beside, fs.members[:1] * 4 + fs.members[1:], zeroed=True).set_up
    assert f"{option}/dev/disk/by-id/matrix-4 /dev/md/" in text
    assert "journal_dev" in text or kind == "xfs"


@pytest.mark.parametrize(
    ("kind", "size", "written", "option"),
    [
        ("ext4", "512MiB", 512 << 20, ""),
        ("ext4", "8GiB", 8 << 30, ""),
        ("xfs", "512MiB", 512 << 20, ""),
        ("xfs", "8GiB", 2038 << 20, ",size=2136997888"),
        ("xfs, block_size: 1KiB", "8GiB", 1 << 30, ",size=1073741824"),
    ],
)
def test_a_journal_on_a_part_is_written_once_and_no_longer_than_possible(
    kind: str, size: str, written: int, option: str
) -> None:
    text = (
        PARTED.replace("512MiB", size)
        % f"one: {{on: hdd, layers: [md: {{level: 5}}, fs: {{type: {kind}, journal: ssd}}]}}"
    )
    (cell,) = space(text).cells()
    *_, (fs, below) = levels(cell.stack.layers.value, cell.stack.disks)
    assert fs.bytes_written(below) == written
    assert f"/dev/disk/by-id/matrix-4{option} /dev/md/" in view_script(cell.stack)
    assert disks_at_work(cell.stack.layers.value, cell.stack.disks) == 3, "the data disks of the array"


def test_the_recommended_script_has_journals_and_caches_on_their_disks() -> None:
    layouts = "a: {on: hdd, layers: [md: {level: 5}, fs: {type: [ext4, xfs], journal: ssd}]}"
    ext4, xfs = (recommended_script(cell) for cell in space(PARTED % layouts).cells())
    assert 'mke2fs -b 4096 -O journal_dev -E nodiscard "$disk05"' in ext4
    assert '-Jdevice="$disk05" /dev/md/' in ext4
    assert '-llogdev="$disk05" /dev/md/' in xfs
    assert 'journal_path="$disk05"' in ext4
    (cached,) = space(PARTED % "a: {on: hdd, layers: [md: {level: 5}, writecache: {cache: ssd}]}").cells()
    assert 'target=(writecache s /dev/md/matrix-1 "$disk05" 4096 ' in recommended_script(cached)


def test_a_write_cache_has_its_mark_before_its_superblock() -> None:
    (stack,) = stacks("one: {on: hdd, layers: [md: {level: 5}, writecache: {cache: ssd, writeback_jobs: 8}]}").values()
    scripts = stack_scripts(stack, [f"/dev/disk/by-id/matrix-{number}" for number in range(5)], zeroed=True)
    assert (
        "(writecache s /dev/md/matrix-1 /dev/disk/by-id/matrix-4 4096 8 start_sector 8 high_watermark" in scripts.set_up
    )
    assert (stack.losses, stack.tops, stack.width) == (0, 1, 3)
    assert scripts.stack.bare == ()


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ("{on: hd, layers: [md: {level: 5}]}", "no group of disks and no part above called hd; did you mean hdd?"),
        ("{on: hdd, layers: [md: {level: 5}, lvm: {type: cache, fast: hdd}]}", "hdd is used already"),
        ("[lvm: {type: cache, fast: ssd}]", "a layout with parts is a map with `on`, `parts` and `layers`"),
        ("{on: hdd, layers: [disk], parts: {log: {on: ssd}}}", "no layer uses the part log"),
        ("{on: hdd, layers: [crypt], parts: {ssd: {on: hdd}}}", "ssd is a group of disks; give the part another name"),
        ("{on: a, layers: [md: {level: 0}], parts: {a: {on: hdd, layers: [disk, fs: {type: ext4}]}}}", "a is a file system"),
        ("{on: hdd, layers: [lvm: {type: cache, fast: ssd, groups: 2}]}", "several groups cannot share ssd"),
        ("{on: hdd, layers: [lvm: {type: cache, fast: ssd, stripes: 2}]}", "it uses all devices of `on:`"),
        ("{on: hdd, layers: [lvm: {type: cache, fast: ssd, devices: 3}]}", "it uses all devices of `on:`"),
        ('{on: hdd, layers: [lvm: {type: cache, fast: ssd, order: "1 2 3 4 5"}]}', "it uses all devices of `on:`"),
        ("{on: hdd, layers: [disk, fs: {type: btrfs, journal: ssd}]}", "btrfs has no journal on another device"),
        ("{on: ssd, layers: [fs: {type: ext4, journal: hdd}]}", "a journal is on one device, and hdd has 4"),
        ("{on: hdd, layers: [writecache: {cache: ssd}]}", "it caches one device, but `on` selects 4 disks"),
        ("{on: ssd, layers: [writecache: {cache: hdd}]}", "the cache is on one device, and hdd has 4"),
        ("{on: hdd, layers: [md: {level: 5}, writecache: {cache: ssd, low_watermark: 60}]}", "must be at most high_watermark (50)"),
        ("{on: hdd, layers: [md: {level: 5}, writecache: {cache: ssd, block_size: 8KiB}]}", "a page of memory"),
        ("{layers: [md: {level: 5}]}", "'on' is missing"),
        ("{on: hdd, layer: [md: {level: 5}]}", "unknown key 'layer'; did you mean layers?"),
        ("{on: hdd, layers: [md: {level: 7}]}", "level"),
        ("{on: b, layers: [disk], parts: {b: {on: c}, c: {on: hdd}}}", "no part above called c"),
    ],
)  # fmt: skip
def test_impossible_parts_are_refused_with_the_reason(layout: str, why: str) -> None:
    assert why in refused(f"one: {layout}")


def test_a_part_without_use_has_its_place() -> None:
    parts = "{idle: {on: ssd}, array: {on: hdd, layers: [md: {level: 5}]}}"
    assert "3:53: no layer uses the part idle" in refused(f"one: {{on: array, layers: [crypt], parts: {parts}}}")


def test_a_mistake_in_a_group_of_disks_has_its_place() -> None:
    with pytest.raises(BadInput) as caught:
        space((PARTED % "one: [disk]").replace("size: 512MiB", "size: 512"))
    assert "2:60" in caught.value.details
