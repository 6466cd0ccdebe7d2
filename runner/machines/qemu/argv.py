"""The command line of QEMU, as a pure function of what the virtual machine is to be.

Everything QEMU needs of ours comes as an inherited file descriptor (disks, control channels, console, saved state), so
no path of ours outlives the process: whatever dies, and however, nothing is left behind.
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
#: Under emulation some of what a processor can do costs more than it gives: `rep movsb` goes byte by byte (`erms`), a
#: fifth level of page tables is one more to walk, and SMAP, SMEP, UMIP and protection keys are checks that no other
#: program in this machine needs. Without them programs start in two thirds of the time.
EMULATED_CPU = "max,-erms,-la57,-smap,-smep,-umip,-pku"
#: PCI slots of the `pc` machine, less host bridge, PIIX3, agent, two file systems of ours and one for growth.
FREE_SLOTS = 26
#: From here down are disks with controllers of their own; all others come from below.
LAST_SLOT = 31


@dataclass(frozen=True, slots=True)
class Passed:
    """What a guest is to see of a disk of the host that it is given, as far as a bus can tell."""

    #: Bytes of a sector: what it can be asked for, and what it really works in.
    logical: int = 512
    physical: int = 512
    #: Bytes that can be discarded at least; 0: it cannot discard.
    discard: int = 0
    #: Turns a minute; 1: nothing turns.
    rotation: int = 1
    #: Sixteen hex digits; empty if it has none of that length.
    wwn: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A controller of the host that a guest gets with its disk, by VFIO."""

    #: On the host's PCI bus.
    address: str
    #: By which the guest knows the disk again, whatever has that address by then.
    serial: str = ""


@dataclass(frozen=True, slots=True)
class Vm:
    """All that determines a virtual machine's hardware. Two equal ones can share a template."""

    appliance: Appliance
    disks: tuple[Disk, ...]
    accel: str
    cpus: int
    memory: int
    modules: tuple[str, ...]
    #: Where its disks are those of the host: each of them. A template of such a machine has files of the same looks.
    passed: tuple[Passed | Whole, ...] = ()


@dataclass(frozen=True, slots=True)
class Boot:
    """A machine that boots."""

    @property
    def ram(self) -> str:
        """Memory that nobody else sees."""
        return "memory-backend-ram,id=ram"


@dataclass(frozen=True, slots=True)
class Template:
    """A machine that boots and is to be kept."""

    memory: Path

    @property
    def ram(self) -> str:
        """What the guest writes lands in the file."""
        return f"memory-backend-file,id=ram,mem-path={escaped(self.memory)},share=on"


@dataclass(frozen=True, slots=True)
class Clone:
    """A machine that continues from a saved state, and so needs no kernel to boot."""

    memory: Path

    @property
    def ram(self) -> str:
        """What the guest writes stays its own."""
        return f"memory-backend-file,id=ram,mem-path={escaped(self.memory)},share=off"


Start = Boot | Template | Clone
BOOT = Boot()


@dataclass(frozen=True, slots=True)
class Channels:
    """The file descriptors that QEMU inherits."""

    qmp: int
    agent: int
    bell: int
    orders: int
    words: int
    console: int
    disks: tuple[int, ...]
    #: What QEMU never looks at, and holds as long as it lives: locks of disks, and their exclusive openings.
    kept: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        """Every descriptor, to be passed on."""
        return (self.qmp, self.agent, self.bell, self.orders, self.words, self.console, *self.disks, *self.kept)


def command(vm: Vm, channels: Channels, start: Start) -> list[str]:
    """The whole command line. Disks that are played wait for nobody, so they go before the processor that is."""
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
    """Board, processors and memory. Each processor is a socket of its own, or else MP tables list only the first."""
    size = f"{vm.memory // 2**20}M"
    return [
        *("-machine", f"pc,accel={vm.accel},memory-backend=ram,usb=off,vmport=off,hpet=off"),
        *("-cpu", "host" if vm.accel == "kvm" else EMULATED_CPU),
        *("-smp", f"{vm.cpus},sockets={vm.cpus}"),
        *("-m", size, "-object", f"{start.ram},size={size}"),
    ]


