"""The reset button of a virtual machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from runner.machines.qemu.rig import QemuRig, wait_for_boot

if TYPE_CHECKING:
    from runner.machines.base import Rig


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
