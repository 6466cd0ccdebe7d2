"""Disks that fail while they are measured: what the kernel makes of it, and what is recorded."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from matrix_runner.carry.trial import Measured, StackOnRig
from matrix_runner.machines.base import Rig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.records.record import Outcome
from matrix_runner.simdisks.disk import Fault
from tests.support.matrices import space
from tests.support.rigs import rig_of
from tests.support.stacks_on_rigs import done

if TYPE_CHECKING:
    from matrix_runner.machines.qemu.rig import QemuRig

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]

FAILING = """\
name: failing
disks: {count: 4, size: 64MiB, model: {kind: volume, iops: 400, bandwidth: 60MB/s}}
faults:
  dies: [{disk: 1, at: 300ms, kind: dies}]
  unwell:
    - {disk: 1, kind: medium, start: 0, length: 64MiB}
    - {disk: 2, at: 200ms, kind: stalls, lasts: 700ms}
    - {disk: 3, kind: slow, times: 4}
layouts:
  raid5: [md: {level: 5, devices: 4, chunk: 16KiB}]
  spare: [md: {level: 1, devices: 2, spare: 1}]
workloads: {work: {rw: randrw, bs: 16KiB, iodepth: 4, runtime: 1s, fio: {continue_on_error: all}}}
only:
  - {layout: raid5}
  - {layout: spare, faults: dies}
repeat: 1
"""


async def _measured(scratch: Path) -> dict[str, Measured]:
    found = {}
    failing = space(FAILING)
    machine = Qemu()
    for array in failing.stacks:
        label = f"{dict(array.coords)['layout']}/{dict(array.coords)['faults']}"
        if label.startswith("raid5") or label.endswith("dies"):
            cell = next(cell for cell in failing.cells() if cell.stack == array)
            async with rig_of(rig_spec(failing.matrix, array, None), scratch, machine) as rig:
                built = await StackOnRig.build(failing.matrix, array, rig, machine, None)
                found[label] = await built.measure(cell, 1)
    return found


def test_the_kernel_meets_real_errors_and_what_became_of_the_array_is_recorded(tmp_path: Path) -> None:
    found = asyncio.run(_measured(tmp_path))
    assert {name: one.trial.outcome for name, one in found.items()} == dict.fromkeys(found, Outcome.MEASURED)
    after = {name: one.trial.notes["md.after"] for name, one in found.items()}
    # How long ago it was written to is a matter of chance.
    written, failed = after["raid5/dies"].split(", ", 1)
    assert written in {"clean", "active", "active-idle"}
    assert failed.startswith("degraded 1, idle, disk1 faulty")
    assert "I/O error, dev" in found["raid5/dies"].outputs["aftermath.log"]
    assert "disk1 faulty" in after["spare/dies"]
    assert "recover" in after["spare/dies"] or "degraded 0" in after["spare/dies"]
    unwell = found["raid5/unwell"]
    assert "degraded 0" in after["raid5/unwell"]
    assert "read error corrected" in unwell.outputs["aftermath.log"]
    assert "disk 2 stalls at 0.2 s for 0.7 s" in unwell.trial.notes["faults"]
    assert "disk 3 " in unwell.trial.notes["faults"]
    stalled = unwell.trial.figures
    assert stalled is not None
    assert max(side.lat_max or 0.0 for side in (stalled.read, stalled.write) if side) > 0.5e9


async def _returned(scratch: Path) -> tuple[str, str, str]:
    failing = space(FAILING.replace("chunk: 16KiB", "chunk: 16KiB, bitmap: internal"))
    machine, array = Qemu(), replace(failing.stacks[0], faults=())
    async with rig_of(rig_spec(failing.matrix, array, None), scratch, machine) as rig:
        await StackOnRig.build(failing.matrix, array, rig, machine, None)
        cast("QemuRig", rig).guest.served.add_faults([Fault(1, "dies", 0.0, 3.0)])
        work = "fio --name=x --filename=/dev/md/matrix-0 --direct=1 --rw=randwrite --bs=16k --size=8m >/dev/null"
        await done(rig, work)
        failed = await state(rig)
        await asyncio.sleep(3.0)
        disk = f"$(readlink -f {rig.disks[1]})"
        # Until the last request to it is over the kernel does not let it go.
        await done(rig, f"until mdadm /dev/md/matrix-0 --remove {disk}; do sleep 0.1; done")
        await done(rig, f"mdadm /dev/md/matrix-0 --re-add {disk}")
        wait = "mdadm --wait /dev/md/matrix-0 || :; echo check >/sys/block/md127/md/sync_action; mdadm --wait /dev/md/matrix-0 || :"
        await done(rig, wait)
        return failed, await state(rig), await done(rig, "cat /sys/block/md127/md/mismatch_cnt")


async def state(rig: Rig) -> str:
    return (await done(rig, "cat /sys/block/md127/md/degraded")).strip()


@pytest.mark.exhaustive
def test_a_disk_that_returns_can_be_added_again_and_is_rebuilt(tmp_path: Path) -> None:
    failed, rebuilt, mismatches = asyncio.run(_returned(tmp_path))
    assert (failed, rebuilt, mismatches.strip()) == ("1", "0", "0")
