"""LVM on real kernels: every type built, read back, written through, taken apart; and found again after a reboot."""

import asyncio
from pathlib import Path

import pytest

from matrix_runner.machines.base import Rig, StepResult
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.space.space import Cell, Space, Stack
from matrix_runner.space.variants import levels
from tests.support.matrices import space
from tests.support.rigs import content_of, rig_of, spec_of
from tests.support.stacks_on_rigs import COMPARE, PATTERN, WRITE, _rebooted, cells_of, done, read, run

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]

TYPES = """\
name: types
disks: {count: 5, size: 64MiB}
layouts:
  stripes: [disks: {count: 4}, lvm: {stripes: [1, 2, 3, 4], stripe_size: 64KiB}]
  linear: [lvm: {order: "4 3 1 2 5"}]
  part: [lvm: {size: [50%, 33MB], extent_size: 384KiB, alignment: 4MiB}]
  mirror: [disks: {count: 4}, lvm: {type: mirror, stripes: [1, 2], stripe_size: 16KiB}]
  raid0: [lvm: {type: raid0, stripe_size: 16KiB}]
  raid1: [lvm: {type: raid1, devices: 3, mirrors: 2, sync: [auto, wait]}]
  raid4: [lvm: {type: raid4, stripes: 3}]
  raid5: [lvm: {type: raid5, order: "5 4 3 2 1", size: 50%}]
  raid6: [lvm: {type: raid6, stripes: 3}]
  raid10: [lvm: {type: raid10, devices: 4}]
  thin: [lvm: {type: thin, stripes: [1, 4], chunk: 128KiB}]
  cache: [lvm: {type: cache, fast: 1, cache_mode: [writethrough, writeback], stripes: 2}]
  syncing: [lvm: {type: raid5, sync: background}]
  on_md: [disks: {count: 4}, md: {level: 5}, lvm: {}]
  under_md: [disks: {count: 4}, lvm: {groups: 2, stripes: 2}, md: {level: 1}]
  uneven: [partition: {from: 25%}, lvm: {stripes: 3}]
workloads: {work: {rw: write, bs: 64KiB, size: 8MiB}}
repeat: 1
"""

HIERARCHICAL = """\
name: hierarchical
disks: {count: 2, size: 64MiB}
layouts:
  hierarchical:
    - partition: {count: 2}
    - lvm: {groups: 2, stripes: 2, stripe_size: 64KiB, extent_size: 1MiB}
    - lvm: {order: "2 1", extent_size: 1MiB}
    - partition: {count: 2}
    - crypt: {format: luks1}
workloads: {work: {rw: write, bs: 64KiB, size: 1MiB}}
repeat: 1
"""


async def _one(array: Stack, cell: Cell, rig: Rig) -> dict[str, tuple[str, ...]]:
    """Built, read back, written through, taken apart twice; what was read back."""
    scripts = stack_scripts(array, rig.disks, zeroed=True)
    top = scripts.stack.tops[0]
    await done(rig, scripts.set_up)
    phases = cell_scripts(cell, scripts.stack)
    await done(rig, phases.tune)
    readings = read(await done(rig, phases.verify))
    await done(rig, WRITE.format(top=top) + COMPARE.format(top=top))
    await done(rig, scripts.tear_down)
    await done(rig, scripts.tear_down)
    left = await done(rig, f"dmsetup ls; ls {{/run/matrix,/dev/mapper}}; wipefs {' '.join(rig.disks)}")
    assert left.split() == [
        "No",
        "devices",
        "found",
        "/dev/mapper:",
        "control",
        "/run/matrix:",
        "lvm",
        "trial",
    ], left
    return readings


