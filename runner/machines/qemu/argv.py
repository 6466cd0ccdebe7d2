"""The command line of QEMU, as a pure function of the virtual machine.

Disks, control channels, console and saved state are inherited file descriptors, so no path outlives the process and a
crash leaves no file behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from runner.machines.qemu.appliance import Appliance
    from runner.simdisks.disk import Disk

QEMU = "qemu-system-x86_64"
AHCI_PORTS = 6
#: Under emulation some processor features cost more than they save: `rep movsb` goes byte by byte (`erms`), a fifth
#: level of page tables is one more to walk, and SMAP, SMEP, UMIP and protection keys are checks that this machine does
#: not need. Without them programs start in two thirds of the time.
EMULATED_CPU = "max,-erms,-la57,-smap,-smep,-umip,-pku"
#: PCI slots of the `pc` machine, less host bridge, PIIX3, agent, the two file systems of the appliance and one for
#: growth.
FREE_SLOTS = 26
#: Physical disks with their controllers fill slots from here down; all other devices fill them from below.
LAST_SLOT = 31


@dataclass(frozen=True, slots=True)
class Passed:
    """What a guest sees of a physical disk, as far as a bus can show it."""

    #: Bytes of a logical and of a physical sector.
    logical: int = 512
    physical: int = 512
    #: Smallest discard in bytes; 0: it cannot discard.
    discard: int = 0
    #: Revolutions a minute; 1: not rotating.
    rotation: int = 1
    #: Sixteen hex digits; empty if it has none of that length.
    wwn: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A controller of the host that a guest gets with its disk, by VFIO."""

    #: On the host's PCI bus.
    address: str
    #: The disk's serial number, by which the guest finds it at whatever address.
    serial: str = ""


@dataclass(frozen=True, slots=True)
class Vm:
    """All that determines a virtual machine's hardware. Equal ones can share a template."""

    appliance: Appliance
    disks: tuple[Disk, ...]
    accel: str
    cpus: int
    memory: int
    modules: tuple[str, ...]
    #: The physical disks, one for each disk of a passthrough machine. A template of such a machine has files of the
    #: same properties.
    passed: tuple[Passed | Whole, ...] = ()


@dataclass(frozen=True, slots=True)
class Boot:
    @property
    def ram(self) -> str:
        return "memory-backend-ram,id=ram"


@dataclass(frozen=True, slots=True)
class Template:
    """A machine that boots and is saved: its memory is the file."""

    memory: Path

    @property
    def ram(self) -> str:
        return f"memory-backend-file,id=ram,mem-path={escaped(self.memory)},share=on"


@dataclass(frozen=True, slots=True)
class Clone:
    """A machine that continues from a saved state, with private changes to memory."""

    memory: Path

    @property
    def ram(self) -> str:
        return f"memory-backend-file,id=ram,mem-path={escaped(self.memory)},share=off"


Start = Boot | Template | Clone
BOOT = Boot()


@dataclass(frozen=True, slots=True)
class Channels:
    qmp: int
    agent: int
    bell: int
    orders: int
    words: int
    console: int
    disks: tuple[int, ...]
    #: Descriptors that QEMU only keeps open: locks of disks, and their exclusive openings.
    kept: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        return (self.qmp, self.agent, self.bell, self.orders, self.words, self.console, *self.disks, *self.kept)


def command(vm: Vm, channels: Channels, start: Start) -> list[str]:
    """Return the whole command line. QEMU is nice when disks are simulated: their servers must not wait for the
    emulated processor.
    """
    return [
        *(("nice", "-n", "5") if any(disk.physics for disk in vm.disks) else ()),
        QEMU,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-vga", "none"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"),
        *machine(vm, start),
        *control(channels),
        *file_systems(vm.appliance),
        *disks(vm, channels),
        *(("-incoming", "defer") if isinstance(start, Clone) else boot(vm)),
    ]


