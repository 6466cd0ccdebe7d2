"""The machine `vagrant`: a distribution on libvirt. It boots slowly, so it stays up for equal stacks."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal

from matrix_runner.base import process
from matrix_runner.base.children import run_to_end
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.language.matrix import RELEASES
from matrix_runner.machines.base import NO_OPTIONS, Machine, MachineOptions, Refusal, Rig, RigSpec
from matrix_runner.machines.local import disk_model_refusals
from matrix_runner.machines.qemu import BLOCK_DEVICES, host, lock_descriptors, open_writable, read_properties, recipe
from matrix_runner.machines.qemu.appliance import provide as appliance
from matrix_runner.machines.qemu.argv import DiskProperties
from matrix_runner.machines.qemu.host import capacity_refusals, crowding_notice, max_machines, this_host
from matrix_runner.machines.vagrant import box, libvirt
from matrix_runner.machines.vagrant.box import OWN_MEMORY, physical_disk
from matrix_runner.machines.vagrant.rig import (
    VAGRANT,
    DiskProvider,
    DiskServers,
    Order,
    RunningMachine,
    VagrantRig,
    home,
    query_facts,
    serve_disks,
    socket_paths,
    start_machine,
    start_server,
)
from matrix_runner.simdisks.disk import Disk
from matrix_runner.simdisks.server import QEMU_NBD, device_command
from matrix_runner.simdisks.server import TOOLS as DISK_TOOLS

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
MOST_VIRTIO = 20


@dataclass
class IdleMachine:
    spec: RigSpec
    up: RunningMachine
    stack: AsyncExitStack


class Vagrant(Machine):
    name: ClassVar[str] = "vagrant"
    zeroed: ClassVar[bool] = True
    brings_disks: ClassVar[bool] = True

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._serve_disks: DiskProvider = partial(serve_disks, notice=options.notice)
        self._idle: list[IdleMachine] = []
        #: Limits parallel boots to one for each processor, because boots have a deadline.
        self._boots = asyncio.Semaphore(this_host().cpus)
        #: Cached, because Vagrant takes a second or two to answer.
        self._host: list[Refusal] | None = None

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        if self._host is None:
            self._host = tool_refusals()
        tools = host.missing_tool_refusals(DISK_TOOLS) if any(disk.physics for disk in spec.disks) else []
        if why := self.kernel_refusal(spec.kernel or ""):
            kernel = [Refusal(why, f"one of {', '.join(RELEASES)}, or run it on qemu")]
        else:
            kernel = box.refusals(spec.kernel)
        return [*self._host, *tools, *kernel, *spec_refusals(spec), *capacity_refusals(spec, this_host())]

    def kernel_refusal(self, kernel: str) -> str:
        if kernel and box.user_box():
            return f"the box {box.user_box()} has its own kernel, not {kernel}"
        return "" if kernel in {"", *RELEASES} else f"a box boots its own kernel, not {kernel}"

    def max_rigs(self, spec: RigSpec) -> int:
        return max_machines(replace(spec, memory=spec.memory + OWN_MEMORY), this_host())

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[Rig]:
        machine = await self._take(spec, scratch)
        try:
            disks = await asyncio.to_thread(machine.up.disks)
            facts = await asyncio.to_thread(query_facts, machine.up, spec)
            yield VagrantRig(machine.up, disks, facts)
            # The next set-up needs empty disks. After an error the machine is removed with its disks.
            await asyncio.to_thread(machine.up.empty_disks, disks)
        except BaseException:
            await run_to_end(machine.stack.aclose())
            raise
        self._idle.append(machine)

    async def shut_down(self) -> None:
        """Remove all idle machines, even if one of them fails."""
        async with AsyncExitStack() as stack:
            while self._idle:
                stack.push_async_callback(self._idle.pop().stack.aclose)

    async def _take(self, spec: RigSpec, scratch: Path) -> IdleMachine:
        while other := next((machine for machine in self._idle if machine.spec != _kind(spec)), None):
            self._idle.remove(other)  # before the wait, during which other rigs look for an idle machine
            await other.stack.aclose()
        return self._idle.pop() if self._idle else await self._create(spec, scratch)

    async def _create(self, spec: RigSpec, scratch: Path) -> IdleMachine:
        self.notice_once(crowding_notice(spec, this_host()))
        driver = await self._driver(scratch)
        order = Order(spec, await box.provide(spec.kernel, self.options.progress), driver, scratch, self._serve_disks)
        stack = AsyncExitStack()
        async with self._boots:
            up = await stack.enter_async_context(start_machine(order, self.options.progress))
            return IdleMachine(_kind(spec), up, stack)

    async def _driver(self, scratch: Path) -> Literal["kvm", "qemu"]:
        """Return KVM only if a machine boots under it: /dev/kvm may open and still not work."""
        chosen = host.chosen_accelerator()
        if not chosen and not os.access(host.KVM, os.R_OK | os.W_OK):
            return "qemu"
        made = recipe.recipe_for(None)
        assert made is not None  # noqa: S101 - for the type checker; the usual kernel has one
        if chosen:
            return "kvm" if chosen == "kvm" else "qemu"
        base = await appliance(made, self.options.progress, self.options.notice)
        accel = await host.accelerator(base, scratch, self.notice_once)
        return "kvm" if accel == "kvm" else "qemu"


def _kind(spec: RigSpec) -> RigSpec:
    """Return the part of a rig that its machine depends on: modules and programs can differ."""
    return replace(spec, modules=(), programs=(), powers=())


def tool_refusals() -> list[Refusal]:
    absent, refused = host.missing_programs(TOOLS), host.missing_tool_refusals(TOOLS)
    if VAGRANT not in absent:
        quiet, plugins = {**os.environ, "VAGRANT_HOME": str(home()), "VAGRANT_CHECKPOINT_DISABLE": "1"}, ""
        with suppress(HarnessBroken):
            plugins = process.run([VAGRANT, "plugin", "list"], env=quiet).stdout
        if PLUGIN not in plugins:
            refused.append(Refusal(f"the Vagrant plugin {PLUGIN} is not installed", f"apt install {PLUGIN}"))
    return [*refused, *([] if libvirt.VIRSH in absent else libvirt.refusals())]


def spec_refusals(spec: RigSpec) -> Iterator[Refusal]:
    if any(disk.bus == "nvme" for disk in spec.disks):
        yield Refusal("vagrant-libvirt has no NVMe bus", "use virtio, scsi or sata, or run it on qemu")
    if (virtio := sum(disk.bus == "virtio" for disk in spec.disks)) > MOST_VIRTIO:
        yield Refusal(f"{virtio} virtio disks do not fit into the virtual machine", "use the scsi or sata bus")
    if spec.cmdline:
        yield Refusal("a box has its own kernel parameters", "remove `cmdline:`, or run it on qemu")
    if "faults" in spec.powers:
        yield Refusal(
            "disks of vagrant cannot fail on demand, because vagrant cannot signal the start of fio",
            "remove `faults:`, select stacks without faults by --only, or run it on qemu",
        )


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
        found = [*disk_model_refusals(spec)]
        if os.geteuid() != 0:  # only root can open them
            why = "only root can pass disks of this host to virtual machines of libvirt"
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
    sockets = socket_paths(folder, len(used))
    async with AsyncExitStack() as stack:
        opened = stack.enter_context(ExitStack())
        made = LeasedDisks(disks, (), sockets, tuple(map(physical_disk, disks, count(), sockets, looks)))
        for one, look, socket in zip(used, looks, sockets, strict=True):
            device = open_writable(one, opened)
            argv = device_command(socket, device, discards=bool(look.discard))
            made.servers.append(await start_server(socket, argv, (device, *lock_descriptors(one)), stack))
        yield made


def refuse_large_sectors(leases: Sequence[LeasedDisk], looks: Sequence[DiskProperties]) -> None:
    for one, look in zip(leases, looks, strict=True):
        if look.logical != SECTOR:
            raise BadInput(
                f"{one.declared.id} has sectors of {look.logical} bytes, but disks of vagrant always have {SECTOR}",
                resolution="use `--on qemu --passthrough`, which keeps the sector size",
            )
