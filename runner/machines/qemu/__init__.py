"""The default machine `qemu`: virtual machines with an appliance built here, cloned instead of booted."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from runner.base.cache import remove_unused
from runner.base.errors import BadInput, HarnessBroken
from runner.base.kernels import SUITES, is_path
from runner.machines.base import MachineOptions, Preparation, Refusal
from runner.machines.qemu import argv, probe, recipe, rig, template
from runner.machines.qemu.appliance import BUILD_TOOLS, cached, provided
from runner.machines.qemu.disk_files import backed
from runner.machines.qemu.guest import running
from runner.machines.qemu.host import beyond, crowded, room, this_host
from runner.simdisks.server import TOOLS as DISK_TOOLS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from runner.machines.base import Processor, Rig, RigSpec
    from runner.machines.qemu.appliance import Appliance
    from runner.machines.qemu.argv import Vm
    from runner.machines.qemu.disk_files import Backing

TOOLS = {argv.QEMU: "qemu-system-x86", "setpriv": "util-linux"}

NO_OPTIONS = MachineOptions()
#: Measured on two processors of an AMD EPYC host: building an appliance, with a fast way to Debian's archive; finding
#: out whether KVM works; booting a machine and saving it.
BUILD_SECONDS, PROBE_SECONDS = 25.0, 4.0
BOOT_SECONDS = {"kvm": 2.0, "tcg": 10.0}


class Qemu:
    name: ClassVar[str] = "qemu"
    disposable: ClassVar[bool] = True
    zeroed: ClassVar[bool] = True
    brings_disks: ClassVar[bool] = True
    synthetic: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        self.options = options
        #: Found once: all rigs of a run are emulated, or none.
        self._accel = ""
        #: Messages shown already; a message about the host is the same for every rig.
        self._told: set[str] = set()
        #: Provides the disks of its rigs.
        self._back: Backing = backed

    @classmethod
    def from_options(cls, options: MachineOptions) -> Self:
        return cls(options)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*missing_tools(spec), *impossible(spec), *beyond(spec, this_host())]

    def kernel_refusal(self, kernel: str) -> str:
        return lacking(kernel)

    def max_rigs(self, spec: RigSpec) -> int:
        return room(spec, this_host())

    def processor(self) -> Processor:
        return "virtual" if probe.expected() == "kvm" else "emulated"

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:
        """Return the time to build appliances, try KVM, and make templates or boot."""
        made = {spec: recipe.recipe_for(spec.kernel) for spec in specs}
        found = {one: cached(one) for one in made.values() if one}
        once = sum(BUILD_SECONDS for base in found.values() if base is None)
        once += 0.0 if probe.is_known() else PROBE_SECONDS
        boot = BOOT_SECONDS[probe.expected()]
        if self.options.cold or any(disk.bus == "nvme" for spec in specs for disk in spec.disks):
            return Preparation(once, boot)
        templates = {self._template(spec, found[one]) for spec, one in made.items() if one}
        return Preparation(once + boot * sum(not template.whole(template.home() / name) for name in templates))

    def _template(self, spec: RigSpec, base: Appliance | None) -> str:
        """Name the template of a rig; without an appliance, a name that is unique in this plan."""
        extra = sorted({*modules_of(spec)} - {*recipe.TEMPLATE_MODULES})
        if base is None:
            return recipe.digest(spec.kernel, spec.disks, spec.cpus, spec.memory, extra)
        vm = argv.Vm(base, spec.disks, probe.expected(), spec.cpus, spec.memory, modules_of(spec), ())
        return template.key(argv.with_modules(vm, recipe.TEMPLATE_MODULES), probe.qemu_version(), probe.host())

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[Rig]:
        """Clone a template; boot where the user wants it or nothing else works."""
        made = self._recipe(spec.kernel)
        self.tell_once(crowded(spec, this_host()))
        async with AsyncExitStack() as stack:
            base = await stack.enter_async_context(provided(made, self.options.progress))
            self._accel = self._accel or await probe.accelerator(base, scratch, self.tell_once)
            vm = argv.Vm(base, spec.disks, self._accel, spec.cpus, spec.memory, modules_of(spec), self._passed(spec))
            if made.image and "squashfs" in base.versions["not modules"]:
                lacking = "virtio, squashfs, overlay and md must be built in"
                self.options.notice(f"no modules lie beside {made.image}: {lacking}")
            clone = None if self.options.cold or not clonable(vm) else await self._clone(stack, vm, scratch)
            yield await stack.enter_async_context(cold_rig(vm, scratch, self._back)) if clone is None else clone

    def _recipe(self, kernel: str | None) -> recipe.Recipe:
        """Return the recipe of a kernel. An image is the one of the run's start, as the fingerprint is, whatever was
        built in its place since.
        """
        if kernel and (key := self.options.images.get(kernel)):
            return recipe.own_recipe(kernel, key)
        made = recipe.recipe_for(kernel)
        if made is None:
            raise BadInput(f"no such kernel: {kernel}")
        return made

    def _passed(self, spec: RigSpec) -> tuple[argv.Passed | argv.Whole, ...]:  # noqa: ARG002
        """Return the physical disks of the rig: none here."""
        return ()

    def tell_once(self, word: str) -> None:
        """Show a message the first time that it comes up."""
        if word and word not in self._told:
            self._told.add(word)
            self.options.notice(word)

    async def _clone(self, stack: AsyncExitStack, vm: Vm, scratch: Path) -> Rig | None:
        """Clone a template, if possible. A template that does not start is thrown away."""
        warm = argv.with_modules(vm, recipe.TEMPLATE_MODULES)
        name = template.key(warm, probe.qemu_version(), probe.host())
        try:
            return await stack.enter_async_context(cloned_rig(warm, name, scratch, self._back))
        except HarnessBroken as error:
            remove_unused(template.home() / name)
            self.options.notice(f"booting instead of cloning: {error.brief}")
            return None


@asynccontextmanager
async def cloned_rig(vm: Vm, name: str, scratch: Path, back: Backing = backed) -> AsyncIterator[Rig]:
    start = time.monotonic()
    async with template.restored(vm, name, scratch, back) as (guest, facts):
        yield rig.QemuRig(guest, vm, {**facts, **common(vm), "up": "restored", "ready": template.since(start)})


@asynccontextmanager
async def cold_rig(vm: Vm, scratch: Path, back: Backing = backed) -> AsyncIterator[Rig]:
    start = time.monotonic()
    async with running(vm, scratch, back=back) as guest:
        await rig.booted(guest)
        ready = template.since(start)
        facts = await rig.ask_facts(guest)
        yield rig.QemuRig(guest, vm, {**facts, **common(vm), "up": "cold boot", "ready": ready})


def clonable(vm: Vm) -> bool:
    """Return whether QEMU can save the machine: it cannot save an NVMe controller."""
    return all(disk.bus != "nvme" for disk in vm.disks)


def common(vm: Vm) -> dict[str, str]:
    return {"qemu": probe.qemu_version(), "accel": vm.accel, "appliance": vm.appliance.key}


def modules_of(spec: RigSpec) -> tuple[str, ...]:
    """Return all modules to load: the drivers of the buses, then those that the rig wants."""
    buses = [module for disk in spec.disks for module in recipe.BUS_MODULES[disk.bus]]
    return tuple(dict.fromkeys([*buses, *spec.modules]))


def missing_tools(spec: RigSpec) -> list[Refusal]:
    modelled = any(disk.physics for disk in spec.disks)
    wanted = {**TOOLS, **BUILD_TOOLS, **(DISK_TOOLS if modelled else {})}
    return [Refusal(f"{tool} is not installed", f"apt install {wanted[tool]}") for tool in probe.absent(wanted)]


def lacking(kernel: str) -> str:
    """Return why a kernel cannot run in a virtual machine here; empty if it can."""
    made = recipe.recipe_for(kernel)
    if made is None:
        where = f"; paths begin in {Path.cwd()}" if is_path(kernel) and not kernel.startswith(("/", "~")) else ""
        return f"no such kernel: {kernel}{where}"
    image = made.image
    return f"{image} is no kernel image" if image and recipe.kernel_release(image.read_bytes()) is None else ""


def impossible(spec: RigSpec) -> list[Refusal]:
    refused = []
    if spec.kernel and (why := lacking(spec.kernel)):
        refused.append(Refusal(why, f"one of {', '.join(SUITES)}, or the path of a bzImage"))
    if argv.slots(spec.disks) > argv.FREE_SLOTS:
        refused.append(Refusal(f"{len(spec.disks)} disks do not fit into the machine", "use the scsi or sata bus"))
    if spec.memory < recipe.LEAST_MEMORY:
        refused.append(Refusal(f"{spec.memory} bytes of memory are too few", "give it 256 MiB or more"))
    return refused
