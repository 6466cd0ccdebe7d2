"""The default machine `qemu`: virtual machines with an appliance, cloned from templates."""

import fcntl
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from matrix_runner.base.cache import remove_unused
from matrix_runner.base.digests import is_complete
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import IMAGE, read_input
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.operations import Descriptor
from matrix_runner.hosts.reasons import plain_wwn
from matrix_runner.language.matrix import SUITES, is_path
from matrix_runner.machines.base import (
    NO_OPTIONS,
    Machine,
    MachineOptions,
    Preparation,
    Processor,
    Refusal,
    Rig,
    RigSpec,
)
from matrix_runner.machines.local import disk_model_refusals
from matrix_runner.machines.qemu import argv, host, recipe, rig, template
from matrix_runner.machines.qemu.appliance import BUILD_TOOLS, Appliance, appliance_in_use, core_of, find_cached, home
from matrix_runner.machines.qemu.argv import DiskProperties, PassedController, Vm
from matrix_runner.machines.qemu.guest import DiskFiles, DiskProvider, run_guest, serve_disks
from matrix_runner.machines.qemu.host import capacity_refusals, crowding_notice, max_machines, this_host
from matrix_runner.machines.requirements import package_of
from matrix_runner.simdisks.disk import Disk
from matrix_runner.simdisks.server import TOOLS as DISK_TOOLS

TOOLS = {argv.QEMU: "qemu-system-x86", "setpriv": "util-linux"}

#: Measured on two processors of an AMD EPYC host with a fast link to Debian's archive: the build of an appliance, the
#: probe of KVM, and the boot of a template.
BUILD_SECONDS, PROBE_SECONDS = 25.0, 4.0
ZFS_SECONDS = 60.0 * recipe.ZFS_MINUTES
BOOT_SECONDS = {"kvm": 2.0, "tcg": 10.0}