def control(channels: Channels) -> list[str]:
    """QMP for the machine; for the guest its agent, bell, orders and words; the console for later."""
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
    """The appliance's programs and modules, read-only."""
    words: list[str] = []
    for name, image in (("root", appliance.root), ("modules", appliance.modules)):
        node = f"driver=raw,node-name={name},read-only=on,file.driver=file,file.filename={escaped(image)}"
        words += ["-blockdev", node, "-device", f"virtio-blk-pci,drive={name},serial=matrix-{name}"]
    return words


def disks(vm: Vm, channels: Channels) -> list[str]:
    """The disks under test. Only what is locked as long as QEMU lives is the host's."""
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
    """Where a disk with its controller is put: from above, as all other devices come from below."""
    return LAST_SLOT - sum(isinstance(one, Whole) for one in vm.passed[:number])


def slots_of(vm: Vm) -> str:
    """For the guest: where such disks are, which of its disks each is, and its serial number."""
    found = [(number, one) for number, one in enumerate(vm.passed) if isinstance(one, Whole)]
    return ",".join(f"0000:00:{slot_of(vm, number):02x}.0={number}={plain(one.serial)}" for number, one in found)


def plain(serial: str) -> str:
    """As much of a serial number as goes through any command line."""
    return re.sub(r"[^A-Za-z0-9._-]", "", serial)


def file(number: int, descriptor: int) -> list[str]:
    """A disk that lives no longer than the machine, so flushing it to the host's disk is pointless."""
    path = f"/dev/fdset/{number + 10}"
    node = f"driver=raw,node-name=disk{number},cache.no-flush=on,file.driver=file,file.filename={path}"
    return ["-add-fd", f"set={number + 10},fd={descriptor}", "-blockdev", f"{node},file.locking=off"]


def of_host(number: int, descriptor: int) -> list[str]:
    """A disk of the host: past its cache, flushed when the guest flushes, and locked against other QEMUs as well."""
    path = f"/dev/fdset/{number + 10}"
    node = f"driver=raw,node-name=disk{number},cache.direct=on,discard=unmap,file.driver=host_device"
    more = f"file.filename={path},file.aio=native,file.cache.direct=on,file.discard=unmap"
    return ["-add-fd", f"set={number + 10},fd={descriptor}", "-blockdev", f"{node},{more}"]


def served(number: int, descriptor: int) -> list[str]:
    """A disk whose server is at the other end of a connection."""
    node = f"driver=raw,node-name=disk{number},file.driver=nbd,file.server.type=fd,file.server.str={descriptor}"
    return ["-blockdev", node]


def device(wanted: tuple[Disk, ...], number: int, disk: Disk, passed: Passed | None = None) -> list[str]:
    """One disk on its bus, and before the first of a bus its controller.

    A full host pauses the guest, no more, where QEMU has the disk's file; a server of ours ends by itself.
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
    """What a disk of the host is, in the words of its bus. Its serial number is the one place we know it by inside."""
    told = {"logical_block_size": str(passed.logical), "physical_block_size": str(passed.physical)}
    if disk.bus != "nvme" or passed.discard:  # QEMU's NVMe disks always discard
        # SATA's command discards sectors, whatever the disk would like.
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
    """Kernel, initramfs and what our init is to do."""
    words = [vm.appliance.words, f"matrix.disks={len(vm.disks)}", f"matrix.modules={','.join(vm.modules)}"]
    words += [f"matrix.slots={slots}"] if (slots := slots_of(vm)) else []
    return ["-kernel", str(vm.appliance.kernel), "-initrd", str(vm.appliance.initramfs), "-append", " ".join(words)]


def escaped(path: Path) -> str:
    """A path inside a comma-separated option."""
    return str(path).replace(",", ",,")


def slots(wanted: tuple[Disk, ...]) -> int:
    """How many PCI slots the disks take."""
    count = {bus: sum(disk.bus == bus for disk in wanted) for bus in ("virtio", "scsi", "sata", "nvme")}
    return count["virtio"] + count["nvme"] + bool(count["scsi"]) + -(-count["sata"] // AHCI_PORTS)


def with_modules(vm: Vm, extra: tuple[str, ...]) -> Vm:
    """The same machine with more modules loaded."""
    return replace(vm, modules=tuple(dict.fromkeys((*vm.modules, *extra))))
