"""Partitions of what the device mapper made, and several volumes of a group: built, verified, tuned, torn down, refused."""

from pathlib import Path

import pytest

from matrix_runner.carry.trial import SetUpFailed, StackOnRig
from matrix_runner.machines.base import Rig, Step, StepResult
from matrix_runner.machines.qemu import Qemu
from matrix_runner.scripts.cell import cell_scripts, stack_scripts
from matrix_runner.space.space import Space, Stack
from tests.support.matrices import space
from tests.support.shared_rig import SharedRig
from tests.support.stacks_on_rigs import _cell, _round, _say, _with_rig, read

#: Tens of set-ups in one boot: how long that takes is the business of the host.
pytestmark = [pytest.mark.vm, pytest.mark.timeout(0)]

MAPPED = """\
name: mapped
disks: {count: 4, size: 64MiB}
layouts:
  volume: [lvm: {stripes: 4}, partition: {count: 3}, md: {level: 5, chunk: 64KiB}]
  secret: [disks: {count: 2}, crypt: {format: [luks2, plain]}, partition: {from: 25%, to: 75%, align: 512B}]
  sectors: [disk, crypt: {format: plain, sector_size: 4KiB}, partition: {count: 2, align: 4KiB}, md: {level: 1}]
  checked: [disk, integrity: {mode: direct}, partition: {count: 2}]
  array: [disks: {count: 2}, md: {level: 0}, crypt: {format: plain}, partition: {count: 2}, lvm: {stripes: 2}]
  twice: [disks: {count: 2}, partition: {count: 2}, lvm: {}, partition: {count: 2}, crypt: {format: plain}]
tune: {partition: {readahead: [64KiB]}}
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""


SMALL = """\
name: small
disks: {count: 2, size: 64MiB}
layouts: {volume: [lvm: {}, partition: {count: 2}]}
tune: {partition: {readahead: 64KiB}, lvm: {readahead: 128KiB}}
workloads: {work: {rw: write, bs: 64KiB, size: 1MiB}}
repeat: 1
"""


async def _run(rig: Rig, text: str) -> StepResult:
    (result,) = await rig.run([Step("step", text)], expected=0, deadline=120)
    return result


def test_a_partition_of_a_mapping_is_read_back_from_its_table_and_has_its_own_readahead(shared_rig: SharedRig) -> None:
    found = space(SMALL)
    (array,) = found.stacks
    whole, parts = "/dev/mapper/matrix--0-volume", "/dev/mapper/matrix--0-volume-part1"

    async def batch(rig: Rig, machine: Qemu) -> None:
        built = await StackOnRig.build(found.matrix, array, rig, machine, None)
        phases = cell_scripts(_cell(found, array), built.view)
        await _say(rig, f"({phases.tune}\n)")
        readings = read(await _say(rig, f"({phases.verify}\n)"))
        assert readings["partition[1].start"] == ("2048", "2048")
        assert readings["partition[2].size"][0] == readings["partition[2].size"][1]
        assert readings["partition[1].uuid"][1].startswith("part1-LVM-")
        assert readings["partition[1].readahead"] == ("64", "64")
        assert readings["lvm.readahead"] == ("128", "128")
        # Another table under a mapping of the right name is found out.
        size = await _say(rig, f"blockdev --getsz {parts}")
        swapped = f"0 {size} linear {whole} 4096"
        await _say(rig, f"dmsetup load {parts} --table '{swapped}' && dmsetup suspend --noudevsync {parts}")
        await _say(rig, f"dmsetup resume --noudevsync {parts}")
        result = await _run(rig, phases.verify)
        assert result.status == 4
        assert "partition[1].start wanted 2048, kernel says 4096" in result.output
        await built.tear_down()

    _with_rig(found, shared_rig, batch)


async def _refused(found_array: Stack, rig: Rig) -> dict[str, StepResult]:
    scripts = stack_scripts(found_array, rig.disks, zeroed=True)
    whole, results = "/dev/mapper/matrix--0-volume", {}
    # A mapping of somebody else's under the name that ours would have.
    await _say(rig, "dmsetup create matrix--0-volume-part1 --table '0 8 error'")
    results["name"] = await _run(rig, scripts.set_up)
    await _say(rig, "dmsetup remove matrix--0-volume-part1")
    results["after"] = await _run(rig, scripts.set_up)
    # Killed between the table and the mappings, or between taking these away and wiping.
    await _say(rig, f"kpartx -d -p -part {whole}")
    results["half"] = await _run(rig, scripts.set_up)
    # Somebody else's table on our volume, and it is in use: nothing is taken from under it.
    await _say(rig, f"kpartx -d -p -part {whole} && echo 'size=4096' | sfdisk -q --label gpt {whole}")
    await _say(rig, f"kpartx -a -p -part {whole} && mkfs.ext4 -q {whole}-part1 && mkdir -p /tmp/m")
    await _say(rig, f"mount {whole}-part1 /tmp/m && echo data >/tmp/m/file")
    results["table"] = await _run(rig, scripts.set_up)
    results["torn down"] = await _run(rig, scripts.tear_down)
    results["untouched"] = await _run(rig, "[[ $(cat /tmp/m/file) == data ]]")
    await _say(rig, f"umount /tmp/m && kpartx -d -p -part {whole}")
    await _say(rig, scripts.tear_down)
    results["bare"] = await _run(rig, f"wipefs {' '.join(rig.disks)}; dmsetup ls")
    return results


def test_foreign_mappings_and_partition_tables_stay(shared_rig: SharedRig) -> None:
    found = space(SMALL)
    (array,) = found.stacks
    results: dict[str, StepResult] = {}

    async def batch(rig: Rig, _machine: Qemu) -> None:
        results.update(await _refused(array, rig))

    _with_rig(found, shared_rig, batch)
    status = {name: result.status for name, result in results.items()}
    assert status == {
        "name": 1, "after": 0, "half": 0, "table": 5, "torn down": 5, "untouched": 0, "bare": 0,
    }, {name: result.output for name, result in results.items()}  # fmt: skip
    assert "matrix--0-volume-part1" in results["name"].output
    assert results["bare"].output.strip() == "No devices found"


SEVERAL = """\
name: several
disks: {count: 5, size: 64MiB}
layouts:
  linear: [lvm: {volumes: 3, extent_size: 1MiB, order: "5 4 3 2 1"}, lvm: {size: 60%, order: "3 1 2"}]
  striped: [lvm: {stripes: 5, volumes: 2, size: [100%, 25%, 33MB]}]
  uneven: [partition: {from: 25%}, lvm: {volumes: 7, stripes: 3, devices: 3}]
  mirror: [disks: {count: 4}, lvm: {type: mirror, volumes: 3, sync: wait}]
  raid1: [disks: {count: 4}, lvm: {type: raid1, volumes: 3, extent_size: 1MiB, sync: [auto, wait]}]
  raid5: [lvm: {type: raid5, volumes: 2, order: "5 4 3 2 1"}]
  raid6: [lvm: {type: raid6, volumes: 2, extent_size: 1MiB}]
  raid10: [disks: {count: 4}, lvm: {type: raid10, volumes: 3, extent_size: 1MiB}]
  thin: [lvm: {type: thin, volumes: 3, stripes: 5}]
  groups: [disks: {count: 4}, lvm: {groups: 2, volumes: 2}, md: {level: 10, chunk: 64KiB}]
  parts: [lvm: {volumes: 2}, partition: {count: 2}, lvm: {stripes: 4}]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""