class Qemu(Machine):
    name: ClassVar[str] = "qemu"
    disposable: ClassVar[bool] = True
    zeroed: ClassVar[bool] = True
    brings_disks: ClassVar[bool] = True
    takes_folders: ClassVar[bool] = True

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        #: Chosen once for all rigs of a run.
        self._accel = ""
        self._provide_disks: DiskProvider = partial(serve_disks, notice=options.notice)
        self._slow_start = False  # a start that a user waits for

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        wanted = {**TOOLS, **BUILD_TOOLS, **(DISK_TOOLS if any(disk.physics for disk in spec.disks) else {})}
        tools = host.missing_tool_refusals(wanted)
        return [*tools, *spec_refusals(spec), *capacity_refusals(spec, this_host())]

    def kernel_refusal(self, kernel: str) -> str:
        return explain_unusable_kernel(kernel)

    def find_kernel(self, release: str, appliance: str, names: Collection[str]) -> tuple[str, str]:
        core = appliance.partition("+")[0]
        if core and is_complete(home() / core):
            return release, core
        for name in names:
            with suppress(OSError, BadInput):
                if (made := recipe.recipe_for(name)) and made.source and core_of(made).name == core:
                    return name, ""
        return "", ""

    def max_rigs(self, spec: RigSpec) -> int:
        return max_machines(spec, this_host())

    def known(self, spec: RigSpec) -> Mapping[str, str]:
        with suppress(BadInput, OSError):  # no such kernel, or a version of a search, which is not there yet
            made = self._recipe(spec.kernel, spec.modules)
            if made.zfs and not find_cached(made):  # a build will bring it
                made, spec = replace(made, zfs=False), _without_zfs(spec)
            if base := find_cached(made):
                own = recipe.programs_in(made.source) if made.source else ()
                return facts_of(base, spec, own) | unset_options(base, spec, made.image)
        return {}

    def processor(self) -> Processor:
        return "virtual" if host.expected_accelerator() == "kvm" else "emulated"

    def preparation(self, specs: Collection[RigSpec]) -> Preparation:
        made = {spec: recipe.recipe_for(spec.kernel, spec.modules) for spec in specs}
        found = {one: find_cached(one) for one in made.values() if one}
        once = sum(ZFS_SECONDS if one.zfs else BUILD_SECONDS for one, base in found.items() if base is None)
        with suppress(HarnessBroken):  # without QEMU there is no probe
            once += 0.0 if host.known_accelerator() else PROBE_SECONDS
        boot = BOOT_SECONDS[host.expected_accelerator()]
        if self.options.cold or any(disk.bus == "nvme" for spec in specs for disk in spec.disks):
            return Preparation(once, boot)
        templates = {self._template(spec, found[one]) for spec, one in made.items() if one}
        return Preparation(once + boot * sum(not is_complete(template.home() / name) for name in templates))

    def _template(self, spec: RigSpec, base: Appliance | None) -> str:
        """Return the name of the template of a rig; without an appliance, one that is unique in this plan."""
        extra = sorted({*modules_of(spec)} - {*recipe.TEMPLATE_MODULES})
        if base is None:
            return recipe.digest(spec.kernel, spec.disks, spec.cpus, spec.memory, extra, spec.cmdline)
        vm = self._vm_of(spec, base, host.expected_accelerator())
        return template.key(argv.with_modules(vm, recipe.TEMPLATE_MODULES), host.qemu_version(), host.host())

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[Rig]:
        self.notice_once(crowding_notice(spec, this_host()))
        async with AsyncExitStack() as stack:
            # QEMU cannot save a machine with an NVMe controller.
            is_cold = self.options.cold or any(disk.bus == "nvme" for disk in spec.disks)
            clone = None if is_cold else await self._clone(stack, await self._vm(stack, spec, scratch), scratch)
            if clone is None:
                vm = await self._vm(stack, spec, scratch)  # checked again if a guest failed
                clone = await stack.enter_async_context(cold_rig(vm, scratch, self._provide_disks))
            if self._slow_start:
                self._slow_start = False
                self.options.progress("the virtual machine is up", 1.0)
            yield clone

    def _show_slow_start(self) -> None:
        self._slow_start = True
        self.options.progress("starting the virtual machine")

    async def _vm(self, stack: AsyncExitStack, spec: RigSpec, scratch: Path) -> Vm:
        options = self.options
        folder = await options.folder_of(spec.kernel) if options.folder_of and spec.kernel else None
        key = options.images.get(spec.kernel or "", "")
        made = recipe.own_recipe(str(folder), key) if folder else self._recipe(spec.kernel, spec.modules)
        base = await stack.enter_async_context(appliance_in_use(made, options.progress, options.notice))
        if not self._accel and host.known_accelerator() is None:
            self._show_slow_start()
        self._accel = self._accel or await host.accelerator(base, scratch, self.notice_once)
        if made.image and "squashfs" in base.versions["not modules"]:
            lacking = "virtio, squashfs, overlay and md must be built in"
            self.notice_once(f"no modules lie beside {made.image}: {lacking}")
        return replace(self._vm_of(spec, base, self._accel), passed=self._physical_disks(spec))

    def _vm_of(self, spec: RigSpec, base: Appliance, accel: str) -> Vm:
        modules = modules_of(spec)
        return argv.Vm(base, spec.disks, accel, spec.cpus, spec.memory, modules, cmdline=spec.cmdline)

    def _recipe(self, kernel: str | None, modules: Collection[str] = ()) -> recipe.Recipe:
        """Return the recipe of a kernel. The user's image is the one from the run's start, like the fingerprint."""
        if kernel and (key := self.options.images.get(kernel)):
            return recipe.own_recipe(kernel, key)
        made = recipe.recipe_for(kernel, modules)
        if made is None:
            raise BadInput(f"no such kernel: {kernel}")
        return made

    def _physical_disks(self, spec: RigSpec) -> tuple[argv.DiskProperties | argv.PassedController, ...]:  # noqa: ARG002
        return ()

    async def _clone(self, stack: AsyncExitStack, vm: Vm, scratch: Path) -> Rig | None:
        warm = argv.with_modules(vm, recipe.TEMPLATE_MODULES)
        name = template.key(warm, host.qemu_version(), host.host())
        if not is_complete(template.home() / name):
            self._show_slow_start()
        try:
            return await stack.enter_async_context(
                cloned_rig(warm, name, scratch, self._provide_disks, self.options.notice)
            )
        except HarnessBroken as error:
            remove_unused(template.home() / name)
            self.options.notice(f"the rig boots instead of cloning a template: {error.brief}")
            return None


