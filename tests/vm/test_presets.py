"""What presets do on a real kernel, by its own count of what reached the disk."""

import asyncio
import csv
from pathlib import Path

import pytest

from matrix_runner.carry.trial import Measured, StackOnRig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.space.select import select
from matrix_runner.space.space import Space
from tests.support.matrices import space
from tests.support.rigs import rig_of, spec_of

#: Every day, `tests/scripts/test_presets_by_trace.py` compares the requests with those of the real programs.
pytestmark = [pytest.mark.vm, pytest.mark.exhaustive]

MIB = 1 << 20
EACH = """\
name: programs
disks: {count: 1, size: 512MiB}
layouts:
  raw: [disk]
  fs:  [disk, fs: {type: ext4}]
workloads:
  dd:     {preset: [dd-read, dd-write], size: 32MiB}
  iozone: {preset: iozone, phase: [write, reread, randread, randwrite], bs: 64KiB, size: 16MiB, numjobs: 2}
  bonnie: {preset: bonnie, phase: [write, rewrite, read], size: 32MiB}
  seeks:  {preset: bonnie, phase: seeks, size: 64MiB, fio: {number_ios: 200}}
only: [{layout: fs}, {layout: raw, workload: dd}]
repeat: 1
"""


async def _measured(found: Space, scratch: Path) -> dict[str, Measured]:
    machine = Qemu()
    measured = {}
    async with rig_of(spec_of(found), scratch, machine) as rig:
        for array in found.stacks:
            built = await StackOnRig.build(found.matrix, array, rig, machine, None)
            for cell in select(found).cells_of(array):
                measured[cell.name] = await built.measure(cell, 1)
            await built.tear_down()
    return measured


def test_every_program_moves_what_it_should(tmp_path: Path) -> None:
    measured = asyncio.run(_measured(space(EACH), tmp_path))
    assert {name: one.trial.reason for name, one in measured.items()} == dict.fromkeys(measured, "")
    moved = {name: _on_disk(one) for name, one in measured.items()}
    near = {name: (round(read / (16 * MIB)), round(written / (16 * MIB))) for name, (read, written) in moved.items()}
    near.pop("fs/seeks")
    near.pop("fs/dd/preset=dd-write")  # what it leaves in memory is not waited for
    assert near == {
        "raw/dd/preset=dd-read": (2, 0),
        "raw/dd/preset=dd-write": (0, 2),
        "fs/dd/preset=dd-read": (2, 0),
        "fs/iozone/phase=write": (0, 2),
        "fs/iozone/phase=reread": (2, 0),
        "fs/iozone/phase=randread": (2, 0),
        "fs/iozone/phase=randwrite": (0, 2),
        "fs/bonnie/phase=write": (0, 2),
        "fs/bonnie/phase=rewrite": (2, 2),
        "fs/bonnie/phase=read": (2, 0),
    }, moved
    # What was read again was found in memory.
    again = measured["fs/iozone/phase=reread"].trial.figures
    assert again
    assert again.read
    assert again.read.bytes == 32 * MIB
    seeks = measured["fs/seeks"].trial.figures
    assert seeks
    assert seeks.read
    assert seeks.write
    assert seeks.read.ios + seeks.write.ios == 1000
    assert seeks.read.ios == pytest.approx(910, abs=40)
    # Of 8192 blocks so many were sought, by five that share one file.
    assert moved["fs/seeks"][0] == pytest.approx(seeks.read.bytes, rel=0.15)


def _on_disk(one: Measured) -> tuple[int, int]:
    """Bytes read and written, by the kernel's count."""
    devices = {row["device"]: row for row in csv.DictReader(one.outputs["devices.csv"].splitlines())}
    return int(devices["disk0"]["read_bytes"]), int(devices["disk0"]["written_bytes"])
