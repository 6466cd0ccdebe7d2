"""Stacks where the kernel makes no device nodes, as in a container: built, measured, taken apart."""

import asyncio
from pathlib import Path

import pytest

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.base import RigSpec, Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from tests.support.matrices import space

#: A minute and more of set-ups.
pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(0)]

STACKS = """\
name: stacks
disks: {count: 4, size: 64MiB}
layouts:
  array: [md: {level: 5, chunk: 64KiB}, fs: {type: ext4}]
  parts: [disks: {count: 2}, partition: {count: 2}, md: {level: 10, chunk: 64KiB}]
  parts-of-an-array: [disks: {count: 2}, md: {level: 0}, partition: {from: 25%}]
  volume: [disks: {count: 2}, lvm: {stripes: 2}, partition: {count: 2}, md: {level: 1}]
  secret: [disk, crypt: {format: plain}, fs: {type: ext4}]
workloads: {work: {rw: randwrite, bs: 4KiB, size: 1MiB, iodepth: 4, fio: {verify: crc32c}}}
repeat: 1
"""
#: What the kernel makes from now on is out of sight, and of what is there only a copy is in it.
BLIND = "mkdir /run/dev; mount -t tmpfs none /run/dev; cp -a /dev/. /run/dev; mount --move /run/dev /dev"


async def _all(scratch: Path) -> dict[str, tuple[str, str]]:
    """Of each stack why its trial broke, if it did, and partitions of which there are nodes yet."""
    found, machine = space(STACKS), Qemu()
    modules = sorted({name for array in found.stacks for name in rig_spec(found.matrix, array, None).modules})
    told = {}
    async with machine.rig(RigSpec(found.matrix.every_disk(), modules=tuple(modules)), scratch) as rig:
        (blind,) = await rig.run([Step("blind", BLIND)], expected=0, deadline=60)
        assert blind.status == 0, blind.output
        for array in found.stacks:
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            cell = next(cell for cell in found.cells() if cell.stack is array)
            reason = (await built.measure(cell, 1)).trial.reason
            await built.tear_down()
            (left,) = await rig.run(
                [Step("left", "find /dev -name '[sv]d[a-z][0-9]*' -type b")], expected=0, deadline=60
            )
            told[array.label] = reason, left.output.strip()
    return told


def test_all_layers_work_without_devtmpfs(tmp_path: Path) -> None:
    told = asyncio.run(_all(tmp_path))
    assert len(told) == 5
    assert set(told.values()) == {("", "")}, told
