"""ZFS on a real kernel: pools built, read back, changed behind their back, found again, and taken apart.

The first test of a host builds the modules, which takes ten minutes or more: at night only.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from matrix_runner.carry.trial import NotOnThisRig, StackOnRig
from matrix_runner.layers.zfs import ZfsView
from matrix_runner.machines.base import Rig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.space.space import Cell, Space, Stack
from tests.support.matrices import space
from tests.support.rigs import rig_of, spec_of
from tests.support.stacks_on_rigs import cells_of, done, read, run

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(5400)]

HEAD = """\
name: pools
disks: {hdd: {count: 4, size: 256MiB}, ssd: {count: 2, size: 256MiB}}
machine: {memory: 1GiB}
workloads: {work: {rw: randwrite, bs: 4KiB, size: 8MiB, fsync: 1, runtime: 1s}}
repeat: 1
layouts:
"""
POOLS = """\
  mirrors: {on: hdd, layers: [zfs: {vdev: mirror, vdevs: 2, log: ssd, recordsize: 16KiB, direct: standard, sync: always}]}
  parity: {on: hdd, layers: [zfs: {vdev: raidz2, special: ssd, primarycache: metadata, compression: zstd, ashift: 13, arc: 96MiB}]}
  spread: {on: hdd, layers: [zfs: {vdev: draid1, spares: 1, cache: ssd, type: zvol, volblocksize: 8KiB}]}
  under: {on: hdd, layers: [zfs: {vdev: stripe, type: zvol}, fs: {type: ext4}]}
"""
#: What changes each setting behind its back; {pool} and {data} are the pool, and its dataset or volume.
MEDDLES = {
    "mirrors": {
        "recordsize": "zfs set recordsize=64K {data}",
        "direct": "zfs set direct=disabled {data}",
        "sync": "zfs set sync=disabled {data}",
        "vdevs": "zpool offline {pool} {nodes}/1",
        "mounted": "zfs unmount {data}",
    },
    "parity": {
        "primarycache": "zfs set primarycache=none {data}",
        "compression": "zfs set compression=off {data}",
        "arc": "echo 134217728 >/sys/module/zfs/parameters/zfs_arc_max",
        "devices": "rm {nodes}/0; mknod {nodes}/0 b 1 1",
        "ashift": "truncate -s 256M /tmp/more; zpool add -f -o ashift=9 {pool} /tmp/more",
    },
    "spread": {
        "volblocksize": "zfs destroy {data} && zfs create -s -V {volume} -b 4K {data}",
    },
    "under": {},
}


async def _one(stack: Stack, cell: Cell, rig: Rig) -> dict[str, tuple[str, ...]]:
    scripts = stack_scripts(stack, rig.disks, zeroed=True)
    await done(rig, scripts.set_up)
    phases = cell_scripts(cell, scripts.stack)
    await done(rig, phases.tune)
    readings = read(await done(rig, phases.verify))
    (view,) = (layer for layer in scripts.stack.layers if isinstance(layer, ZfsView))
    for setting, command in MEDDLES[stack.label].items():
        names = {"pool": view.pool, "data": view.data, "nodes": view.nodes, "volume": view.volume}
        await done(rig, command.format(**names))
        found = await run(rig, phases.verify)
        assert found.status == 4, setting
        assert f"zfs.{setting} wanted" in found.output
    await done(rig, scripts.set_up)
    if stack.label != "under":  # as after a reboot or a lost connection
        await done(rig, f"zpool export {view.pool}")
        await done(rig, scripts.activate)
        assert {*read(await done(rig, phases.verify))} == {*readings}
        await done(rig, f"zpool export {view.pool}")
    await done(rig, scripts.tear_down)
    await done(rig, scripts.tear_down)
    left = await done(
        rig, f"wipefs --noheadings {' '.join(rig.disks)}; ls -d /dev/matrix-*/ /run/matrix/mnt* 2>/dev/null || true"
    )
    assert left.strip() == "", stack.label
    return readings


async def _every(found: Space, scratch: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    async with rig_of(replace(spec_of(found), memory=1 << 30), scratch) as rig:
        return {stack.label: await _one(stack, cell, rig) for stack, cell in cells_of(found)}


async def _measured(found: Space, scratch: Path, kernel: str) -> list[tuple[str, str]]:
    machine, seen = Qemu(), []
    async with rig_of(replace(spec_of(found, kernel), memory=1 << 30), scratch) as rig:
        for cell in found.cells():
            built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
            measured = await built.measure(cell, 1)
            readings = {one.setting: one.got for one in measured.trial.readings}
            seen.append((measured.trial.reason, readings["zfs.version"]))
            await built.tear_down()
    return seen


def test_each_key_is_read_back_and_a_change_behind_its_back_found(tmp_path: Path) -> None:
    readings = asyncio.run(_every(space(HEAD + POOLS), tmp_path))
    assert readings["mirrors"]["zfs.vdevs"][1] == "mirror-0 0 1 mirror-1 2 3 logs mirror-2 4 5"
    assert readings["parity"]["zfs.ashift"] == ("13", "13")
    assert readings["spread"]["zfs.vdevs"][1] == "draid1:2d:4c:1s-0 0 1 2 3 cache 4 5 spares draid1-0-0"


@pytest.mark.parametrize(
    ("kernel", "version"),
    [("debian-12", "2.1"), ("debian-12-backports", "2.3"), ("debian-13", "2.3"), ("debian-13-backports", "2.4")],
)
def test_pools_are_measured_on_kernels_of_debian(tmp_path: Path, kernel: str, version: str) -> None:
    pools = "  one: {on: hdd, layers: [zfs: {vdev: raidz1, log: ssd}]}\n"
    measured, lacking = [], ""
    try:
        measured = asyncio.run(_measured(space(HEAD + pools), tmp_path, kernel))
    except NotOnThisRig as error:
        lacking = error.brief
    if lacking:  # backports have a newer kernel than their ZFS supports from time to time
        assert kernel.endswith("-backports")
        assert "has no such module: use a kernel of Debian that its zfs-dkms supports" in lacking
    for reason, got in measured:
        assert reason == ""
        assert got.startswith(version)