@asynccontextmanager
async def cloned_rig(
    vm: Vm, name: str, scratch: Path, back: DiskProvider, notice: Callable[[str], None]
) -> AsyncIterator[Rig]:
    start = time.monotonic()
    async with template.restore(vm, name, scratch, back, notice) as (guest, facts):
        yield rig.QemuRig(guest, vm, {**facts, **machine_facts(vm, "restored", start)})


@asynccontextmanager
async def cold_rig(vm: Vm, scratch: Path, back: DiskProvider = serve_disks) -> AsyncIterator[Rig]:
    start = time.monotonic()
    async with run_guest(vm, scratch, back=back) as guest:
        await rig.wait_for_boot(guest)
        facts = machine_facts(vm, "cold boot", start)
        yield rig.QemuRig(guest, vm, {**await rig.ask_facts(guest, vm.appliance.modules), **facts})


def machine_facts(vm: Vm, up: str, start: float) -> dict[str, str]:
    known = {"qemu": host.qemu_version(), "accel": vm.accel, "appliance": vm.appliance.key, "up": up}
    return {**known, "ready": f"{time.monotonic() - start:.3f}"}


def facts_of(base: Appliance, spec: RigSpec, own: Collection[str]) -> dict[str, str]:
    """Return what an appliance tells of its rigs before a boot. The versions of a user's `own` programs are unknown."""
    replaced = {Path(name).name for name in own}
    packages = {name: base.versions.get(package_of(name)) for name in spec.programs if name not in replaced}
    found = {
        "kernel": base.versions.get("kernel", ""),
        "processors": str(spec.cpus),
        **{name: version for name, version in packages.items() if version},
    }
    if absent := [name for name, version in packages.items() if version is None]:
        found["absent"] = " ".join(absent)
    # A kernel of the user without modules has all of them built in, as far as anyone knows.
    if base.modules and (without := [name for name in spec.modules if name not in base.modules]):
        found["without"] = " ".join(without)
    return found


def _without_zfs(spec: RigSpec) -> RigSpec:
    """Return a rig without the needs that the build of ZFS brings."""
    modules = tuple(name for name in spec.modules if name != recipe.ZFS)
    return replace(
        spec, modules=modules, programs=tuple(one for one in spec.programs if package_of(one) != recipe.ZFS_TOOLS)
    )


def unset_options(base: Appliance, spec: RigSpec, image: Path | None) -> dict[str, str]:
    """Return which options a kernel lacks. `image`: the user's, of which the configuration may be unknown."""
    if not spec.options:
        return {}
    from matrix_runner.machines.qemu.kernel_config import inspect, parse

    config = parse(inspect(image).config if image else (base.core / recipe.CONFIG).read_text())
    unset = [name for name in spec.options if config.get(name) not in {"y", "m"}]
    return {"unset": " ".join(unset)} if config and unset else {}


def modules_of(spec: RigSpec) -> tuple[str, ...]:
    buses = [module for disk in spec.disks for module in recipe.BUS_MODULES[disk.bus]]
    return tuple(dict.fromkeys([*buses, *spec.modules]))


def explain_unusable_kernel(kernel: str) -> str:
    made = recipe.recipe_for(kernel)
    if made is None:
        where = f"; paths begin in {Path.cwd()}" if is_path(kernel) and not kernel.startswith(("/", "~")) else ""
        return f"no such kernel: {kernel}{where}"
    image = made.image
    try:
        if made.source and not (image or recipe.modules_in(made.source) or recipe.programs_in(made.source)):
            return f"{made.source} has no bzImage, no lib/modules and no programs such as usr/sbin/mdadm"
        return (
            f"{image} is no kernel image" if image and recipe.kernel_release(read_input(image, IMAGE)) is None else ""
        )
    except OSError as error:
        return f"{image} cannot be read: {error.strerror or error}"


