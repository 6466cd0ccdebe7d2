"""The machine `vagrant` with physical disks, each behind a disk server: libvirt's QEMU cannot inherit descriptors."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import BadInput
from runner.machines.base import NO_OPTIONS, Refusal
from runner.machines.local import disk_model_refusals
from runner.machines.qemu.passthrough import BLOCK_DEVICES, lock_descriptors, open_writable, read_properties
from runner.machines.vagrant import Vagrant, libvirt
from runner.machines.vagrant.box import physical_disk
from runner.machines.vagrant.rig import DiskServers, socket_paths, start_server
from runner.simdisks.server import device_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from runner.hosts.exclusive import LeasedDisk
    from runner.machines.base import MachineOptions, RigSpec
    from runner.machines.qemu.argv import DiskProperties
    from runner.simdisks.disk import Disk

#: The sector size of a disk at a socket. libvirt cannot change it.
SECTOR = 512


class Passthrough(Vagrant):
    """A `Vagrant` machine with physical disks. Stacks outlive it, so scripts in the guest tear them down."""

    name: ClassVar[str] = "vagrant-passthrough"
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._serve_disks = partial(serve_leased_disks, options.held)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        found = disk_model_refusals(spec)
        if os.geteuid() != 0:  # only root can give a socket to QEMU's user alone
            why = "only root can pass disks of this host to libvirt's machines"
            found.append(Refusal(why, "run the whole command with sudo"))
        return [*found, *super().refusals(spec)]

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 1


class LeasedDisks(DiskServers):
    def empty(self) -> None:
        pass  # the tear-down scripts remove the stack


@asynccontextmanager
async def serve_leased_disks(
    leases: Sequence[LeasedDisk],
    disks: tuple[Disk, ...],
    scratch: Path,  # noqa: ARG001
    folder: Path,
) -> AsyncIterator[DiskServers]:
    used = [one for one, _ in zip(leases, disks, strict=False)]
    looks = [read_properties(one, BLOCK_DEVICES / one.node.name) for one in used]
    refuse_large_sectors(used, looks)
    # Write access to the socket is write access to the disk, and /proc/net/unix shows its path to all users.
    user = libvirt.parse_qemu_user(await asyncio.to_thread(libvirt.run_virsh, "capabilities"))
    sockets = socket_paths(folder, len(used))
    async with AsyncExitStack() as stack:
        opened = stack.enter_context(ExitStack())
        made = LeasedDisks(disks, (), sockets, tuple(map(physical_disk, disks, count(), sockets, looks)))
        for one, look, socket in zip(used, looks, sockets, strict=True):
            device = open_writable(one, opened)
            argv = device_command(socket, device, discards=bool(look.discard))
            made.servers.append(await start_server(socket, argv, (device, *lock_descriptors(one)), stack))
            os.chown(socket, user, -1)
            socket.chmod(0o600)
        yield made


def refuse_large_sectors(leases: Sequence[LeasedDisk], looks: Sequence[DiskProperties]) -> None:
    for one, look in zip(leases, looks, strict=True):
        if look.logical != SECTOR:
            raise BadInput(
                f"{one.declared.id} has sectors of {look.logical} bytes, but disks of vagrant always have {SECTOR}",
                resolution="use `--on qemu --passthrough`, which keeps the sector size",
            )