async def _every(found: Space, scratch: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    async with rig_of(spec_of(found), scratch) as rig:
        await done(rig, PATTERN)
        return {array.label: await _one(array, cell, rig) for array, cell in cells_of(found)}


@pytest.mark.exhaustive
def test_every_type_is_built_read_back_written_through_and_taken_apart(tmp_path: Path) -> None:
    found = space(TYPES)
    readings = asyncio.run(_every(found, tmp_path))
    for array in found.stacks:
        *_, (layer, below) = levels(array.layers.value, array.disks)
        (shape,) = layer.devices_above(below)
        sectors = next(got for name, (_, got) in readings[array.label].items() if name in {"lvm.size", "md.size"})
        assert shape.size <= int(sectors) * 512 < shape.size + 2 * 4 * 2**20 * 4, array.label
    assert readings["linear"]["lvm.order"] == ("4 3 1 2 5", "4 3 1 2 5")
    assert readings["raid5"]["lvm.order"] == ("5 4 3 2 1", "5 4 3 2 1")
    assert readings["raid6"]["lvm.type"] == ("raid6", "raid6")
    assert readings["syncing"]["lvm.sync_action"] == ("resync", "resync")
    assert readings["part/size=33MB"]["lvm.data_start"] == ("4194304", "4194304")
    assert readings["cache/cache_mode=writeback"]["lvm.fast"] == ("3", "3")


#: Each boot takes 8 s: those are for the night.
@pytest.mark.parametrize("cold", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_volumes_of_volumes_and_their_encrypted_partitions_are_found_again_after_a_reboot(
    tmp_path: Path, *, cold: bool
) -> None:
    (readings,) = asyncio.run(_rebooted(space(HIERARCHICAL), tmp_path, cold=cold))
    assert readings["lvm2.order"] == ("2 1", "2 1")
    assert readings["partition2[2].start"][0] == readings["partition2[2].start"][1]


SMALL = """\
name: small
disks: {count: 2, size: 64MiB}
layouts: {volume: [lvm: {stripes: 1}]}
workloads: {work: {rw: write, bs: 64KiB, size: 8MiB}}
repeat: 1
"""


async def _foreign(found: Space, scratch: Path) -> dict[str, StepResult]:
    """Somebody else's group of our name: on a disk that is not ours; and on ours."""
    (array, cell), *_ = cells_of(found)
    results = {}
    async with rig_of(spec_of(found), scratch) as rig:
        scripts = stack_scripts(array, rig.disks, zeroed=True)
        other, ours = rig.disks[1], rig.disks[0]
        await done(rig, f"vgcreate -q matrix-0 {other}")
        before = await content_of(rig, 1)
        results["elsewhere"] = await run(rig, scripts.set_up)
        results["torn down"] = await run(rig, scripts.tear_down)
        assert await content_of(rig, 1) == before
        await done(rig, f"vgremove -qy matrix-0 && pvremove -qy {other} && vgcreate -q matrix-0 {ours}")
        before = await content_of(rig, 0)
        results["on ours"] = await run(rig, scripts.set_up)
        results["ours torn down"] = await run(rig, scripts.tear_down)
        assert await content_of(rig, 0) == before
        await done(rig, f"vgremove -qy matrix-0 && pvremove -qy {ours}")
        # Killed in the middle of vgcreate: physical volumes in no group, and our note that we had begun.
        tag = scripts.set_up.split("memory+=/")[1].split()[0]
        await done(rig, f"pvcreate -q {ours}; mkdir -p /run/matrix/lvm; : >/run/matrix/lvm/{tag}")
        results["half"] = await run(rig, scripts.set_up)
        assert results["half"].status == 0, results["half"].output
        await done(rig, f"dmsetup load matrix--0-volume --table '0 8192 linear {other} 0'")
        await done(rig, "dmsetup suspend --noudevsync matrix--0-volume; dmsetup resume --noudevsync matrix--0-volume")
        results["swapped"] = await run(rig, cell_scripts(cell, scripts.stack).verify)
    return results


def test_a_foreign_volume_group_is_refused_by_name_and_stays(tmp_path: Path) -> None:
    results = asyncio.run(_foreign(space(SMALL), tmp_path))
    status = {name: result.status for name, result in results.items()}
    assert status == {
        "elsewhere": 1, "torn down": 0, "on ours": 1, "ours torn down": 1, "half": 0, "swapped": 4,
    }  # fmt: skip
    assert "a volume group matrix-0 is there already, and it is not ours" in results["elsewhere"].output
    assert "LVM2_member" in results["on ours"].output
    assert "lvm.order wanted 1, kernel says 254:" in results["swapped"].output