def spec_refusals(spec: RigSpec) -> Iterator[Refusal]:
    if spec.kernel and (why := explain_unusable_kernel(spec.kernel)):
        yield Refusal(why, f"one of {', '.join(SUITES)}, or the path of a bzImage or its folder")
    if argv.slots(spec.disks) > argv.FREE_SLOTS:
        yield Refusal(f"{len(spec.disks)} disks do not fit into the virtual machine", "use the scsi or sata bus")
    if spec.memory < recipe.LEAST_MEMORY:
        yield Refusal(f"{spec.memory} bytes of memory are too few", "use 256 MiB or more")


BLOCK_DEVICES = Path("/sys/class/block")
#: For rotating disks of unknown speed. A guest only needs to know that they rotate.
DEFAULT_ROTATION = 7200
#: Offset of the revolutions a minute (two bytes) in the VPD page of block device characteristics.
_RATE_AT = 4
_WWN = re.compile("[0-9a-f]{16}")


class Passthrough(Qemu):
    """A `Qemu` machine with physical disks. Stacks outlive it, so scripts in the guest tear them down."""

    name: ClassVar[str] = "qemu-passthrough"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._provide_disks = partial(provide_leased_disks, options.held)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*disk_model_refusals(spec), *super().refusals(spec)]

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 1

    def _physical_disks(self, spec: RigSpec) -> tuple[DiskProperties | PassedController, ...]:
        held = self.options.held[: len(spec.disks)]
        found = tuple(
            PassedController(one.controller, one.node.serial)
            if one.controller
            else read_properties(one, BLOCK_DEVICES / one.node.name)
            for one in held
        )
        for one, disk, looks in zip(held, spec.disks, found, strict=True):
            if isinstance(looks, DiskProperties) and disk.bus == "sata" and looks.logical != 512:
                raise BadInput(
                    f"{one.declared.id} has sectors of {looks.logical} bytes, and QEMU's sata bus only knows 512",
                    resolution="take the scsi or virtio bus: `disks: {bus: scsi}`",
                )
        return found


def read_properties(held: LeasedDisk, folder: Path) -> DiskProperties:
    wwn, rate = plain_wwn(held.node.wwn), 0
    with suppress(OSError):
        rate = int.from_bytes((folder / "device/vpd_pgb1").read_bytes()[_RATE_AT : _RATE_AT + 2], "big")
    rotation = rate if 0x401 <= rate < 0xFFFF else DEFAULT_ROTATION  # the standard reserves all other values
    return DiskProperties(
        logical=_number(folder / "queue/logical_block_size", 512),
        physical=_number(folder / "queue/physical_block_size", 512),
        discard=_number(folder / "queue/discard_granularity", 0),
        rotation=rotation if _number(folder / "queue/rotational", 0) else 1,
        wwn=wwn if _WWN.fullmatch(wwn) else "",
        model="".join(char for char in held.node.model if char.isascii() and char.isprintable()),
    )


def _number(file: Path, unknown: int) -> int:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return unknown


@asynccontextmanager
async def provide_leased_disks(
    held: Sequence[LeasedDisk],
    disks: tuple[Disk, ...],
    scratch: Path,  # noqa: ARG001
    complaints: int,  # noqa: ARG001
) -> AsyncIterator[DiskFiles]:
    with ExitStack() as stack:
        used = [*zip(held, disks, strict=False)]
        opened = tuple(open_writable(one, stack) for one, _ in used if not one.controller)
        for descriptor in opened:  # from version 9.1 on, QEMU wants the flag for disks that bypass the host's cache
            fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_DIRECT)
        yield DiskFiles(opened, locks=tuple(number for one, _ in used for number in lock_descriptors(one)))


def lock_descriptors(held: LeasedDisk) -> tuple[int, ...]:
    having = (held.lock,) if held.controller else (held.lock, held.opened)
    return tuple(grip.number for grip in having if isinstance(grip, Descriptor))


def open_writable(held: LeasedDisk, stack: ExitStack) -> int:
    judged = held.opened
    assert isinstance(judged, Descriptor)  # noqa: S101 - for the type checker; disks of other hosts are not passed on
    stack.callback(os.close, descriptor := judged.writable())
    return descriptor
