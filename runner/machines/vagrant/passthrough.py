"""Vagrant's machines with disks of this host: judged, locked and held by us, each behind a server of ours.

libvirt's QEMU is no child of ours and inherits nothing. So a server that is one has the disk, opened by way of what was
judged, and with it the lock and the exclusive opening; the machine is told of a socket, never of a path. Whoever kills
us has the kernel kill the servers, and until they are gone nobody else may have the disks; a machine that is left has
none any more.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import BadInput
from runner.machines.base import Refusal
from runner.machines.local import disk_model_refusals
from runner.machines.qemu.passthrough import BLOCK_DEVICES, grips, seen, writable
from runner.machines.vagrant import NO_OPTIONS, Vagrant, libvirt
from runner.machines.vagrant.nbd_disks import Bay, answering, sockets_in
from runner.machines.vagrant.vagrantfile_settings import passed
from runner.simdisks.server import device_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from runner.hosts.exclusive import LeasedDisk
    from runner.machines.base import MachineOptions, RigSpec
    from runner.machines.qemu.argv import Passed
    from runner.simdisks.disk import Disk

#: The sector size of a disk at a socket: libvirt cannot set another.
SECTOR = 512


class Passthrough(Vagrant):
    """A `Vagrant` machine with physical disks. Arrays outlive it, so they are taken apart in the guest."""

    name: ClassVar[str] = "vagrant-passthrough"
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._bays = partial(lent, options.held)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*disk_model_refusals(spec), *not_root(), *super().refusals(spec)]

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 1


def not_root() -> list[Refusal]:
    """Refuse other users: only root can let QEMU's user open a socket and keep out all others."""
    if os.geteuid() == 0:
        return []
    return [Refusal("only root can give disks of this host to libvirt's machines", "run the whole command by sudo")]


class Lent(Bay):
    def emptied(self) -> None:
        pass  # arrays are taken apart by their own scripts


@asynccontextmanager
async def lent(
    held: Sequence[LeasedDisk],
    disks: tuple[Disk, ...],
    scratch: Path,  # noqa: ARG001
    folder: Path,
) -> AsyncIterator[Bay]:
    used = [one for one, _ in zip(held, disks, strict=False)]
    looks = [seen(one, BLOCK_DEVICES / one.node.name) for one in used]
    refuse_large_sectors(used, looks)
    # Write access to the socket is write access to the disk, and /proc/net/unix shows its path to all users.
    user = await asyncio.to_thread(libvirt.qemu_user)
    sockets = sockets_in(folder, len(used))
    async with AsyncExitStack() as stack:
        opened = stack.enter_context(ExitStack())
        made = Lent(disks, (), sockets, tuple(map(passed, disks, count(), sockets, looks)))
        for one, look, socket in zip(used, looks, sockets, strict=True):
            device = writable(one, opened)
            argv = device_command(socket, device, discards=bool(look.discard))
            made.servers.append(await answering(socket, argv, (device, *grips(one)), stack))
            os.chown(socket, user, -1)
            socket.chmod(0o600)
        yield made


def refuse_large_sectors(held: Sequence[LeasedDisk], looks: Sequence[Passed]) -> None:
    """Refuse disks with larger sectors than the machine would see: each write would become a read, a change and a
    write.
    """
    for one, look in zip(held, looks, strict=True):
        if look.logical != SECTOR:
            raise BadInput(
                f"{one.declared.id} has sectors of {look.logical} bytes, and disks of vagrant only have {SECTOR}",
                resolution="`--on qemu --passthrough` has them as they are",
            )
