"""What is to come up, as `vagrant/Vagrantfile` reads it: a pure function of the rig that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.machines.base import RigSpec
    from runner.machines.qemu.argv import Passed
    from runner.simdisks.disk import Disk

#: What Vagrant calls the one machine of a rig.
NODE = "node"
#: The file that the Vagrantfile reads.
PLAN = "machines.json"
_MIB = 2**20
#: What the box itself takes: systemd, udev and sshd. A rig's memory is what is left for trials.
OWN_MEMORY = 256 * _MIB


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Served(_Part):
    """A disk that one of our servers answers for, at a socket."""

    bus: Literal["virtio", "scsi", "sata"]
    serial: str
    socket: str
    discard: Literal["unmap", "ignore"] = "unmap"
    errors: Literal["enospace"] = "enospace"
    cache: Literal["writeback", "unsafe"]
    #: Revolutions a minute, as the kernel is to believe them; 1: it does not turn. None: nothing is said.
    rotation: int | None = None


class Node(_Part):
    """One machine. Memory is in MiB."""

    name: str = NODE
    cpus: int
    memory: int
    disks: tuple[Served, ...]


class Network(_Part):
    """Over which Vagrant reaches its machines."""

    name: str
    address: str


class Box(_Part):
    """Which box: one of ours lies in a catalogue, one of the user's is known to Vagrant by its name."""

    name: str
    catalogue: str | None = None


class Plan(_Part):
    """The whole of it."""

    box: str
    catalogue: str | None
    uri: str
    driver: Literal["kvm", "qemu"]
    prefix: str
    description: str
    pool: str
    network: Network
    #: Security models that the machine is to be free of, as their rules do not know of the sockets.
    unconfined: tuple[str, ...]
    machines: tuple[Node, ...]


def node(spec: RigSpec, disks: Sequence[Served]) -> Node:
    """The machine of a rig."""
    return Node(cpus=spec.cpus, memory=(spec.memory + OWN_MEMORY) // _MIB, disks=tuple(disks))


def served(disk: Disk, number: int, socket: Path) -> Served:
    """A disk of ours. What is flushed to one without a model goes nowhere: it lives no longer than the machine."""
    return Served(
        bus=bus_of(disk),
        serial=serial(number),
        socket=str(socket),
        cache="writeback" if disk.physics else "unsafe",
        rotation=(disk.physics.rotation or None) if disk.physics and disk.bus != "virtio" else None,
    )


def passed(disk: Disk, number: int, socket: Path, looks: Passed) -> Served:
    """A disk of the host, which outlives the machine."""
    return Served(
        bus=bus_of(disk),
        serial=serial(number),
        socket=str(socket),
        discard="unmap" if looks.discard else "ignore",
        cache="writeback",
        rotation=None if disk.bus == "virtio" else looks.rotation,
    )


def bus_of(disk: Disk) -> Literal["virtio", "scsi", "sata"]:
    """The bus of a disk that may be had here."""
    if disk.bus == "nvme":
        raise ValueError("vagrant-libvirt has no NVMe bus")
    return disk.bus


def serial(number: int) -> str:
    """By which a disk is found in the machine, whatever its letter is this time."""
    return f"matrix-{number}"


#: Finds for each serial number given which name of /dev/disk/by-id is its, once udev has made them; gives it the name
#: that it has in machines of QEMU's, as what is built on a disk is known by what that is called; and says so.
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
    """The names of so many disks in what that script says; an empty one where there is none."""
    told = dict(line.split(" ", 1) for line in said.splitlines() if line.startswith("matrix-"))
    return tuple(told.get(serial(number), "").strip() for number in range(count))
