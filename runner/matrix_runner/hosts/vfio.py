"""NVMe controllers that virtual machines get by VFIO, when the host has no such disk and cannot count its writes."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from matrix_runner.base import process
from matrix_runner.base.errors import HarnessBroken, MatrixError
from matrix_runner.hosts.checks import DiskCheck
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.inventory import Census, Node
from matrix_runner.hosts.operations import find_character_device_users
from matrix_runner.hosts.reasons import Reason, Refusal

SYS, DEVICES, NAMES = Path("/sys"), Path("/dev/vfio"), Path("/dev/disk/by-id")
NVME, VFIO = "nvme", "vfio-pci"
#: Seconds until a disk reappears after its driver got the controller, until udev has named it, and until a killed
#: machine releases it.
DISK_TIMEOUT, UDEV_TIMEOUT, RELEASE_TIMEOUT, POLL = 30.0, 5.0, 10.0, 0.2


@dataclass(frozen=True, slots=True)
class Controller:
    address: str = ""  # on the PCI bus, such as `0000:01:00.0`; empty if it is not on one
    group: str = ""  # the IOMMU group, which can only be passed through as a whole; empty if there is no IOMMU
    group_members: tuple[str, ...] = ()
    other_disks: tuple[str, ...] = ()
    path_count: int = 0
    driver_override: str = ""
    virtual_functions: int = 0


def controller_of(node: Node, sys: Path = SYS) -> Controller:
    """Return the controller of a disk; only `path_count` if it is not exactly one NVMe controller on a PCI bus."""
    disk = (sys / "class/block" / node.name).resolve()
    kind = disk.parent.parent.name
    # With native multipath, the disk belongs to a subsystem, which has the controllers.
    found = [disk.parent] if kind == NVME else []
    if kind == "nvme-subsystem":
        found = [one.resolve() for one in sorted(disk.parent.glob("nvme*")) if (one / "transport").exists()]
    if len(found) != 1 or _read_text(found[0] / "transport") != "pcie":
        return Controller(path_count=len(found))
    address = _read_text(found[0] / "address")
    device = sys / "bus/pci/devices" / address
    group = (device / "iommu_group").resolve() if (device / "iommu_group").exists() else None
    members = sorted(one.name for one in (group / "devices").iterdir()) if group else []
    # Bridges may be in the same group.
    bridges = [one for one in members if _read_text(sys / "bus/pci/devices" / one / "class").startswith("0x0604")]
    siblings = sorted(one.name for one in disk.parent.iterdir() if re.fullmatch(r"nvme\d+n\d+", one.name))
    return Controller(
        address,
        group.name if group else "",
        tuple(one for one in members if one not in {address, *bridges}),
        tuple(one for one in siblings if one != disk.name),
        1,
        _driver_override(device),
        int(_read_text(device / "sriov_numvfs") or 0),
    )


def driver_of(address: str, sys: Path = SYS) -> str:
    link = sys / "bus/pci/devices" / address / "driver"
    return link.resolve().name if link.exists() else ""


def controller_obstacles(found: Controller, *, root: bool, wear: int | None, vfio: bool) -> Iterator[str]:
    if not found.address:
        several = f"{found.path_count} controllers lead to it" if found.path_count > 1 else "it has none on the PCI bus"
        yield f"only an NVMe controller can be passed through, and {several}"
        return
    if not root:
        yield f"only root can detach {found.address} from its driver"
    if not vfio:
        yield f"this kernel has no {VFIO}"
    if not found.group:
        yield f"{found.address} has no IOMMU, so a virtual machine could reach all of the host's memory"
    if found.group_members:
        others = ", ".join(found.group_members)
        yield f"{found.address} can only be passed through together with {others} (IOMMU group {found.group})"
    if found.other_disks:
        yield f"{found.address} has other disks, which would go with it: {', '.join(found.other_disks)}"
    if found.driver_override:
        yield f"driver_override of {found.address} is set to {found.driver_override}"
    if found.virtual_functions:
        yield f"{found.address} has {found.virtual_functions} SR-IOV functions, which would go with it"
    if wear is not None:
        yield "hosts.yaml declares `wear:`, and the host cannot count writes through a passed-through controller"


def check_controller(one: DiskCheck) -> DiskCheck:
    if one.node is None or not one.declared.whole:
        return one
    obstacles = controller_obstacles(
        controller_of(one.node), root=os.geteuid() == 0, wear=one.declared.wear, vfio=has_vfio()
    )
    return replace(one, refusals=(*one.refusals, *(Refusal(Reason.CONTROLLER, why) for why in obstacles)))


def has_vfio(sys: Path = SYS) -> bool:
    if (sys / "bus/pci/drivers" / VFIO).exists():
        return True
    with suppress(OSError, MatrixError):
        return process.run(["modprobe", "--dry-run", "--quiet", VFIO], timeout=RELEASE_TIMEOUT).returncode == 0
    return False


def _load_vfio(sys: Path) -> None:
    """Load the driver before any other driver releases a device."""
    if not (sys / "bus/pci/drivers" / VFIO).exists():
        done = process.run(["modprobe", VFIO], timeout=60)
        if done.returncode:
            raise HarnessBroken(
                f"the kernel module {VFIO} could not be loaded",
                details=done.stderr.strip(),
                resolution="install the modules of the running kernel, or remove `vfio:` of the disk in hosts.yaml",
            )


def bind_to_vfio(address: str, sys: Path = SYS) -> None:
    """Move a controller from its driver to VFIO. `return_to_driver` undoes it, even if only a part was done."""
    device = sys / "bus/pci/devices" / address
    try:
        (device / "driver_override").write_text(VFIO)
        # Unbind only from this driver: any other one is not ours to unbind.
        (sys / "bus/pci/drivers" / NVME / "unbind").write_text(address)
        (sys / "bus/pci/drivers_probe").write_text(address)
        said = f"{driver_of(address, sys) or 'no driver'} has it"
    except OSError as error:
        said = f"{error.filename}: {error.strerror}"
    if driver_of(address, sys) != VFIO:
        raise HarnessBroken(f"{address} could not be given to {VFIO}", details=said, resolution="`dmesg` shows more")


def return_to_driver(address: str, sys: Path = SYS, devices: Path = DEVICES) -> bool:
    """Return a controller to its driver if we took it. Wait for an exiting machine: its access cannot be revoked."""
    device = sys / "bus/pci/devices" / address
    if not device.exists() or (_driver_override(device) != VFIO and driver_of(address, sys)):
        return False
    try:
        if driver_of(address, sys) == VFIO:
            _wait_until_unused(device, devices)
            (sys / "bus/pci/drivers" / VFIO / "unbind").write_text(address)
        (device / "driver_override").write_text("\n")
        if not driver_of(address, sys):
            (sys / "bus/pci/drivers_probe").write_text(address)
    except OSError as error:
        raise HarnessBroken(
            f"{address} could not be given back to its driver: {error.strerror}",
            details=str(error.filename),
            resolution="`dmesg` shows more; the next boot gives it back",
        ) from None
    return True


def _wait_until_unused(device: Path, devices: Path) -> None:
    """Wait before unbinding, which would block until the last user closes the device and cannot be interrupted."""
    mine = [*(devices / "devices" / one.name for one in (device / "vfio-dev").glob("*"))]
    mine = [one for one in (devices / (device / "iommu_group").resolve().name, *mine) if one.exists()]
    if not mine:
        raise HarnessBroken(f"cannot find out what uses {device.name}: it is missing in {devices}")
    deadline = time.monotonic() + RELEASE_TIMEOUT
    while holder := ", ".join(filter(None, map(find_character_device_users, mine))):
        if time.monotonic() > deadline:
            raise HarnessBroken(
                f"{device.name} is used by {holder}", resolution="stop that; then `matrix clean` releases the disk"
            )
        time.sleep(POLL)


@contextmanager
def detach_controllers(
    disks: Sequence[LeasedDisk],
    ask: Callable[[], Census],
    is_back: Callable[[LeasedDisk], None],
    warn: Callable[[str], None],
) -> Iterator[None]:
    """Give controllers to VFIO. `is_back` gets each disk that returns; `warn` the others, which stay with the run."""
    gone: list[LeasedDisk] = []

    def return_disk(one: LeasedDisk) -> None:
        one.node = wait_for_disk(one.node.identity, one.declared.id, one.controller, ask)
        one.parts = ()
        is_back(one)

    try:
        passed = [one for one in disks if one.controller]
        if passed:
            _load_vfio(SYS)
        for one in passed:
            gone.append(one)
            try:
                bind_to_vfio(one.controller)
            finally:
                one.release()  # not earlier: until its driver is unbound, other processes could open it
        yield
    finally:
        back = _warn_of_failures(gone, lambda one: return_to_driver(one.controller), warn)
        _warn_of_failures(back, return_disk, warn)


def _warn_of_failures(
    disks: Sequence[LeasedDisk], action: Callable[[LeasedDisk], object], warn: Callable[[str], None]
) -> list[LeasedDisk]:
    """Return the disks for which the action succeeded; a failure of one must not affect the others."""
    succeeded = []
    for one in disks:
        try:
            action(one)
            succeeded.append(one)
        except (MatrixError, OSError) as error:
            warn(f"{one.declared.id}: {error.brief if isinstance(error, MatrixError) else error}")
    return succeeded


def wait_for_disk(
    identity: str, name: str, address: str, ask: Callable[[], Census], sys: Path = SYS, names: Path = NAMES
) -> Node:
    """Return the node of a disk that reappears. Take the census once: other disks may be under measurement."""
    device = sys / "bus/pci/devices" / address
    _wait(lambda: any((device / "nvme").glob("nvme*/nvme*n*")), DISK_TIMEOUT)
    _wait((names / name).exists, UDEV_TIMEOUT)
    census = ask()
    found = [node for node in census.disks if node.identity == identity and name in census.names_of(node)]
    if not found:
        raise HarnessBroken(
            f"{name} did not reappear after its driver got {address} back",
            resolution="`dmesg` shows more; after a reboot `matrix clean` releases the disk",
        )
    return found[0]


def _wait(there: Callable[[], bool], most: float) -> None:
    deadline = time.monotonic() + most
    while not there() and time.monotonic() < deadline:
        time.sleep(POLL)


def _driver_override(device: Path) -> str:
    return _read_text(device / "driver_override").replace("(null)", "")  # so sysfs shows that it is not set


def _read_text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="ascii").strip()
    return ""
