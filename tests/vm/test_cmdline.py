"""Parameters of the kernel: booted with, read back, and missed where another machine is up."""

from dataclasses import replace

import pytest

from matrix_runner.carry.trial import StackOnRig
from matrix_runner.machines.qemu import Qemu
from tests.support.matrices import space
from tests.support.rigs import rig_of, spec_of
from tests.support.shared_rig import SharedRig

pytestmark = pytest.mark.vm

PARAMETERS = "mitigations=off raid456.devices_handle_discard_safely=1"
MATRIX = f"""\
name: booted
machine: {{cmdline: [default, {PARAMETERS}]}}
disks: {{count: 3, size: 64MiB}}
layouts: {{raid5: [md: {{level: 5}}]}}
workloads: {{work: {{rw: randread, bs: 4KiB, size: 1MiB}}}}
repeat: 1
"""


def test_parameters_are_booted_and_read_back(shared_rig: SharedRig) -> None:
    found = space(MATRIX)
    plain, booted = found.cells()

    async def reasons() -> list[str]:
        machine, seen = Qemu(), []
        for spec, cells in ((spec_of(found), [booted]), (replace(spec_of(found), cmdline=PARAMETERS), [booted, plain])):
            async with rig_of(spec, shared_rig, machine) as rig:
                for cell in cells:
                    built = await StackOnRig.build(found.matrix, cell.stack, rig, machine, None)
                    seen.append((await built.measure(cell, 1)).trial.reason)
                    await built.tear_down()
        return seen

    elsewhere, *here = shared_rig.run(reasons())
    assert here == ["", ""]
    assert "cmdline.1 wanted mitigations=off, kernel says absent" in elsewhere
    assert "raid456.devices_handle_discard_safely wanted 1, kernel says N" in elsewhere


NVME = """\
name: nvme
machine: {cmdline: [default, nvme.poll_queues=1]}
disks: {count: 2, size: 64MiB, bus: nvme}
layouts: {both: [disks]}
workloads:
  commands: {rw: randwrite, bs: 4KiB, iodepth: 4, size: 1MiB, ioengine: io_uring_cmd}
  polled: {rw: randread, bs: 4KiB, iodepth: 4, size: 1MiB, ioengine: io_uring, fio: {hipri: 1}}
repeat: 1
"""


def test_commands_reach_nvme_disks_and_polling_needs_queues_for_it(shared_rig: SharedRig) -> None:
    found = space(NVME)

    async def reasons() -> dict[str, str]:
        machine, seen = Qemu(), dict[str, str]()
        for cmdline in ("", "nvme.poll_queues=1"):
            async with rig_of(replace(spec_of(found), cmdline=cmdline), shared_rig, machine) as rig:
                cells = [cell for cell in found.cells() if cell.stack.cmdline == cmdline]
                built = await StackOnRig.build(found.matrix, cells[0].stack, rig, machine, None)
                seen |= {cell.name: (await built.measure(cell, 1)).trial.reason for cell in cells}
                await built.tear_down()
        return seen

    told = shared_rig.run(reasons())
    assert "has no queues to poll: write `machine: {cmdline: nvme.poll_queues=1}`" in told.pop(
        "cmdline=default/both/polled"
    )
    assert set(told.values()) == {""}
    assert len(told) == 3
