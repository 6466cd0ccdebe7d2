"""The machine `vagrant`: an unchanged distribution on libvirt, from a box built here or the user's own.

A boot takes half a minute or, emulated, more; that is too much for every array. So a machine stays for all arrays that
want the same one: they are taken apart by their tear-down scripts, and between two of them its disks, which are files
of ours, are emptied from the outside. Whatever goes wrong in one costs the machine. Of arrays that are under way at the
same time each has a machine to itself, and as many machines stay.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.base.kernels import SUITES
from runner.base.uncancelled import run_to_end
from runner.machines.base import MachineOptions, Refusal
from runner.machines.qemu import probe, recipe
from runner.machines.qemu.appliance import provide as appliance
from runner.machines.qemu.host import beyond, crowded, room, this_host
from runner.machines.vagrant import box, libvirt
from runner.machines.vagrant.lifecycle import VAGRANT, Order, home, up
from runner.machines.vagrant.nbd_disks import bay
from runner.machines.vagrant.rig import VagrantRig, fit
from runner.machines.vagrant.vagrantfile_settings import OWN_MEMORY
from runner.simdisks.server import QEMU_NBD
from runner.simdisks.server import TOOLS as DISK_TOOLS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from runner.machines.base import Rig, RigSpec
    from runner.machines.vagrant.nbd_disks import Bays
    from runner.machines.vagrant.rig import Up

#: Programs of this host, and the Debian package of each.
TOOLS = {
    VAGRANT: "vagrant vagrant-libvirt",
    libvirt.VIRSH: "libvirt-clients",
    "qemu-img": "qemu-utils",
    QEMU_NBD: "qemu-utils",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "dnsmasq": "dnsmasq-base",  # libvirt's networks need it, but libvirt only recommends it
    "setpriv": "util-linux",
}
PLUGIN = "vagrant-libvirt"
#: PCI slots for disks, beside the devices of the machine itself.
MOST_VIRTIO = 20
NO_OPTIONS = MachineOptions()


@dataclass
class Kept:
    """A machine that is kept between two arrays."""

    spec: RigSpec
    up: Up
    stack: AsyncExitStack


class Vagrant:
    name: ClassVar[str] = "vagrant"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = True
    brings_disks: ClassVar[bool] = True
    synthetic: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        self.options = options
        self._bays: Bays = bay
        self._idle: list[Kept] = []
        self._told: set[str] = set()
        #: One machine boots at a time: each takes a processor, and boots have a deadline.
        self._coming_up = asyncio.Semaphore(this_host().cpus)
        #: Found once, as Vagrant takes a second or two to answer.
        self._host: list[Refusal] | None = None

    @classmethod
    def from_options(cls, options: MachineOptions) -> Self:
        return cls(options)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        if self._host is None:
            self._host = missing()
        absent = probe.absent(DISK_TOOLS) if any(disk.physics for disk in spec.disks) else []
        tools = [Refusal(f"{tool} is not installed", f"apt install {DISK_TOOLS[tool]}") for tool in absent]
        unbuilt = box.refusals(spec.kernel) if not self.kernel_refusal(spec.kernel or "") else []
        return [*self._host, *tools, *unbuilt, *self._impossible(spec), *beyond(spec, this_host())]

    def _impossible(self, spec: RigSpec) -> list[Refusal]:
        refused = []
        if spec.kernel and (why := self.kernel_refusal(spec.kernel)):
            refused.append(Refusal(why, f"one of {', '.join(SUITES)}, or run it on qemu"))
        return [*refused, *impossible(spec)]

    def kernel_refusal(self, kernel: str) -> str:
        """Return why a kernel cannot run: a box boots its own, of a Debian release or of the user's box."""
        if kernel and box.chosen():
            return f"the box {box.chosen()} has its own kernel, not {kernel}"
        return "" if kernel in {"", *SUITES} else f"a box boots the kernel that is in it, not {kernel}"

    def max_rigs(self, spec: RigSpec) -> int:
        return room(replace(spec, memory=spec.memory + OWN_MEMORY), this_host())

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[Rig]:
        """Use an idle machine, or make a new one."""
        kept = await self._taken(spec, scratch)
        try:
            disks = await asyncio.to_thread(kept.up.disks)
            facts = await asyncio.to_thread(fit, kept.up, spec)
            yield VagrantRig(kept.up, disks, facts)
            # Empty the disks only after the array is gone without an error: the next set-up finds bare disks.
            await asyncio.to_thread(kept.up.emptied, disks)
        except BaseException:
            await run_to_end(kept.stack.aclose())
            raise
        self._idle.append(kept)

    async def shut_down(self) -> None:
        """Remove all idle machines, even if one of them fails."""
        async with AsyncExitStack() as stack:
            while self._idle:
                stack.push_async_callback(self._idle.pop().stack.aclose)

    async def _taken(self, spec: RigSpec, scratch: Path) -> Kept:
        """Return a machine of this kind; idle ones of other kinds are removed."""
        while other := next((kept for kept in self._idle if kept.spec != _kind(spec)), None):
            self._idle.remove(other)  # other rigs look for an idle machine meanwhile
            await other.stack.aclose()
        return self._idle.pop() if self._idle else await self._made(spec, scratch)

    async def _made(self, spec: RigSpec, scratch: Path) -> Kept:
        self._tell_once(crowded(spec, this_host()))
        driver = await self._driver(scratch)
        order = Order(spec, await box.provide(spec.kernel, self.options.progress), driver, scratch, self._bays)
        stack = AsyncExitStack()
        async with self._coming_up:
            return Kept(_kind(spec), await stack.enter_async_context(up(order, self.options.progress)), stack)

    async def _driver(self, scratch: Path) -> Literal["kvm", "qemu"]:
        """Return KVM only if a machine boots under it: that it opens proves too little."""
        chosen = os.environ.get("MATRIX_ACCEL")
        if not chosen and not os.access(probe.KVM, os.R_OK | os.W_OK):
            return "qemu"
        made = recipe.recipe_for(None)
        assert made is not None  # noqa: S101 - for the type checker; the usual kernel has one
        if chosen:
            return "kvm" if chosen == "kvm" else "qemu"
        accel = await probe.accelerator(await appliance(made, self.options.progress), scratch, self._tell_once)
        return "kvm" if accel == "kvm" else "qemu"

    def _tell_once(self, word: str) -> None:
        if word and word not in self._told:
            self._told.add(word)
            self.options.notice(word)


