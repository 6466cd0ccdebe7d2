"""The command line of QEMU, as a pure function. It inherits all files as descriptors; a crash leaves no file behind."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from matrix_runner.machines.qemu.appliance import Appliance
from matrix_runner.machines.qemu.recipe import KERNEL_WORDS
from matrix_runner.simdisks.disk import Disk

QEMU = "qemu-system-x86_64"
AHCI_PORTS = 6
#: Emulation does without features that slow it down: `rep movsb` copies single bytes (`erms`), `la57` adds a level of
#: page tables, and SMAP, SMEP, UMIP and protection keys add checks. Programs start in two thirds of the time.
EMULATED_CPU = "max,-erms,-la57,-smap,-smep,-umip,-pku"
#: PCI slots of the `pc` machine, less host bridge, PIIX3, agent, the two file systems of the appliance and one for
#: growth.
FREE_SLOTS = 26
#: Physical disks with their controllers fill slots from here down; all other devices fill them from below.
LAST_SLOT = 31


@dataclass(frozen=True, slots=True)
class DiskProperties:
    logical: int = 512  # bytes of a logical and of a physical sector
    physical: int = 512
    discard: int = 0
    rotation: int = 1  # revolutions a minute; 1: not rotating
    wwn: str = ""  # sixteen hex digits; empty if it has none of that length
    model: str = ""


@dataclass(frozen=True, slots=True)
class PassedController:
    address: str
    serial: str = ""


@dataclass(frozen=True, slots=True)
class Vm:
    """The hardware of a virtual machine. Equal ones can share a template."""

    appliance: Appliance
    disks: tuple[Disk, ...]
    accel: str
    cpus: int
    memory: int
    modules: tuple[str, ...]
    #: The physical disks of a passthrough machine. Its template has empty files with the same properties.
    passed: tuple[DiskProperties | PassedController, ...] = ()
    cmdline: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """How a machine comes up. With a file as its memory it is a template, to be saved, or a clone of one."""

    memory: Path | None = None
    is_clone: bool = False  # it continues from a saved state, with a private copy of the memory

    @property
    def is_template(self) -> bool:
        return self.memory is not None and not self.is_clone

    @property
    def ram(self) -> str:
        if self.memory is None:
            return "memory-backend-ram,id=ram"
        return f"memory-backend-file,id=ram,mem-path={escape(self.memory)},share={'off' if self.is_clone else 'on'}"


BOOT = Start()


@dataclass(frozen=True, slots=True)
class Channels:
    qmp: int
    agent: int
    bell: int
    orders: int
    words: int
    console: int
    disks: tuple[int, ...]
    locks: tuple[int, ...] = ()  # descriptors that QEMU only keeps open: locks of disks, and their exclusive openings

    @property
    def all(self) -> tuple[int, ...]:
        return (self.qmp, self.agent, self.bell, self.orders, self.words, self.console, *self.disks, *self.locks)


def command(vm: Vm, channels: Channels, start: Start) -> list[str]:
    """Return the command line. QEMU yields to the servers of simulated disks, which must not wait for it."""
    return [
        *(("nice", "-n", "5") if any(disk.physics for disk in vm.disks) else ()),
        QEMU,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-vga", "none"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"),
        *machine(vm, start),
        *control(channels),
        *file_systems(vm.appliance),
        *disks(vm, channels),
        *(("-incoming", "defer") if start.is_clone else boot(vm)),
    ]


def machine(vm: Vm, start: Start) -> list[str]:
    """Return board, processors and memory. Each processor has its own socket, because MP tables list one for each.

    The emulated boot of a template has one thread for all processors: it needs a quarter less of the host's processors,
    and two threads can make QEMU before 8.1 run outdated code.
    """
    size = f"{vm.memory // 2**20}M"
    return [
        *("-machine", "pc,memory-backend=ram,usb=off,vmport=off,hpet=off"),
        *("-accel", "tcg,thread=single" if start.is_template and vm.accel == "tcg" else vm.accel),
        *("-cpu", "host" if vm.accel == "kvm" else EMULATED_CPU),
        *("-smp", f"{vm.cpus},sockets={vm.cpus}"),
        *("-m", size, "-object", f"{start.ram},size={size}"),
    ]


def control(channels: Channels) -> list[str]:
    words = [
        *("-add-fd", f"set=1,fd={channels.console}"),
        *("-chardev", "file,id=console,path=/dev/fdset/1,append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={channels.qmp}", "-mon", "chardev=qmp,mode=control"),
        *("-device", "virtio-serial-pci,id=ports"),
    ]
    ports = {"agent": channels.agent, "bell": channels.bell, "orders": channels.orders, "words": channels.words}
    for port, descriptor in ports.items():
        name = "org.qemu.guest_agent.0" if port == "agent" else f"matrix.{port}"
        words += ["-chardev", f"socket,id={port},fd={descriptor}"]
        words += ["-device", f"virtserialport,bus=ports.0,chardev={port},name={name}"]
    return words


def file_systems(appliance: Appliance) -> list[str]:
    words: list[str] = []
    for name, folder in (("root", appliance.userland), ("modules", appliance.core)):
        image = escape(folder / f"{name}.squashfs")
        node = f"driver=raw,node-name={name},read-only=on,file.driver=file,file.filename={image}"
        words += ["-blockdev", node, "-device", f"virtio-blk-pci,drive={name},serial=matrix-{name}"]
    return words


def disks(vm: Vm, channels: Channels) -> list[str]:
    """Return the disks under test. Physical disks are those with descriptors that QEMU keeps."""
    words, descriptors = list[str](), iter(channels.disks)
    for number, disk in enumerate(vm.disks):
        passed = vm.passed[number] if vm.passed else None
        if isinstance(passed, PassedController):
            words += ["-device", f"vfio-pci,host={passed.address},addr={slot_of(vm, number):#x}"]
            continue
        is_served, is_physical = bool(disk.physics), bool(channels.locks)
        ages = disk.physics is not None and disk.physics.ages
        words += block_node(number, next(descriptors), is_served=is_served, is_physical=is_physical, discards=ages)
        words += device(vm.disks, number, disk, passed)
    return words


def slot_of(vm: Vm, number: int) -> int:
    return LAST_SLOT - sum(isinstance(one, PassedController) for one in vm.passed[:number])


def block_node(
    number: int, descriptor: int, *, is_served: bool, is_physical: bool, discards: bool = False
) -> list[str]:
    """Return the node of a disk: a server's, a physical disk past the host's cache, or a temporary file."""
    node, path = f"driver=raw,node-name=disk{number}", f"/dev/fdset/{number + 10}"
    if is_served:
        node += ",discard=unmap" if discards else ""
        return ["-blockdev", f"{node},file.driver=nbd,file.server.type=fd,file.server.str={descriptor}"]
    if is_physical:  # with flushes, and locked against other QEMUs
        node += f",cache.direct=on,discard=unmap,file.driver=host_device,file.filename={path}"
        node += ",file.aio=native,file.cache.direct=on,file.discard=unmap"
    else:  # it ends with the machine
        node += f",cache.no-flush=on,discard=unmap,file.driver=file,file.filename={path},file.locking=off"
        node += ",file.discard=unmap"
    return ["-add-fd", f"set={number + 10},fd={descriptor}", "-blockdev", node]


def device(wanted: tuple[Disk, ...], number: int, disk: Disk, passed: DiskProperties | None = None) -> list[str]:
    """Return one disk on its bus, after the controller if it is the first. A full host pauses the guest."""
    plain = f"drive=disk{number},serial=matrix-{number}{device_properties(disk, passed) if passed else ''}"
    if disk.bus == "nvme":
        return ["-device", f"nvme,{plain}"]
    common = f"{plain},werror=enospc"
    place = [other.bus for other in wanted[:number]].count(disk.bus)
    if disk.bus == "virtio":
        return ["-device", f"virtio-blk-pci,{common}"]
    if rate := rotation(disk):
        common += f",rotation_rate={rate}"
    if disk.bus == "scsi":
        controller = ["-device", "virtio-scsi-pci,id=scsi"] if place == 0 else []
        return [*controller, "-device", f"scsi-hd,bus=scsi.0,scsi-id={place},{common}"]
    group, port = divmod(place, AHCI_PORTS)
    controller = ["-device", f"ich9-ahci,id=sata{group}"] if port == 0 else []
    return [*controller, "-device", f"ide-hd,bus=sata{group}.{port},{common}"]


def rotation(disk: Disk) -> int:
    """Return the rotation rate that the guest sees; 0: unknown. Virtio and NVMe disks cannot report it."""
    return disk.physics.rotation if disk.physics and disk.bus in {"scsi", "sata"} else 0


def device_properties(disk: Disk, passed: DiskProperties) -> str:
    properties = {"logical_block_size": str(passed.logical), "physical_block_size": str(passed.physical)}
    if disk.bus != "nvme" or passed.discard:  # QEMU's NVMe disks always discard
        # SATA always discards single sectors.
        properties["discard_granularity"] = str(
            min(passed.discard, passed.logical) if disk.bus == "sata" else passed.discard
        )
    if disk.bus == "virtio":
        properties["discard"] = "on" if passed.discard else "off"
    if disk.bus in {"scsi", "sata"}:
        properties["rotation_rate"] = str(passed.rotation)
        properties |= {"wwn": f"0x{passed.wwn}"} if passed.wwn else {}
        name, most = ("product", 16) if disk.bus == "scsi" else ("model", 40)
        properties |= {name: passed.model[:most].strip().replace(",", ",,")} if passed.model else {}
    return "".join(f",{name}={value}" for name, value in properties.items())


def boot(vm: Vm) -> list[str]:
    words = [KERNEL_WORDS, f"matrix.disks={len(vm.disks)}", f"matrix.modules={','.join(vm.modules)}"]
    passed = [(number, one) for number, one in enumerate(vm.passed) if isinstance(one, PassedController)]
    # A kernel command line cannot carry all serial numbers.
    places = [
        f"0000:00:{slot_of(vm, number):02x}.0={number}={re.sub(r'[^A-Za-z0-9._-]', '', one.serial)}"
        for number, one in passed
    ]
    words += [f"matrix.slots={','.join(places)}"] if places else []
    words += [vm.cmdline] if vm.cmdline else []
    files = ["-kernel", str(vm.appliance.kernel), "-initrd", str(vm.appliance.core / "initramfs")]
    return [*files, "-append", " ".join(words)]


def escape(path: Path) -> str:
    return str(path).replace(",", ",,")


def slots(wanted: tuple[Disk, ...]) -> int:
    count = {bus: sum(disk.bus == bus for disk in wanted) for bus in ("virtio", "scsi", "sata", "nvme")}
    return count["virtio"] + count["nvme"] + bool(count["scsi"]) + -(-count["sata"] // AHCI_PORTS)


def with_modules(vm: Vm, extra: tuple[str, ...]) -> Vm:
    return replace(vm, modules=tuple(dict.fromkeys((*vm.modules, *extra))))
