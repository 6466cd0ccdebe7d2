"""Disks of the host in virtual machines: what is computed, and what can be seen without starting one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.base.errors import BadInput
from matrix_runner.decide.concurrency import why_one_at_a_time
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.inventory import Node
from matrix_runner.hosts.operations import LOCAL, Descriptor
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.machines import PASSTHROUGH, machine
from matrix_runner.machines.base import MachineOptions, RigSpec
from matrix_runner.machines.qemu import (
    DEFAULT_ROTATION,
    Passthrough,
    Qemu,
    argv,
    provide_leased_disks,
    read_properties,
    template,
)
from matrix_runner.machines.qemu.appliance import Appliance
from matrix_runner.machines.qemu.argv import DiskProperties, PassedController
from matrix_runner.simdisks.disk import Bus, Disk, Physics

BASE = Appliance(Path("/c/userland"), Path("/c/core"))
PLATTERS = DiskProperties(512, 4096, 0, 5400, "5000c500a1b2c3d4", "ST4000, made of iron")
FLASH = DiskProperties(512, 512, 4096, 1)


def line(bus: Bus, passed: DiskProperties, *, locks: tuple[int, ...] = (8, 9)) -> str:
    vm = argv.Vm(BASE, (Disk(2**20, bus),), "tcg", 1, 2**28, (), (passed,))
    return " ".join(argv.command(vm, argv.Channels(3, 4, 5, 6, 7, 10, (20,), locks), argv.BOOT))


def test_a_disk_of_the_host_comes_by_descriptor_and_past_its_cache() -> None:
    text = line("virtio", FLASH)
    assert "-add-fd set=10,fd=20 -blockdev driver=raw,node-name=disk0,cache.direct=on,discard=unmap" in text
    assert "file.driver=host_device,file.filename=/dev/fdset/10,file.aio=native,file.cache.direct=on" in text
    assert "no-flush" not in text
    assert "locking=off" not in text


def test_a_template_of_such_a_machine_has_files_of_the_same_looks() -> None:
    there, locks = line("scsi", PLATTERS), line("scsi", PLATTERS, locks=())
    device = "scsi-hd,bus=scsi.0,scsi-id=0,drive=disk0,serial=matrix-0,logical_block_size=512,physical_block_size=4096"
    assert device in there
    assert device in locks
    assert "host_device" not in locks


def test_the_guest_sees_the_properties_that_its_bus_can_show() -> None:
    assert "rotation_rate=5400,wwn=0x5000c500a1b2c3d4,product=ST4000,, made of" in line("scsi", PLATTERS)
    assert "rotation_rate=5400,wwn=0x5000c500a1b2c3d4,model=ST4000,, made of iron" in line("sata", PLATTERS)
    assert "discard_granularity=0,discard=off" in line("virtio", PLATTERS)
    assert "discard_granularity=4096,discard=on" in line("virtio", FLASH)
    assert "discard_granularity=512," in line("sata", FLASH)
    assert "wwn" not in line("virtio", PLATTERS)
    assert "discard_granularity" not in line("nvme", PLATTERS)
    assert "discard_granularity=4096" in line("nvme", FLASH)


def test_qemu_inherits_what_holds_the_disks() -> None:
    assert argv.Channels(3, 4, 5, 6, 7, 10, (20,), (8, 9)).all == (3, 4, 5, 6, 7, 10, 20, 8, 9)


def test_a_disk_comes_with_its_controller_in_a_place_by_which_the_guest_knows_it() -> None:
    disks, passed = (Disk(2**20, "scsi"), Disk(2**20, "nvme")), (PLATTERS, PassedController("0000:01:00.0", "S 1"))
    vm = argv.Vm(BASE, disks, "tcg", 1, 2**28, (), passed)
    text = " ".join(argv.command(vm, argv.Channels(3, 4, 5, 6, 7, 10, (20,), (8, 9)), argv.BOOT))
    assert "-device vfio-pci,host=0000:01:00.0,addr=0x1f" in text
    assert "matrix.slots=0000:00:1f.0=1=S1" in text
    assert "drive=disk1" not in text
    assert "serial=matrix-0" in text
    assert "matrix.slots" not in line("scsi", PLATTERS)


@given(st.lists(st.booleans(), min_size=1, max_size=argv.FREE_SLOTS))
def test_no_two_disks_are_put_in_one_slot(whole: list[bool]) -> None:
    passed = tuple(PassedController("0000:01:00.0") if one else DiskProperties() for one in whole)
    vm = argv.Vm(BASE, (Disk(2**20, "nvme"),) * len(whole), "tcg", 1, 2**28, (), passed)
    taken = [argv.slot_of(vm, number) for number, one in enumerate(whole) if one]
    below = 32 - argv.FREE_SLOTS - 1 + whole.count(False)  # where the last of all others comes to be
    assert len(set(taken)) == len(taken)
    assert min(taken, default=32) > below


@given(st.builds(DiskProperties, model=st.text(max_size=60)), st.sampled_from(["virtio", "scsi", "sata", "nvme"]))
def test_a_disk_model_cannot_add_an_option(passed: DiskProperties, bus: Bus) -> None:
    words = argv.device_properties(Disk(1, bus), passed).replace(",,", "").split(",")
    known = {"logical_block_size", "physical_block_size", "discard_granularity", "discard"}
    assert {word.partition("=")[0] for word in words[1:]} <= known | {"rotation_rate", "wwn", "product", "model"}


def test_templates_differ_by_what_a_guest_can_see_of_the_disks() -> None:
    vms = [argv.Vm(BASE, (Disk(2**20),), "tcg", 1, 2**28, (), passed) for passed in ((), (PLATTERS,), (FLASH,))]
    assert len({template.key(vm, "7.2", "cpu") for vm in vms}) == 3


def node(**changes: str) -> Node:
    return Node("sdx", "8:0", 2**20, **changes)  # type: ignore[arg-type]


def test_properties_of_a_disk_are_read_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    told = {"logical_block_size": 4096, "physical_block_size": 4096, "discard_granularity": 0, "rotational": 1}
    for name, value in told.items():
        (tmp_path / "queue" / name).write_text(f"{value}\n")
    held = LeasedDisk(DeclaredDisk("x", 1), node(wwn="naa.5000c500a1b2c3d4", model="A\x07B"), LOCAL, Descriptor(-1))
    assert read_properties(held, tmp_path) == DiskProperties(4096, 4096, 0, DEFAULT_ROTATION, "5000c500a1b2c3d4", "AB")
    (tmp_path / "device").mkdir()
    (tmp_path / "device/vpd_pgb1").write_bytes(bytes([0, 0xB1, 0, 60, 0x15, 0x18]))
    assert read_properties(held, tmp_path).rotation == 5400
    (tmp_path / "queue/rotational").write_text("0\n")
    assert (
        read_properties(
            LeasedDisk(DeclaredDisk("x", 1), node(wwn="eui.0025385b71b0c6"), LOCAL, Descriptor(-1)), tmp_path
        ).rotation
        == 1
    )


def test_a_disk_without_kernel_properties_is_plain(tmp_path: Path) -> None:
    assert (
        read_properties(
            LeasedDisk(DeclaredDisk("x", 1), node(wwn="t10.ATA something"), LOCAL, Descriptor(-1)), tmp_path
        )
        == DiskProperties()
    )


def test_passthrough_refuses_models_and_accepts_kernels() -> None:
    modelled = RigSpec((Disk(2**20, "virtio", Physics("hdd")),) * 2, kernel="debian-12")
    briefs = [one.brief for one in Passthrough().refusals(modelled)]
    assert "physical disks have no model" in briefs
    assert not any("kernel" in brief for brief in briefs)
    assert Passthrough().max_rigs(modelled) == 1
    assert (Passthrough.disposable, Passthrough.zeroed, Passthrough.brings_disks) == (False, False, False)


def test_sectors_that_a_bus_cannot_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matrix_runner.machines.qemu.read_properties", lambda *_: DiskProperties(logical=4096))
    place = Passthrough(MachineOptions(held=(LeasedDisk(DeclaredDisk("x", 1), node(), LOCAL, Descriptor(-1)),)))
    with pytest.raises(BadInput, match="x has sectors of 4096 bytes"):
        place._physical_disks(RigSpec((Disk(1, "sata"),)))
    assert place._physical_disks(RigSpec((Disk(1, "scsi"),))) == (DiskProperties(logical=4096),)


def test_every_machine_that_passes_disks_through_is_as_the_one_without() -> None:
    for plain, passing in PASSTHROUGH.items():
        made = machine(passing, MachineOptions())
        assert isinstance(made, type(machine(plain, MachineOptions())))
        assert made.name == passing
    assert isinstance(machine("qemu-passthrough", MachineOptions()), Qemu)


async def test_a_disk_is_opened_by_way_of_what_was_judged_and_its_lock_goes_with_it(tmp_path: Path) -> None:
    disk, lock = tmp_path / "disk", os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    disk.write_bytes(b"x" * 512)
    judged = os.open(disk, os.O_RDONLY)
    disk.rename(tmp_path / "elsewhere")
    disk.write_bytes(b"another")
    held = LeasedDisk(DeclaredDisk("x", 512), node(), LOCAL, Descriptor(lock), Descriptor(judged))
    async with provide_leased_disks([held], (Disk(512),), tmp_path, -1) as served:
        (descriptor,) = served.descriptors
        reader = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
        assert os.pread(reader, 7, 0) == b"x" * 7
        os.close(reader)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        assert (flags & os.O_ACCMODE, flags & os.O_DIRECT) == (os.O_RDWR, os.O_DIRECT), "QEMU 9.1 compares both"
        assert served.locks == (lock, judged)
        assert served.reports() == ()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)
    held.release()
    with pytest.raises(ValueError, match="is released"):
        async with provide_leased_disks([held], (Disk(512),), tmp_path, -1):
            pass
    os.close(lock)


async def test_a_disk_that_went_with_its_controller_has_but_its_lock(tmp_path: Path) -> None:
    held = LeasedDisk(DeclaredDisk("x", 512, whole=True), node(), LOCAL, Descriptor(7), controller="0000:01:00.0")
    async with provide_leased_disks([held], (Disk(512, "nvme"),), tmp_path, -1) as served:
        assert (served.descriptors, served.locks) == ((), (7,))
    assert Passthrough(MachineOptions(held=(held,)))._physical_disks(RigSpec((Disk(512, "nvme"),))) == (
        PassedController("0000:01:00.0"),
    )


def test_there_is_one_such_rig_at_a_time() -> None:
    spec = RigSpec((Disk(2**20),))
    assert why_one_at_a_time(Passthrough(), [spec], []) == (
        "qemu-passthrough runs one rig at a time: it has one set of disks"
    )