def _kind(spec: RigSpec) -> RigSpec:
    """Return the part of a rig that its machine depends on: modules and programs can differ."""
    return replace(spec, modules=(), programs=(), powers=())


def missing() -> list[Refusal]:
    absent = probe.absent(TOOLS)
    refused = [Refusal(f"{tool} is not installed", f"apt install {TOOLS[tool]}") for tool in absent]
    if VAGRANT not in absent and PLUGIN not in plugins():
        refused.append(Refusal(f"the Vagrant plugin {PLUGIN} is not installed", f"apt install {PLUGIN}"))
    return [*refused, *([] if libvirt.VIRSH in absent else libvirt.refusals())]


def plugins() -> str:
    quiet = {**os.environ, "VAGRANT_HOME": str(home()), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    with suppress(HarnessBroken):
        return process.run([VAGRANT, "plugin", "list"], env=quiet).stdout
    return ""


def impossible(spec: RigSpec) -> list[Refusal]:
    refused = []
    if any(disk.bus == "nvme" for disk in spec.disks):
        refused.append(Refusal("vagrant-libvirt has no NVMe bus", "use virtio, scsi or sata, or run it on qemu"))
    if (virtio := sum(disk.bus == "virtio" for disk in spec.disks)) > MOST_VIRTIO:
        refused.append(Refusal(f"{virtio} virtio disks do not fit into the machine", "use the scsi or sata bus"))
    if "faults" in spec.powers:
        refused.append(
            Refusal(
                "disks of a vagrant machine cannot fail on demand, as it has no way to say when fio begins",
                "take `faults:` out, choose stacks that have none by --only, or run it on qemu",
            )
        )
    return refused
