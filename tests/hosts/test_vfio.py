"""Controllers of NVMe disks that go to virtual machines and come back, on a kernel that is played by files.

With a real one, in a machine that has an IOMMU, is tests/vm/test_controllers.py.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts import vfio as controllers
from matrix_runner.hosts.checks import DiskCheck, check_disk
from matrix_runner.hosts.disk_ledger import read_write_counters
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.inventory import Census, Node, StableName
from matrix_runner.hosts.operations import LOCAL, Descriptor, find_character_device_users
from matrix_runner.hosts.reasons import OwnMarks, Reason
from matrix_runner.hosts.vfio import (
    Controller,
    bind_to_vfio,
    check_controller,
    controller_obstacles,
    controller_of,
    driver_of,
    return_to_driver,
)
from matrix_runner.language.hosts import DeclaredDisk

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

DISK = Node("nvme0n1", "259:0", 2**28, serial="S1", model="M")
AT = "0000:00:04.0"


@dataclass
class Kernel:
    """As much of sysfs as matters, with what writing into it does."""

    root: Path

    @property
    def devices(self) -> Path:
        """As /dev/vfio; a device of characters that hardly anybody ever opens stands for that of the group."""
        return self.root / "dev"

    def device(self, address: str, kind: str = "0x010802") -> Path:
        at = self.root / "bus/pci/devices" / address
        at.mkdir(parents=True)
        (at / "class").write_text(f"{kind}\n")
        (at / "driver_override").write_text("(null)\n")
        return at

    def group(self, number: str, *addresses: str) -> None:
        at = self.root / "kernel/iommu_groups" / number / "devices"
        at.mkdir(parents=True)
        for address in addresses:
            (at / address).symlink_to(self.root / "bus/pci/devices" / address)
            (self.root / "bus/pci/devices" / address / "iommu_group").symlink_to(at.parent)

    def driver(self, name: str) -> Path:
        at = self.root / "bus/pci/drivers" / name
        at.mkdir(parents=True, exist_ok=True)
        return at

    def bind(self, address: str, name: str) -> None:
        (self.root / "bus/pci/devices" / address / "driver").symlink_to(self.driver(name))

    def nvme(self, number: int, address: str, *names: str, folder: str = "nvme") -> None:
        at = self.root / "devices" / address / folder / f"nvme{number}"
        at.mkdir(parents=True)
        (at / "transport").write_text("pcie\n")
        (at / "address").write_text(f"{address}\n")
        (self.root / "class/block").mkdir(parents=True, exist_ok=True)
        for name in names:
            (at / name).mkdir()
            (self.root / "class/block" / name).symlink_to(at / name)

    def write(self, path: Path, text: str) -> None:
        """What the kernel makes of it."""
        if path.name == "unbind":
            link = self.root / "bus/pci/devices" / text / "driver"
            if not link.exists() or link.resolve().name != path.parent.name:
                raise OSError(errno.ENODEV, "No such device", str(path))
            link.unlink()
        elif path.name == "drivers_probe":
            override = (self.root / "bus/pci/devices" / text / "driver_override").read_text().strip()
            name = "nvme" if override in {"", "(null)"} else override
            if (self.root / "bus/pci/drivers" / name).exists():
                self.bind(text, name)
        else:
            with path.open("w") as file:
                file.write(text)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path / "sys")
    made.device(AT)
    made.group("7", AT)
    made.bind(AT, "nvme")
    made.nvme(0, AT, "nvme0n1")
    made.driver("vfio-pci")
    made.driver("nvme")
    made.devices.mkdir()
    (made.devices / "7").symlink_to("/dev/full")
    monkeypatch.setattr(Path, "write_text", lambda path, text, **_: made.write(path, text))
    return made


def reasons(found: Controller, *, root: bool = True, wear: int | None = None, vfio: bool = True) -> str:
    return "; ".join(controller_obstacles(found, root=root, wear=wear, vfio=vfio))


def test_a_controller_that_has_one_disk_and_a_group_of_its_own_can_go(kernel: Kernel) -> None:
    found = controller_of(DISK, kernel.root)
    assert found == Controller(AT, "7", (), (), 1)
    assert reasons(found) == ""


def test_a_bridge_in_its_group_is_nobodys_device(kernel: Kernel) -> None:
    kernel.device("0000:00:1c.0", "0x060400")
    kernel.device("0000:00:05.0")
    devices = kernel.root / "kernel/iommu_groups/7/devices"
    (devices / "0000:00:1c.0").symlink_to(kernel.root / "bus/pci/devices/0000:00:1c.0")
    assert controller_of(DISK, kernel.root).group_members == ()
    (devices / "0000:00:05.0").symlink_to(kernel.root / "bus/pci/devices/0000:00:05.0")
    assert reasons(controller_of(DISK, kernel.root)) == (
        "0000:00:04.0 can only be passed through together with 0000:00:05.0 (IOMMU group 7)"
    )


def test_other_disks_of_it_would_be_gone_too(kernel: Kernel) -> None:
    at = kernel.root / "devices" / AT / "nvme/nvme0"
    for name in ("nvme0n2", "hwmon1", "ng0n1"):
        (at / name).mkdir()
    assert reasons(controller_of(DISK, kernel.root)).endswith("which would go with it: nvme0n2")


def test_without_an_iommu_it_stays(kernel: Kernel) -> None:
    (kernel.root / "bus/pci/devices" / AT / "iommu_group").unlink()
    assert "has no IOMMU" in reasons(controller_of(DISK, kernel.root))


def test_a_disk_on_no_pci_bus_has_no_such_controller(kernel: Kernel) -> None:
    (kernel.root / "devices/virtual/block/vda").mkdir(parents=True)
    (kernel.root / "class/block/vda").symlink_to(kernel.root / "devices/virtual/block/vda")
    assert "it has none on the PCI bus" in reasons(controller_of(replace(DISK, name="vda"), kernel.root))
    (kernel.root / "devices" / AT / "nvme/nvme0/transport").write_text("tcp\n")
    assert controller_of(DISK, kernel.root).address == ""


@pytest.mark.parametrize("ways", [1, 2])
def test_a_disk_that_could_have_several_controllers_goes_if_it_has_one(kernel: Kernel, ways: int) -> None:
    """Where a disk says that it may be shared, its place in sysfs is below the subsystem, not the controller."""
    subsystem = kernel.root / "devices/virtual/nvme-subsystem/nvme-subsys1"
    (subsystem / "nvme1n1").mkdir(parents=True)
    (kernel.root / "class/block/nvme1n1").symlink_to(subsystem / "nvme1n1")
    for number in range(1, ways + 1):
        address = f"0000:0{number}:00.0"
        kernel.device(address)
        kernel.group(f"2{number}", address)
        kernel.nvme(number, address)
        (subsystem / f"nvme{number}").symlink_to(kernel.root / "devices" / address / "nvme" / f"nvme{number}")
    found = controller_of(replace(DISK, name="nvme1n1"), kernel.root)
    if ways == 1:
        assert (found.address, reasons(found)) == ("0000:01:00.0", "")
    else:
        assert "2 controllers lead to it" in reasons(found)


def test_all_refusals_of_a_controller_are_listed() -> None:
    said = reasons(Controller(AT, "", (), ("nvme0n2",), 1, "mine", 2), root=False, wear=10**9, vfio=False)
    for word in (
        "only root",
        "no vfio-pci",
        "no IOMMU",
        "nvme0n2",
        "is set to mine",
        "has 2 SR-IOV functions",
        "`wear:`",
    ):
        assert word in said


def test_controllers_are_checked_for_their_own_disks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "controller_of", lambda _: Controller())
    plain = DiskCheck(DeclaredDisk("x", 1), DISK, ())
    assert check_controller(plain) is plain
    (refused,) = {
        one.reason for one in check_controller(DiskCheck(DeclaredDisk("x", 1, whole=True), DISK, ())).refusals
    }
    assert refused is Reason.CONTROLLER


def test_it_goes_and_comes_back(kernel: Kernel) -> None:
    bind_to_vfio(AT, kernel.root)
    assert driver_of(AT, kernel.root) == "vfio-pci"
    assert return_to_driver(AT, kernel.root, kernel.devices)
    assert driver_of(AT, kernel.root) == "nvme"
    assert not return_to_driver(AT, kernel.root, kernel.devices), "what was not taken is not touched"
    assert not return_to_driver("0000:09:00.0", kernel.root, kernel.devices), "nor is what is not there"


def test_devices_bound_to_vfio_by_others_stay(kernel: Kernel) -> None:
    (kernel.root / "bus/pci/devices" / AT / "driver").unlink()
    kernel.bind(AT, "vfio-pci")
    assert not return_to_driver(AT, kernel.root, kernel.devices)
    assert driver_of(AT, kernel.root) == "vfio-pci"


def test_a_device_of_another_driver_stays_with_it(kernel: Kernel) -> None:
    (kernel.root / "bus/pci/devices" / AT / "driver").unlink()
    kernel.bind(AT, "uio_pci_generic")
    with pytest.raises(HarnessBroken, match="could not be given to vfio-pci") as caught:
        bind_to_vfio(AT, kernel.root)
    assert "No such device" in caught.value.details
    assert driver_of(AT, kernel.root) == "uio_pci_generic"


def test_one_that_vfio_does_not_take_is_the_old_drivers_again(kernel: Kernel) -> None:
    (kernel.root / "bus/pci/drivers/vfio-pci").rmdir()
    with pytest.raises(HarnessBroken, match="could not be given to vfio-pci"):
        bind_to_vfio(AT, kernel.root)
    assert return_to_driver(AT, kernel.root, kernel.devices)
    assert driver_of(AT, kernel.root) == "nvme"


def test_killed_half_way_there_or_back_it_is_brought_back(kernel: Kernel) -> None:
    """After each of the writes that taking it is made of, and each of those that bringing it back is made of."""
    device, drivers = kernel.root / "bus/pci/devices" / AT, kernel.root / "bus/pci/drivers"
    steps = [
        (device / "driver_override", "vfio-pci"),
        (drivers / "nvme/unbind", AT),
        (kernel.root / "bus/pci/drivers_probe", AT),
        (drivers / "vfio-pci/unbind", AT),
        (device / "driver_override", "\n"),
    ]
    for done in range(1, len(steps) + 1):
        for path, text in steps[:done]:
            kernel.write(path, text)
        assert return_to_driver(AT, kernel.root, kernel.devices)
        assert driver_of(AT, kernel.root) == "nvme"
        assert (device / "driver_override").read_text().strip() == ""


def test_a_controller_in_use_is_not_detached(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they call it: whoever makes a machine may give it a node of its own."""
    monkeypatch.setattr(controllers, "RELEASE_TIMEOUT", 0.3)
    bind_to_vfio(AT, kernel.root)
    descriptor = os.open("/dev/full", os.O_RDONLY)
    with pytest.raises(HarnessBroken, match=f"used by process {os.getpid()}"):
        return_to_driver(AT, kernel.root, kernel.devices)
    assert driver_of(AT, kernel.root) == "vfio-pci"
    os.close(descriptor)
    (kernel.devices / "7").unlink()
    with pytest.raises(HarnessBroken, match="cannot find out what uses"):
        return_to_driver(AT, kernel.root, kernel.devices)
    # A kernel without groups has one node a device.
    (kernel.root / "bus/pci/devices" / AT / "vfio-dev/vfio3").mkdir(parents=True)
    (kernel.devices / "devices").mkdir()
    (kernel.devices / "devices/vfio3").symlink_to("/dev/full")
    assert return_to_driver(AT, kernel.root, kernel.devices)