def machine(vm: Vm, start: Start) -> list[str]:
    """Return board, processors and memory. Each processor is a socket of its own, or else MP tables list only the
    first.
    """
    size = f"{vm.memory // 2**20}M"
    return [
        *("-machine", f"pc,accel={vm.accel},memory-backend=ram,usb=off,vmport=off,hpet=off"),
        *("-cpu", "host" if vm.accel == "kvm" else EMULATED_CPU),
        *("-smp", f"{vm.cpus},sockets={vm.cpus}"),
        *("-m", size, "-object", f"{start.ram},size={size}"),
    ]


def control(channels: Channels) -> list[str]:
    return [
        *("-add-fd", f"set=1,fd={channels.console}"),
        *("-chardev", "file,id=console,path=/dev/fdset/1,append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={channels.qmp}", "-mon", "chardev=qmp,mode=control"),
        *("-device", "virtio-serial-pci,id=ports"),
        *("-chardev", f"socket,id=agent,fd={channels.agent}"),
        *("-device", "virtserialport,bus=ports.0,chardev=agent,name=org.qemu.guest_agent.0"),
        *("-chardev", f"socket,id=bell,fd={channels.bell}"),
        *("-device", "virtserialport,bus=ports.0,chardev=bell,name=matrix.bell"),
        *("-chardev", f"socket,id=orders,fd={channels.orders}"),
        *("-device", "virtserialport,bus=ports.0,chardev=orders,name=matrix.orders"),
        *("-chardev", f"socket,id=words,fd={channels.words}"),
        *("-device", "virtserialport,bus=ports.0,chardev=words,name=matrix.words"),
    ]


def file_systems(appliance: Appliance) -> list[str]:
    words: list[str] = []
    for name, image in (("root", appliance.root), ("modules", appliance.modules)):
        node = f"driver=raw,node-name={name},read-only=on,file.driver=file,file.filename={escaped(image)}"
        words += ["-blockdev", node, "-device", f"virtio-blk-pci,drive={name},serial=matrix-{name}"]
    return words


def disks(vm: Vm, channels: Channels) -> list[str]:
    """Return the disks under test. Physical disks are those with descriptors that QEMU keeps."""
    words: list[str] = []
    behind, descriptors = of_host if channels.kept else file, iter(channels.disks)
    for number, disk in enumerate(vm.disks):
        passed = vm.passed[number] if vm.passed else None
        if isinstance(passed, Whole):
            words += ["-device", f"vfio-pci,host={passed.address},addr={slot_of(vm, number):#x}"]
            continue
        descriptor = next(descriptors)
        words += served(number, descriptor) if disk.physics else behind(number, descriptor)
        words += device(vm.disks, number, disk, passed)
    return words


def slot_of(vm: Vm, number: int) -> int:
    """Return the slot of a disk with its controller: from above, as all other devices fill slots from below."""
    return LAST_SLOT - sum(isinstance(one, Whole) for one in vm.passed[:number])


def slots_of(vm: Vm) -> str:
    """For the guest: the slot of each such disk, its number and its serial number."""
    found = [(number, one) for number, one in enumerate(vm.passed) if isinstance(one, Whole)]
    return ",".join(f"0000:00:{slot_of(vm, number):02x}.0={number}={plain(one.serial)}" for number, one in found)


def plain(serial: str) -> str:
    """Remove from a serial number what a kernel command line cannot carry."""
    return re.sub(r"[^A-Za-z0-9._-]", "", serial)


def file(number: int, descriptor: int) -> list[str]:
    """A disk that ends with the machine: flushes to the host's disk are pointless."""
    path = f"/dev/fdset/{number + 10}"
    node = f"driver=raw,node-name=disk{number},cache.no-flush=on,file.driver=file,file.filename={path}"
    return ["-add-fd", f"set={number + 10},fd={descriptor}", "-blockdev", f"{node},file.locking=off"]