def _all_are_built_written_through_and_taken_apart(found: Space, scratch: Path) -> None:
    told = list[str]()

    async def batch(rig: Rig, machine: Qemu) -> None:
        for array in found.stacks:
            told.append(await _round(found, array, rig, machine))
            assert await _say(rig, f"wipefs {' '.join(rig.disks)}; ls /dev/mapper") == "control"

    _with_rig(found, scratch, batch)
    assert len(told) == len(found.stacks)


FEW = """\
name: few
disks: {count: 3, size: 64MiB}
layouts:
  volumes: [lvm: {volumes: 2}, partition: {count: 2}, md: {level: 5, chunk: 64KiB}]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""


@pytest.mark.exhaustive
def test_partitions_of_mappings_and_several_volumes(tmp_path: Path) -> None:
    _all_are_built_written_through_and_taken_apart(space(FEW), tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [MAPPED, SEVERAL], ids=["mapped", "several"])
def test_every_kind_of_them(text: str, tmp_path: Path) -> None:
    _all_are_built_written_through_and_taken_apart(space(text), tmp_path)


def test_each_of_several_volumes_is_read_back(shared_rig: SharedRig) -> None:
    several = "lvm: {stripes: 2, volumes: 2, alignment: 4MiB}"
    found = space(
        SMALL.replace("lvm: {}, partition: {count: 2}", several).replace("partition: {readahead: 64KiB}, ", "")
    )
    (array,) = found.stacks

    async def batch(rig: Rig, machine: Qemu) -> None:
        built = await StackOnRig.build(found.matrix, array, rig, machine, None)
        phases = cell_scripts(_cell(found, array), built.view)
        await _say(rig, f"({phases.tune}\n)")
        readings = read(await _say(rig, f"({phases.verify}\n)"))
        assert readings["lvm[1].order"] == readings["lvm[2].order"] == ("1 2", "1 2")
        assert readings["lvm[1].bytes"] == readings["lvm[2].bytes"]
        assert readings["lvm[1].data_start"] == ("4194304", "4194304")
        assert readings["lvm[2].data_start"][0] == "-"
        second = "matrix--0-volume2"
        size = await _say(rig, f"blockdev --getsz /dev/mapper/{second}")
        await _say(rig, f"dmsetup load {second} --table '0 {size} linear {rig.disks[0]} 8192'")
        await _say(rig, f"dmsetup suspend --noudevsync {second}; dmsetup resume --noudevsync {second}")
        result = await _run(rig, phases.verify)
        assert result.status == 4
        assert "lvm[2].stripes wanted 2, kernel says 1" in result.output
        await built.tear_down()

    _with_rig(found, shared_rig, batch)


#: The last one of the file: what it leaves behind costs the shared rig.
def test_a_failed_set_up_gives_its_reason(shared_rig: SharedRig) -> None:
    """What stands in the way of a table is told as any other trouble of a set-up."""
    found = space(SMALL)
    (array,) = found.stacks

    async def batch(rig: Rig, machine: Qemu) -> None:
        await _say(rig, "mv /usr/sbin/kpartx /usr/sbin/kpartx.gone")
        with pytest.raises(SetUpFailed, match="kpartx"):
            await StackOnRig.build(found.matrix, array, rig, machine, None)

    _with_rig(found, shared_rig, batch)