def test_users_of_a_character_device_are_found() -> None:
    full = Path("/dev/full")
    assert str(os.getpid()) not in find_character_device_users(full)
    with full.open("rb"):
        assert str(os.getpid()) in find_character_device_users(full)
    assert find_character_device_users(Path("/nothing")) == ""


class Players:
    """Two disks that went with their controllers, and what was done to these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.told, self.back = list[str](), list[str](), list[str]()
        self.stuck = ""
        monkeypatch.setattr(controllers, "_load_vfio", lambda _: None)
        monkeypatch.setattr(controllers, "DISK_TIMEOUT", 0.0)
        monkeypatch.setattr(controllers, "UDEV_TIMEOUT", 0.0)
        monkeypatch.setattr(controllers, "bind_to_vfio", partial(self.do, "take"))
        monkeypatch.setattr(controllers, "return_to_driver", partial(self.do, "back"))
        nodes = [replace(DISK, name=f"nvme{number}n1", dev=f"259:{number}", serial=f"S{number}") for number in (0, 1)]
        self.disks = [
            LeasedDisk(
                DeclaredDisk(f"disk-{number}", DISK.size),
                node,
                LOCAL,
                Descriptor(-1),
                parts=(node,),
                controller=f"at-{number}",
            )
            for number, node in enumerate(nodes)
        ]
        # They come back in another order, under each other's names.
        moved = [replace(nodes[0], name="nvme1n1", dev="259:8"), replace(nodes[1], name="nvme0n1", dev="259:9")]
        names = [StableName("disk-0", "259:8"), StableName("disk-1", "259:9")]
        self.census = Census({one.name: one for one in moved}, names=tuple(names))

    def do(self, what: str, address: str) -> None:
        self.calls.append(f"{what} {address}")
        if self.calls[-1] == self.stuck:
            raise HarnessBroken("it is stuck")

    def detached(self) -> AbstractContextManager[None]:
        return controllers.detach_controllers(
            self.disks, lambda: self.census, lambda one: self.back.append(one.declared.id), self.told.append
        )


def test_disks_that_come_back_under_other_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    players = Players(monkeypatch)
    with suppress(KeyboardInterrupt), players.detached():
        raise KeyboardInterrupt
    assert players.calls == ["take at-0", "take at-1", "back at-0", "back at-1"]
    assert [one.node.dev for one in players.disks] == ["259:8", "259:9"]
    assert ([one.parts for one in players.disks], players.back, players.told) == ([(), ()], ["disk-0", "disk-1"], [])


def test_a_failed_second_detachment_returns_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    players = Players(monkeypatch)
    players.stuck = "take at-1"
    with pytest.raises(HarnessBroken, match="it is stuck"), players.detached():
        pytest.fail("it was to go nowhere")
    assert players.calls[2:] == ["back at-0", "back at-1"]
    assert players.back == ["disk-0", "disk-1"]


def test_a_controller_that_stays_away_is_reported_and_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    players = Players(monkeypatch)
    players.stuck = "back at-0"
    with players.detached():
        pass
    assert (players.back, players.told) == (["disk-1"], ["disk-0: it is stuck"])


def test_a_disk_that_does_not_reappear_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    players = Players(monkeypatch)
    players.census = Census()
    with players.detached():
        pass
    assert players.told[0] == "disk-0: disk-0 did not reappear after its driver got at-0 back"
    assert players.back == []


def test_another_disk_of_the_same_name_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "nvme0n1").mkdir()
    (tmp_path / "nvme0n1/stat").write_text("0 0 0 0 0 0 9 0 0 0 0\n")
    held = LeasedDisk(DeclaredDisk("x", DISK.size), DISK, LOCAL, Descriptor(-1))
    assert read_write_counters([held], tmp_path) == {"S1": 9 * 512}
    assert read_write_counters([replace(held, controller=AT)], tmp_path) == {}


def test_a_disk_that_is_away_is_with_the_run_that_has_it() -> None:
    ours = OwnMarks(detached=frozenset({("disk-a", "night-1")}))
    (refused,) = check_disk(Census(), DeclaredDisk("disk-a", 1), ours).refusals
    assert (refused.reason, "the run night-1" in refused.evidence) == (Reason.LEFT_OVER, True)
    assert [one.reason for one in check_disk(Census(), DeclaredDisk("disk-b", 1), ours).refusals] == [Reason.NOT_THERE]
