"""A reboot: the reset button of a virtual machine, and another machine with the same disks."""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, cast

from matrix_runner.machines.base import MachineOptions
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.qemu.guest import DiskFiles
from matrix_runner.machines.qemu.rig import QemuRig, wait_for_boot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from matrix_runner.machines.base import Rig
    from matrix_runner.simdisks.disk import Disk


async def reboot(machine: Rig) -> None:
    """Press the reset button: the guest loses its memory and keeps its disks. A clone cannot boot again."""
    rig = cast("QemuRig", machine)
    assert rig.facts["up"] == "cold boot"
    guest = rig.guest
    with guest.qmp.listener("RESET") as resets:
        await guest.command("set-action", reboot="reset")
        await guest.command("system_reset")
        await guest.answer(resets.get())
    await guest.orders.forget()
    await wait_for_boot(guest)
    # QEMU ends at the next reset. During a boot the BIOS resets once, so this comes after it.
    await guest.command("set-action", reboot="shutdown")
    rig._scripts = 0


class KeptDisks(Qemu):
    """Machines one after the other, each with the disks of the one before: as after a loss of power.

    A clone of a template has no memory of earlier rigs either, and takes a tenth of the time of a boot.
    """

    def __init__(self, folder: Path, *, cold: bool = False) -> None:
        super().__init__(MachineOptions(cold=cold))
        self._folder = folder
        self._provide_disks = self._open_disks

    @asynccontextmanager
    async def _open_disks(self, disks: tuple[Disk, ...], scratch: Path, complaints: int) -> AsyncIterator[DiskFiles]:  # noqa: ARG002
        with ExitStack() as stack:
            descriptors = []
            for number, disk in enumerate(disks):
                path = self._folder / f"disk-{number}"
                path.touch()
                file = stack.enter_context(path.open("r+b"))
                file.truncate(disk.size)
                descriptors.append(file.fileno())
            yield DiskFiles(tuple(descriptors))


def read_disks_anew(rig: Rig) -> str:
    """Return a script for a clone, whose kernel read its disks when they were empty. A boot reads them anew."""
    return f"for disk in {' '.join(rig.disks)}; do blockdev --flushbufs $disk; blockdev --rereadpt $disk; done"
