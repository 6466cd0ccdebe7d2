"""Wrong data of a disk, and trims, from the device of a virtual machine to the outcome of a trial."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from matrix_runner.carry.trial import Measured, StackOnRig
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.records.record import Outcome
from tests.support.matrices import space
from tests.support.rigs import rig_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(900)]

#: Half of the second disk is read wrong: only a layer with checksums notices it before fio does.
WRONG = """\
name: wrong
disks: {count: 3, size: 64MiB, model: {kind: ideal}}
faults: [{disk: 1, kind: corrupt, start: 50%, length: 32MiB}]
layouts:
  stripe: [md: {level: 0}]
  parity: [md: {level: 5}]
  checked: [integrity: {}, md: {level: 1}]
workloads: {work: {rw: write, bs: 64KiB, fio: {verify: crc32c}}}
repeat: 1
"""
TRIMS = """\
name: trims
disks: {count: 2, size: 64MiB, bus: BUS}
layouts: {stripe: [md: {level: 0}]}
workloads: {work: {rw: trim, bs: 64KiB}}
repeat: 1
"""


async def _measured(text: str, scratch: Path) -> dict[str, Measured]:
    found, machine, matrix = {}, Qemu(), space(text)
    for cell in matrix.cells():
        async with rig_of(rig_spec(matrix.matrix, cell.stack, None), scratch, machine) as rig:
            built = await StackOnRig.build(matrix.matrix, cell.stack, rig, machine, None)
            found[cell.axes["layout"]] = await built.measure(cell, 1)
    return found


def test_wrong_data_of_a_disk_is_corrupt_if_no_layer_mends_it(tmp_path: Path) -> None:
    found = {name: one.trial for name, one in asyncio.run(_measured(WRONG, tmp_path)).items()}
    assert {name: one.outcome for name, one in found.items()} == {
        "stripe": Outcome.CORRUPT,
        "parity": Outcome.CORRUPT,
        "checked": Outcome.MEASURED,
    }
    assert "verify failed at file" in found["stripe"].reason or "bad magic header" in found["stripe"].reason
    assert found["stripe"].figures is None
    checked = found["checked"].figures
    assert checked
    assert list(checked.sides) == ["write"]


@pytest.mark.parametrize("bus", ["virtio", "scsi", "nvme"])
def test_trims_are_measured(tmp_path: Path, bus: str) -> None:
    (one,) = asyncio.run(_measured(TRIMS.replace("BUS", bus), tmp_path)).values()
    assert one.trial.outcome is Outcome.MEASURED, one.trial.reason
    assert one.trial.figures
    assert list(one.trial.figures.sides) == ["trim"]
    assert one.trial.figures.trim
    assert one.trial.figures.trim.bytes > 2**26
