"""What may be declared of ZFS, its sizes, and what its scripts do, before anything is built."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from matrix_runner.layers.geometry import Below, Part, Shape
from matrix_runner.layers.zfs import Zfs, ZfsView
from matrix_runner.machines.local import Local
from matrix_runner.machines.needs import lacks
from matrix_runner.machines.qemu import Qemu
from matrix_runner.scripts.cell import CellScripts, StackScripts, cell_scripts, stack_scripts
from matrix_runner.scripts.recommended_commands import recommended_script
from matrix_runner.space.load import BadMatrix
from tests.support.matrices import space
from tests.support.shell import complaints

POOL = """\
name: pools
disks: {hdd: {count: 6, size: 1GiB}, ssd: {count: 2, size: 256MiB}}
workloads: {work: {rw: write, size: 16MiB}}
layouts:
  one: {on: hdd, layers: [zfs: {%s}]}
"""
GIB = 1 << 30


def scripts_of(text: str) -> tuple[StackScripts, CellScripts, ZfsView, str]:
    (cell,) = space(text).cells()
    scripts = stack_scripts(cell.stack, [f"/dev/disk/by-id/matrix-{number}" for number in range(8)], zeroed=True)
    (view,) = (layer for layer in scripts.stack.layers if isinstance(layer, ZfsView))
    return scripts, cell_scripts(cell, scripts.stack), view, recommended_script(cell)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("vdev: mirror, vdevs: 4", "they do not make 4 equal vdevs"),
        ("vdev: raidz2, vdevs: 3", "a vdev of raidz2 needs at least 3 devices"),
        ("vdev: draid2, data: 4, spares: 1", "a vdev of draid2 needs at least 7 devices"),
        ("vdev: raidz1, recordsize: 100KiB", "a record must be a power of two"),
        ("vdev: raidz1, recordsize: 32MiB", "at most 16MiB"),
        ("vdev: raidz1, type: zvol, volblocksize: 1MiB", "at most 128KiB"),
        ("vdev: raidz1, volblocksize: 8KiB", "a dataset has no such property"),
        ("vdev: raidz1, type: zvol, recordsize: 8KiB", "a zvol has no such property"),
        ("vdev: raidz1, spares: 1", "vdev raidz1 has none; dRAID has"),
        ("vdev: stripe, vdevs: 2", "in a stripe, each device is a vdev"),
        ("vdev: raidz1, ashift: 17", "16"),
        ("vdev: raidz1, arc: 32MiB", "at least 64MiB"),
        ("vdev: raidz1, log: ssd, cache: ssd", "ssd has two uses here"),
        ("vdev: raidz1, log: nvme", "there is no group of disks and no part above called nvme"),
    ],
)
def test_impossible_pools_are_refused(keys: str, why: str) -> None:
    with pytest.raises(BadMatrix) as bad:
        space(POOL % keys)
    assert why in str(bad.value.details)


def test_blocks_are_no_smaller_than_sectors() -> None:
    below = Below((Shape(GIB, sector=4096),) * 3)
    (problem,) = Zfs.model_validate({"vdev": "raidz1", "ashift": 9}).problems(below)
    assert problem == ("ashift", "9 is 512B, and sectors are 4096B here")


def test_usual_names_lead_to_the_layer() -> None:
    for name, meant in (("raidz2", "zfs: {vdev: raidz2}"), ("zpool", "zfs: {vdev: mirror}")):
        with pytest.raises(BadMatrix) as bad:
            space(POOL.replace("zfs:", f"{name}:") % "level: 1")
        assert meant in str(bad.value.details)


#: As `zfs get available` said of new pools of disks of 512 MiB, and twice the same with larger blocks.
@pytest.mark.parametrize(
    ("keys", "count", "available"),
    [
        ({"vdev": "raidz2"}, 6, 1831551792),
        ({"vdev": "stripe"}, 3, 1375326208),
        ({"vdev": "draid2", "data": 4, "spares": 1}, 8, 2009515600),
    ],
)
def test_the_estimated_room_is_a_close_lower_bound(keys: dict[str, Any], count: int, available: int) -> None:
    layer = Zfs.model_validate(keys)
    (top,) = layer.devices_above(Below((Shape(512 << 20),) * count))
    assert 0.85 * available < top.size < available
    (small,) = layer.model_copy(update={"recordsize": 4096}).devices_above(Below((Shape(512 << 20),) * count))
    assert small.size < top.size, "small blocks have more parity"


@pytest.mark.parametrize(
    ("keys", "losses", "stripes"),
    [
        ({"vdev": "stripe"}, 0, 6),
        ({"vdev": "mirror", "vdevs": 2}, 2, 2),
        ({"vdev": "raidz2"}, 2, 4),
        ({"vdev": "raidz1", "vdevs": 2}, 1, 4),
        ({"vdev": "draid3", "spares": 1}, 3, 2),
        ({"vdev": "raidz2", "log": "ssd"}, 2, 4),
        ({"vdev": "raidz2", "special": "ssd"}, 0, 4),
    ],
)
def test_lost_disks_that_data_survives(keys: dict[str, Any], losses: int, stripes: int) -> None:
    layer = Zfs.model_validate(keys)
    ssd = Part("ssd", Below((Shape(GIB),)))
    (top,) = layer.devices_above(Below((Shape(GIB),) * 6, parts=(ssd,)).joined(layer.parts))
    assert (top.losses, top.stripes) == (losses, stripes)


@pytest.mark.parametrize(
    ("moved", "idle"),
    [("100000 9 0 0 100000 0 0 0", "of devices 2 3"), ("60000 9 0 0 10000 0 0 0", ""), ("0 0 0 0 0 0 0 0", "")],
)
def test_a_vdev_without_data_is_an_error_if_there_was_enough_for_all(moved: str, idle: str) -> None:
    _, phases, *_ = scripts_of(POOL % "vdev: mirror, vdevs: 3, special: ssd")
    begin = phases.measure.index("\nmoved=\n")
    part = phases.measure[begin : phases.measure.index("\nat=", begin)]
    script = f'fail() {{ echo "$*"; exit 4; }}\ncounted=({moved})\n{part}'
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
    assert (done.returncode, idle in done.stdout) == (4 if idle else 0, True), done


def test_a_pool_is_built_of_nodes_and_read_back_as_declared() -> None:
    scripts, phases, view, recommended = scripts_of(
        POOL % "vdev: mirror, vdevs: 3, special: ssd, compression: off, direct: always, arc: 128MiB"
    )
    nodes = [f"{view.nodes}/{number}" for number in range(8)]
    tree = f"mirror {' '.join(nodes[:2])} mirror {' '.join(nodes[2:4])} mirror {' '.join(nodes[4:6])} special mirror"
    assert f"{tree} {nodes[6]} {nodes[7]}" in scripts.set_up
    assert view.shown == "mirror-0 0 1 mirror-1 2 3 mirror-2 4 5 special mirror-3 6 7"
    for text in (
        "-O compression=off",
        "-O direct=always",
        'echo 134217728 >"$parameters"/zfs_arc_max',
        "-o ashift=12",
        f"-m {view.directory} {view.pool}",
    ):
        assert text in scripts.set_up
    for text in (
        "told zfs.direct always",
        "told zfs.ashift 12",
        "told zfs.arc 134217728",
        f"told zfs.vdevs '{view.shown}'",
    ):
        assert text in phases.verify
    assert f"zpool export {view.pool}" in phases.tune, "the ARC is empty at the start of a trial"
    assert "moved no bytes" in phases.measure
    assert view.marks == (view.pool,)
    assert scripts.stack.bare == ()
    assert 'mirror "$disk1" "$disk2" mirror "$disk3" "$disk4"' in recommended.replace("disk0", "disk")
    assert "mount_point=/srv/data" in recommended


def test_a_volume_is_a_device_and_its_pool_stays_while_a_layer_uses_it() -> None:
    keys = "vdev: draid1, data: 2, spares: 1, type: zvol, cache: ssd"
    scripts, phases, view, _ = scripts_of(POOL % keys)
    assert view.shown == "draid1:2d:6c:1s-0 0 1 2 3 4 5 cache 6 7 spares draid1-0-0"
    assert scripts.stack.tops == (view.device,)
    assert f"zfs create -s -V {view.volume} -o volblocksize=16384 {view.pool}/volume" in scripts.set_up
    assert "zpool export" in phases.tune
    _, under, _, recommended = scripts_of((POOL % keys).replace("cache: ssd}", "cache: ssd}, fs: {type: ext4}"))
    assert "zpool export" not in under.tune, "a volume in use cannot be exported"
    assert "mkfs.ext4" in recommended


def test_a_host_without_zfs_is_told_what_brings_it() -> None:
    layer = Zfs.model_validate({"vdev": "raidz2", "direct": "always"})
    bare = {"kernel": "6.1.0", "without": "zfs"}
    (local,) = lacks([layer], Local(), bare)
    assert local.message == (
        "`zfs` needs zfs, and this kernel (6.1.0) has no such module: install zfs-dkms, or use qemu, which builds it"
    )
    (qemu,) = lacks([layer], Qemu(), bare)
    assert qemu.resolution == "use a kernel of Debian that its zfs-dkms supports"
    (old,) = lacks([layer], Local(), {"zfs": "2.1.11-1+deb12u1"})
    assert "`zfs: {direct: always}` needs zfs 2.3 or later, and this is 2.1.11" in old.message
    assert not lacks([layer.model_copy(update={"direct": None})], Local(), {"zfs": "2.1.11-1+deb12u1"})


def test_its_scripts_pass_shellcheck() -> None:
    texts = list[str]()
    for keys in (
        "vdev: raidz2, log: ssd",
        "vdev: stripe, special: ssd, type: zvol",
        "vdev: draid1, cache: ssd, type: zvol}, fs: {type: ext4",
    ):
        scripts, phases, _, recommended = scripts_of(POOL % keys)
        texts += [scripts.set_up, scripts.tear_down, scripts.activate, phases.tune, phases.verify, phases.measure]
        texts.append(recommended)
    assert complaints(texts) == ""
