"""NVMe controllers that machines get as a whole, by VFIO: what speaks against it, and how they go and come back.

Who has the controller has the disk without anything between. The host's own driver lets go of it for that, so while a
machine has it the host has no such disk, and nothing of the host can write on it, count or compare.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken, MatrixError
from runner.hosts.local_operations import users_of
from runner.hosts.reasons import Refused, Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.hosts.checks import Judged
    from runner.hosts.exclusive import Held
    from runner.hosts.inventory import Census, Node

SYS, DEVICES, NAMES = Path("/sys"), Path("/dev/vfio"), Path("/dev/disk/by-id")
NVME, VFIO = "nvme", "vfio-pci"
#: What only passes on: a bridge in the same group is nobody's device.
_BRIDGE = "0x0604"
_NAMESPACE = re.compile(r"nvme\d+n\d+")
#: How sysfs says that nobody chose a driver.
_NO_CHOICE = {"", "(null)"}
#: Seconds until a disk is there again once its driver has the controller, until udev has named it, and until a machine
#: that was killed lets go of it.
COMES_BACK, IS_NAMED, LETS_GO, LOOK = 30.0, 5.0, 10.0, 0.2


@dataclass(frozen=True, slots=True)
class Controller:
    """Of a disk, as its host's kernel tells of it."""

    #: On the PCI bus: `0000:01:00.0`. Empty if it is on none.
    address: str = ""
    #: Of the IOMMU: what can only be given away together. Empty if there is no IOMMU.
    group: str = ""
    #: Other devices of that group.
    beside: tuple[str, ...] = ()
    #: Other disks that it has.
    others: tuple[str, ...] = ()
    #: How many controllers lead to the disk.
    paths: int = 0
    #: The driver that somebody chose for it, whoever would be the one for such devices.
    chosen: str = ""
    #: How many controllers it plays besides itself.
    played: int = 0


def controller_of(node: Node, sys: Path = SYS) -> Controller:
    """What a disk hangs on; of one that is no NVMe disk on a PCI bus, next to nothing."""
    disk = (sys / "class/block" / node.name).resolve()
    kind = disk.parent.parent.name
    # With several ways to a disk, the kernel has it in a subsystem to which the controllers belong.
    found = [disk.parent] if kind == NVME else []
    if kind == "nvme-subsystem":
        found = [one.resolve() for one in sorted(disk.parent.glob("nvme*")) if (one / "transport").exists()]
    if len(found) != 1 or _text(found[0] / "transport") != "pcie":
        return Controller(paths=len(found))
    address = _text(found[0] / "address")
    device = sys / "bus/pci/devices" / address
    group = (device / "iommu_group").resolve() if (device / "iommu_group").exists() else None
    members = sorted(one.name for one in (group / "devices").iterdir()) if group else []
    return Controller(
        address,
        group.name if group else "",
        tuple(one for one in members if one != address and not _is_bridge(sys, one)),
        tuple(sorted(one.name for one in disk.parent.iterdir() if _NAMESPACE.fullmatch(one.name) and one != disk)),
        1,
        _choice(device),
        int(_text(device / "sriov_numvfs") or 0),
    )


def driver_of(address: str, sys: Path = SYS) -> str:
    """Which driver has a device; empty if none has."""
    link = sys / "bus/pci/devices" / address / "driver"
    return link.resolve().name if link.exists() else ""


def against(found: Controller, *, root: bool, wear: int | None, vfio: bool) -> Iterator[str]:
    """Why a machine cannot have it as a whole, each reason in words."""
    if not found.address:
        several = f"{found.paths} controllers lead to it" if found.paths > 1 else "it hangs on none of the PCI bus"
        yield f"a machine can have the NVMe controller of a disk, and {several}"
        return
    if not root:
        yield f"only root may take {found.address} from its driver"
    if not vfio:
        yield f"this kernel has no {VFIO}"
    if not found.group:
        yield f"{found.address} is behind no IOMMU: what a machine has could reach all of this host's memory"
    if found.beside:
        others = ", ".join(found.beside)
        yield f"{found.address} can only be given away together with {others} (IOMMU group {found.group})"
    if found.others:
        yield f"{found.address} has other disks, which would be gone with it: {', '.join(found.others)}"
    if found.chosen:
        yield f"somebody chose the driver {found.chosen} for {found.address} (driver_override)"
    if found.played:
        yield f"{found.address} plays {found.played} more controllers (SR-IOV), which would be gone with it"
    if wear is not None:
        yield "what is written to it by its controller this host cannot count, and hosts.yaml declares `wear:`"


def judged_whole(one: Judged) -> Judged:
    """With what speaks against giving its controller away, if that is what is to be done."""
    if one.node is None or not one.claim.whole:
        return one
    said = against(controller_of(one.node), root=os.geteuid() == 0, wear=one.claim.wear, vfio=has_vfio())
    return replace(one, refusals=(*one.refusals, *(Refused(Why.CONTROLLER, why) for why in said)))


def has_vfio(sys: Path = SYS) -> bool:
    """Whether the kernel has the driver, loaded or not."""
    if (sys / "bus/pci/drivers" / VFIO).exists():
        return True
    try:
        return process.run(["modprobe", "--dry-run", "--quiet", VFIO], timeout=LETS_GO).returncode == 0
    except (OSError, MatrixError):
        return False


