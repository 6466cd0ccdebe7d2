"""The command line of QEMU, as a pure function of what the virtual machine is to be.

Everything QEMU needs of ours comes as an inherited file descriptor (disks, control channels, console, saved state), so
no path of ours outlives the process: whatever dies, and however, nothing is left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from runner.disks import Disk
    from runner.machines.qemu.appliance import Appliance

QEMU = "qemu-system-x86_64"
AHCI_PORTS = 6
#: Under emulation some of what a processor can do costs more than it gives: `rep movsb` goes byte by byte (`erms`), a
#: fifth level of page tables is one more to walk, and SMAP, SMEP, UMIP and protection keys are checks that no other
#: program in this machine needs. Without them programs start in two thirds of the time.
EMULATED_CPU = "max,-erms,-la57,-smap,-smep,-umip,-pku"
#: PCI slots of the `pc` machine, less host bridge, PIIX3, agent, two file systems of ours and one for growth.
FREE_SLOTS = 26


@dataclass(frozen=True, slots=True)
class Vm:
    """All that determines a virtual machine's hardware. Two equal ones can share a template."""

    appliance: Appliance
    disks: tuple[Disk, ...]
    accel: str
    cpus: int
    memory: int
    modules: tuple[str, ...]


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
    words: int
    console: int
    disks: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """Every descriptor, to be passed on."""
        return (self.qmp, self.agent, self.bell, self.words, self.console, *self.disks)


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
        *disks(vm.disks, channels.disks),
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
    """QMP for the machine; for the guest its agent, the bell and its words; the console for the post-mortem."""
    return [
        *("-add-fd", f"set=1,fd={channels.console}"),
        *("-chardev", "file,id=console,path=/dev/fdset/1,append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={channels.qmp}", "-mon", "chardev=qmp,mode=control"),
        *("-device", "virtio-serial-pci,id=ports"),
        *("-chardev", f"socket,id=agent,fd={channels.agent}"),
        *("-device", "virtserialport,bus=ports.0,chardev=agent,name=org.qemu.guest_agent.0"),
        *("-chardev", f"socket,id=bell,fd={channels.bell}"),
        *("-device", "virtserialport,bus=ports.0,chardev=bell,name=matrix.bell"),
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


def disks(wanted: tuple[Disk, ...], descriptors: tuple[int, ...]) -> list[str]:
    """The disks under test."""
    words: list[str] = []
    for number, (disk, descriptor) in enumerate(zip(wanted, descriptors, strict=True)):
        words += served(number, descriptor) if disk.physics else file(number, descriptor)
        words += device(wanted, number, disk)
    return words


def file(number: int, descriptor: int) -> list[str]:
    """A disk that lives no longer than the machine, so flushing it to the host's disk is pointless."""
    path = f"/dev/fdset/{number + 10}"
    node = f"driver=raw,node-name=disk{number},cache.no-flush=on,file.driver=file,file.filename={path}"
    return ["-add-fd", f"set={number + 10},fd={descriptor}", "-blockdev", f"{node},file.locking=off"]


def served(number: int, descriptor: int) -> list[str]:
    """A disk whose server is at the other end of a connection."""
    node = f"driver=raw,node-name=disk{number},file.driver=nbd,file.server.type=fd,file.server.str={descriptor}"
    return ["-blockdev", node]


def device(wanted: tuple[Disk, ...], number: int, disk: Disk) -> list[str]:
    """One disk on its bus, and before the first of a bus its controller. A full host pauses the guest, no more."""
    plain = f"drive=disk{number},serial=matrix-{number}"
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


def boot(vm: Vm) -> list[str]:
    """Kernel, initramfs and what our init is to do."""
    words = [vm.appliance.words, f"matrix.disks={len(vm.disks)}", f"matrix.modules={','.join(vm.modules)}"]
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