def of_host(number: int, descriptor: int) -> list[str]:
    """A physical disk: without the host's cache, with flushes, and locked against other QEMUs."""
    path = f"/dev/fdset/{number + 10}"
    node = f"driver=raw,node-name=disk{number},cache.direct=on,discard=unmap,file.driver=host_device"
    more = f"file.filename={path},file.aio=native,file.cache.direct=on,file.discard=unmap"
    return ["-add-fd", f"set={number + 10},fd={descriptor}", "-blockdev", f"{node},{more}"]


def served(number: int, descriptor: int) -> list[str]:
    node = f"driver=raw,node-name=disk{number},file.driver=nbd,file.server.type=fd,file.server.str={descriptor}"
    return ["-blockdev", node]


def device(wanted: tuple[Disk, ...], number: int, disk: Disk, passed: Passed | None = None) -> list[str]:
    """Return one disk on its bus, and before the first of a bus its controller.

    A full host only pauses the guest where QEMU has the disk's file; a disk server ends by itself.
    """
    plain = f"drive=disk{number},serial=matrix-{number}{looks(disk, passed) if passed else ''}"
    if disk.bus == "nvme":
        return ["-device", f"nvme,{plain}"]
    common = f"{plain},werror=enospc"
    place = [other.bus for other in wanted[:number]].count(disk.bus)
    if disk.bus == "virtio":
        return ["-device", f"virtio-blk-pci,{common}"]
    if disk.physics:
        common += f",rotation_rate={disk.physics.rotation}"
    if disk.bus == "scsi":
        controller = ["-device", "virtio-scsi-pci,id=scsi"] if place == 0 else []
        return [*controller, "-device", f"scsi-hd,bus=scsi.0,scsi-id={place},{common}"]
    group, port = divmod(place, AHCI_PORTS)
    controller = ["-device", f"ich9-ahci,id=sata{group}"] if port == 0 else []
    return [*controller, "-device", f"ide-hd,bus=sata{group}.{port},{common}"]


def looks(disk: Disk, passed: Passed) -> str:
    """Return the properties of a physical disk for its bus. The serial number stays `matrix-N`, by which the guest
    finds the disk.
    """
    told = {"logical_block_size": str(passed.logical), "physical_block_size": str(passed.physical)}
    if disk.bus != "nvme" or passed.discard:  # QEMU's NVMe disks always discard
        # SATA discards sectors, whatever granularity the disk has.
        told["discard_granularity"] = str(min(passed.discard, passed.logical) if disk.bus == "sata" else passed.discard)
    if disk.bus == "virtio":
        told["discard"] = "on" if passed.discard else "off"
    if disk.bus in {"scsi", "sata"}:
        told["rotation_rate"] = str(passed.rotation)
        told |= {"wwn": f"0x{passed.wwn}"} if passed.wwn else {}
        name, most = ("product", 16) if disk.bus == "scsi" else ("model", 40)
        told |= {name: passed.model[:most].strip().replace(",", ",,")} if passed.model else {}
    return "".join(f",{name}={value}" for name, value in told.items())


def boot(vm: Vm) -> list[str]:
    words = [vm.appliance.words, f"matrix.disks={len(vm.disks)}", f"matrix.modules={','.join(vm.modules)}"]
    words += [f"matrix.slots={slots}"] if (slots := slots_of(vm)) else []
    return ["-kernel", str(vm.appliance.kernel), "-initrd", str(vm.appliance.initramfs), "-append", " ".join(words)]


def escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def slots(wanted: tuple[Disk, ...]) -> int:
    count = {bus: sum(disk.bus == bus for disk in wanted) for bus in ("virtio", "scsi", "sata", "nvme")}
    return count["virtio"] + count["nvme"] + bool(count["scsi"]) + -(-count["sata"] // AHCI_PORTS)


def with_modules(vm: Vm, extra: tuple[str, ...]) -> Vm:
    return replace(vm, modules=tuple(dict.fromkeys((*vm.modules, *extra))))
