"""The machine that other tests run in is what they take it for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from matrix_runner.machines.qemu.argv import QEMU
from tests.support.lab import Bay, Lab, command

if TYPE_CHECKING:
    from pathlib import Path


def test_disks_hang_where_they_are_to_hang(tmp_path: Path) -> None:
    (tmp_path / "command-line").write_text("root=LABEL=boxroot\n")
    argv = {
        bus: command(tmp_path, tmp_path, Bay(2, bus=bus), memory=2**30, cpus=2) for bus in ("scsi", "sata", "virtio")
    }
    assert argv["scsi"][0] == QEMU
    for bus, model in (
        ("scsi", "scsi-hd,bus=scsi.0,scsi-id=1"),
        ("sata", "ide-hd,bus=ide.1"),
        ("virtio", "virtio-blk-pci"),
    ):
        assert f"{model},drive=lab1,serial=lab-1" in argv[bus]


@pytest.mark.vm
@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_it_is_a_host_with_named_disks_and_the_command(lab: Lab) -> None:
    assert [lab.said(f"blockdev --getsize64 {disk}").strip() for disk in lab.disks] == [str(lab.bay.size)] * 4
    assert lab.said("systemctl is-system-running").strip() == "running"
    assert "local     ready" in lab.said("matrix doctor --on local")
    assert "podman" in lab.said("podman --version")
