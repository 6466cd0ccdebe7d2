"""The settings that `vagrant/Vagrantfile` reads, as a pure function of the rig."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.machines.base import RigSpec
    from runner.machines.qemu.argv import Passed
    from runner.simdisks.disk import Disk

#: Vagrant's name of the one machine of a rig.
NODE = "node"
#: The file that the Vagrantfile reads.
PLAN = "machines.json"
_MIB = 2**20
#: Memory of the box itself: systemd, udev and sshd. A rig's memory is what is left for trials.
OWN_MEMORY = 256 * _MIB


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Served(_Part):
    bus: Literal["virtio", "scsi", "sata"]
    serial: str
    socket: str
    discard: Literal["unmap", "ignore"] = "unmap"
    errors: Literal["enospace"] = "enospace"
    cache: Literal["writeback", "unsafe"]
    #: Revolutions a minute for the kernel; 1: not rotating; None: not set.
    rotation: int | None = None


class Node(_Part):
    name: str = NODE
    cpus: int
    memory: int
    disks: tuple[Served, ...]


class Network(_Part):
    name: str
    address: str


class Box(_Part):
    """A box: one built here lies in a catalogue, one of the user's is known to Vagrant by its name."""

    name: str
    catalogue: str | None = None


class Plan(_Part):
    box: str
    catalogue: str | None
    uri: str
    driver: Literal["kvm", "qemu"]
    prefix: str
    description: str
    pool: str
    network: Network
    #: Security models that are switched off for the machine, as their rules do not know the sockets.
    unconfined: tuple[str, ...]
    machines: tuple[Node, ...]


def node(spec: RigSpec, disks: Sequence[Served]) -> Node:
    return Node(cpus=spec.cpus, memory=(spec.memory + OWN_MEMORY) // _MIB, disks=tuple(disks))


def served(disk: Disk, number: int, socket: Path) -> Served:
    """Return a disk that ends with the machine. Without a model, flushes are dropped."""
    return Served(
        bus=bus_of(disk),
        serial=serial(number),
        socket=str(socket),
        cache="writeback" if disk.physics else "unsafe",
        rotation=(disk.physics.rotation or None) if disk.physics and disk.bus != "virtio" else None,
    )


def passed(disk: Disk, number: int, socket: Path, looks: Passed) -> Served:
    return Served(
        bus=bus_of(disk),
        serial=serial(number),
        socket=str(socket),
        discard="unmap" if looks.discard else "ignore",
        cache="writeback",
        rotation=None if disk.bus == "virtio" else looks.rotation,
    )


def bus_of(disk: Disk) -> Literal["virtio", "scsi", "sata"]:
    if disk.bus == "nvme":
        raise ValueError("vagrant-libvirt has no NVMe bus")
    return disk.bus


def serial(number: int) -> str:
    """Return the serial number that identifies a disk in the machine, whatever its letter."""
    return f"matrix-{number}"


#: Finds the name in /dev/disk/by-id for each serial number, once udev has made it; links it to the name that it has in
#: machines of QEMU, as devices on a disk are identified by its name; and prints it.
FIND = """\
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
udevadm settle || :
for serial do
  found=
  for link in /dev/disk/by-id/*"$serial"; do
    case ${link##*/} in *_"$serial" | virtio-"$serial") found=$link; break ;; esac
  done
  if [[ $found ]]; then ln -sfn "${found##*/}" "/dev/disk/by-id/$serial" && found=/dev/disk/by-id/$serial; fi
  echo "$serial $found"
done
"""


def found(said: str, count: int) -> tuple[str, ...]:
    """Return the names of the disks in that script's output; empty where one is missing."""
    told = dict(line.split(" ", 1) for line in said.splitlines() if line.startswith("matrix-"))
    return tuple(told.get(serial(number), "").strip() for number in range(count))
