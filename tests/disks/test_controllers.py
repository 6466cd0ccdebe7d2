"""Controllers of NVMe disks that go to virtual machines and come back, on a kernel that is played by files.

With a real one, in a machine that has an IOMMU, is tests/vm/test_controllers.py.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.disks.real import controllers
from runner.disks.real.census import Census, Node, StableName
from runner.disks.real.claims import Claim, Ours
from runner.disks.real.controllers import Controller, against, bring_back, controller_of, driver_of, judged_whole, take
from runner.disks.real.here import HERE, Descriptor, users_of
from runner.disks.real.hold import Held
from runner.disks.real.refusals import Judged, judged
from runner.disks.real.why import Why
from runner.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Callable

DISK = Node("nvme0n1", "259:0", 2**28, serial="S1", model="M")
AT = "0000:00:04.0"


@dataclass
class Kernel:
    """As much of sysfs as matters, with what writing into it does."""

    root: Path

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
        device = path.parent if path.parent.name != "driver" else path.parent.parent
        if path.name == "unbind":
            (device / "driver").unlink()
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
    monkeypatch.setattr(Path, "write_text", lambda path, text, **_: made.write(path, text))
    return made


def reasons(found: Controller, *, root: bool = True, wear: int | None = None, vfio: bool = True) -> str:
    return "; ".join(against(found, root=root, wear=wear, vfio=vfio))


def test_a_controller_that_has_one_disk_and_a_group_of_its_own_can_go(kernel: Kernel) -> None:
    found = controller_of(DISK, kernel.root)
    assert found == Controller(AT, "nvme", "7", (), (), 1)
    assert reasons(found) == ""


def test_a_bridge_in_its_group_is_nobodys_device(kernel: Kernel) -> None:
    kernel.device("0000:00:1c.0", "0x060400")
    kernel.device("0000:00:05.0")
    devices = kernel.root / "kernel/iommu_groups/7/devices"
    (devices / "0000:00:1c.0").symlink_to(kernel.root / "bus/pci/devices/0000:00:1c.0")
    assert controller_of(DISK, kernel.root).beside == ()
    (devices / "0000:00:05.0").symlink_to(kernel.root / "bus/pci/devices/0000:00:05.0")
    assert reasons(controller_of(DISK, kernel.root)) == (
        "0000:00:04.0 can only be given away together with 0000:00:05.0 (IOMMU group 7)"
    )


def test_other_disks_of_it_would_be_gone_too(kernel: Kernel) -> None:
    at = kernel.root / "devices" / AT / "nvme/nvme0"
    for name in ("nvme0n2", "hwmon1", "ng0n1"):
        (at / name).mkdir()
    assert reasons(controller_of(DISK, kernel.root)).endswith("which would be gone with it: nvme0n2")


def test_without_an_iommu_it_stays(kernel: Kernel) -> None:
    (kernel.root / "bus/pci/devices" / AT / "iommu_group").unlink()
    assert "behind no IOMMU" in reasons(controller_of(DISK, kernel.root))


def test_a_disk_on_no_pci_bus_has_no_such_controller(kernel: Kernel) -> None:
    (kernel.root / "devices/virtual/block/vda").mkdir(parents=True)
    (kernel.root / "class/block/vda").symlink_to(kernel.root / "devices/virtual/block/vda")
    assert "it hangs on none of the PCI bus" in reasons(controller_of(replace(DISK, name="vda"), kernel.root))
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


def test_everything_that_speaks_against_it_is_said_at_once() -> None:
    said = reasons(Controller(AT, "nvme", "", (), ("nvme0n2",), 1), root=False, wear=10**9, vfio=False)
    for word in ("only root", "no vfio-pci", "no IOMMU", "nvme0n2", "`wear:`"):
        assert word in said


def test_only_disks_whose_controller_is_wanted_are_asked_about_it() -> None:
    plain = Judged(Claim("x", 1), DISK, ())
    assert judged_whole(plain) is plain
    (refused,) = {one.why for one in judged_whole(Judged(Claim("x", 1, whole=True), DISK, ())).refusals}
    assert refused is Why.CONTROLLER


def test_it_goes_and_comes_back(kernel: Kernel) -> None:
    take(AT, kernel.root)
    assert driver_of(AT, kernel.root) == "vfio-pci"
    assert bring_back(AT, kernel.root, kernel.root / "none")
    assert driver_of(AT, kernel.root) == "nvme"
    assert not bring_back(AT, kernel.root, kernel.root / "none"), "what was not taken is not touched"


def test_what_others_gave_to_vfio_by_its_number_is_theirs(kernel: Kernel) -> None:
    (kernel.root / "bus/pci/devices" / AT / "driver").unlink()
    kernel.bind(AT, "vfio-pci")
    assert not bring_back(AT, kernel.root)
    assert driver_of(AT, kernel.root) == "vfio-pci"


def test_one_that_vfio_does_not_take_is_the_old_drivers_again(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel.root / "bus/pci/drivers/vfio-pci").rmdir()
    monkeypatch.setattr("runner.disks.real.controllers.process.run", lambda *_, **__: None)
    with pytest.raises(HarnessBroken, match="could not be given to vfio-pci"):
        take(AT, kernel.root)
    assert driver_of(AT, kernel.root) == "nvme"


def test_killed_half_way_it_is_brought_back(kernel: Kernel) -> None:
    """After each of the three writes that taking it is made of."""
    device = kernel.root / "bus/pci/devices" / AT
    steps: list[Callable[[], object]] = [
        lambda: kernel.write(device / "driver_override", "vfio-pci"),
        lambda: kernel.write(device / "driver/unbind", AT),
        lambda: kernel.write(kernel.root / "bus/pci/drivers_probe", AT),
    ]
    for done in range(1, len(steps) + 1):
        for step in steps[:done]:
            step()
        assert bring_back(AT, kernel.root, kernel.root / "none")
        assert driver_of(AT, kernel.root) == "nvme"


def test_nobody_is_cut_off(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "LETS_GO", 0.3)
    take(AT, kernel.root)
    group = tmp_path / "7"
    group.touch()
    descriptor = os.open(group, os.O_RDONLY)
    with pytest.raises(HarnessBroken, match=f"used by process {os.getpid()}"):
        bring_back(AT, kernel.root, tmp_path)
    assert driver_of(AT, kernel.root) == "vfio-pci"
    os.close(descriptor)
    assert bring_back(AT, kernel.root, tmp_path)


def test_who_has_a_file_open_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "x"
    assert users_of(file) == ""
    with file.open("w"):
        assert str(os.getpid()) in users_of(file)
    assert users_of(file) == ""


def test_a_disk_that_comes_back_under_another_number_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, told = list[str](), list[str]()
    monkeypatch.setattr(controllers, "take", lambda address: calls.append(f"take {address}"))
    monkeypatch.setattr(controllers, "bring_back", lambda address: calls.append(f"back {address}"))
    moved = replace(DISK, name="nvme3n1", dev="259:9", sequence="44")
    census = Census({"nvme3n1": moved}, names=(StableName("nvme-M_S1", "259:9"),))
    lock = Descriptor(os.open("/dev/null", os.O_RDONLY))
    held = Held(Claim("nvme-M_S1", DISK.size, "S1"), DISK, HERE, lock, parts=(DISK,), controller=AT)
    with suppress(KeyboardInterrupt), controllers.away([held], lambda: census, told.append):
        raise KeyboardInterrupt
    lock.close()
    assert calls == [f"take {AT}", f"back {AT}"]
    assert (held.node, held.parts, told) == (moved, (), [])


def test_one_that_does_not_come_back_is_told_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()
    monkeypatch.setattr(controllers, "take", lambda _: None)
    monkeypatch.setattr(controllers, "bring_back", lambda _: True)
    monkeypatch.setattr(controllers, "COMES_BACK", 0.1)
    held = Held(Claim("gone", DISK.size, "S1"), DISK, HERE, Descriptor(-1), controller=AT)
    with controllers.away([held], Census, told.append):
        pass
    assert told == ["gone: gone did not come back within 0.1 s after its driver had its controller"]


def test_a_disk_that_is_away_is_with_the_run_that_has_it() -> None:
    ours = Ours(away=frozenset({("disk-a", "night-1")}))
    (refused,) = judged(Census(), Claim("disk-a", 1), ours).refusals
    assert (refused.why, "the run night-1" in refused.evidence) == (Why.LEFT_OVER, True)
    assert [one.why for one in judged(Census(), Claim("disk-b", 1), ours).refusals] == [Why.NOT_THERE]