def _load(sys: Path) -> None:
    """The driver, before any other lets go of anything."""
    if not (sys / "bus/pci/drivers" / VFIO).exists():
        done = process.run(["modprobe", VFIO], timeout=60)
        if done.returncode:
            raise HarnessBroken(f"the kernel module {VFIO} could not be loaded", details=done.stderr.strip())


def take(address: str, sys: Path = SYS) -> None:
    """From its driver to VFIO; `bring_back` takes back whatever this came to."""
    device = sys / "bus/pci/devices" / address
    try:
        (device / "driver_override").write_text(VFIO)
        # Of this driver: whoever has it by now is nobody to take it from.
        (sys / "bus/pci/drivers" / NVME / "unbind").write_text(address)
        (sys / "bus/pci/drivers_probe").write_text(address)
        said = f"{driver_of(address, sys) or 'no driver'} has it"
    except OSError as error:
        said = f"{error.filename}: {error.strerror}"
    if driver_of(address, sys) != VFIO:
        raise HarnessBroken(f"{address} could not be given to {VFIO}", details=said, resolution="`dmesg` says more")


def bring_back(address: str, sys: Path = SYS, devices: Path = DEVICES) -> bool:
    """To the driver that it is for, if we took it from there and however far that came; whether it was away.

    Waits for a machine that is dying: nobody can be cut off from what they have.
    """
    device = sys / "bus/pci/devices" / address
    if not device.exists() or (_choice(device) != VFIO and driver_of(address, sys)):
        return False
    try:
        if driver_of(address, sys) == VFIO:
            _unless_in_use(device, devices)
            (sys / "bus/pci/drivers" / VFIO / "unbind").write_text(address)
        (device / "driver_override").write_text("\n")
        if not driver_of(address, sys):
            (sys / "bus/pci/drivers_probe").write_text(address)
    except OSError as error:
        raise HarnessBroken(
            f"{address} could not be given back to its driver: {error.strerror}",
            details=str(error.filename),
            resolution="`dmesg` says more; the next boot gives it back",
        ) from None
    return True


def _unless_in_use(device: Path, devices: Path) -> None:
    """The kernel would wait for as long as somebody has it, and nobody could end that."""
    mine = [*(devices / "devices" / one.name for one in (device / "vfio-dev").glob("*"))]
    mine = [one for one in (devices / (device / "iommu_group").resolve().name, *mine) if one.exists()]
    if not mine:
        raise HarnessBroken(f"nobody can tell who has {device.name}: there is nothing of it in {devices}")
    deadline = time.monotonic() + LETS_GO
    while holder := ", ".join(filter(None, map(users_of, mine))):
        if time.monotonic() > deadline:
            raise HarnessBroken(
                f"{device.name} is used by {holder}", resolution="end that; then `matrix clean` gives the disk back"
            )
        time.sleep(LOOK)


@contextmanager
def away(
    disks: Sequence[Held], ask: Callable[[], Census], is_back: Callable[[Held], None], stays: Callable[[str], None]
) -> Iterator[None]:
    """Their controllers are VFIO's, for as long as the block lasts, those that were lent with one.

    `is_back` is told of each that is; `stays` of one that does not come back: its disk is not there, and stays with
    the run.
    """
    gone: list[Held] = []
    try:
        if any(one.controller for one in disks):
            _load(SYS)
        for one in disks:
            if one.controller:
                gone.append(one)
                try:
                    take(one.controller)
                finally:
                    one.let_go()  # not before: until its driver has let go of it, anybody could have it
        yield
    finally:
        _all_back(gone, ask, is_back, stays)


def _all_back(
    gone: Sequence[Held], ask: Callable[[], Census], is_back: Callable[[Held], None], stays: Callable[[str], None]
) -> None:
    """Whatever happens to one of them keeps none of the others."""
    came: list[Held] = []
    for one in gone:
        try:
            bring_back(one.controller)
            came.append(one)
        except HarnessBroken as error:
            stays(f"{one.claim.id}: {error.brief}")
    for one in came:
        try:
            one.node = seen_again(one.node.identity, one.claim.id, one.controller, ask)
            one.parts = ()
            is_back(one)
        except (MatrixError, OSError) as error:
            stays(f"{one.claim.id}: {error.brief if isinstance(error, MatrixError) else error}")


def seen_again(
    identity: str, name: str, address: str, ask: Callable[[], Census], sys: Path = SYS, names: Path = NAMES
) -> Node:
    """A disk that comes back, as it is called now: numbers and letters are given anew.

    All disks are asked only once, when there is something to be seen: somebody may measure others.
    """
    device = sys / "bus/pci/devices" / address
    _wait(lambda: any((device / "nvme").glob("nvme*/nvme*n*")), COMES_BACK)
    _wait((names / name).exists, IS_NAMED)
    census = ask()
    found = [node for node in census.disks if node.identity == identity and name in census.names_of(node)]
    if not found:
        raise HarnessBroken(f"{name} did not come back when its driver had {address} again")
    return found[0]


def _wait(there: Callable[[], bool], most: float) -> None:
    deadline = time.monotonic() + most
    while not there() and time.monotonic() < deadline:
        time.sleep(LOOK)


def _is_bridge(sys: Path, address: str) -> bool:
    return _text(sys / "bus/pci/devices" / address / "class").startswith(_BRIDGE)


def _choice(device: Path) -> str:
    chosen = _text(device / "driver_override")
    return "" if chosen in _NO_CHOICE else chosen


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
