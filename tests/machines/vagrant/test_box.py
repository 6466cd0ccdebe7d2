"""Boxes of Vagrant: their disks, and the programs that their script needs."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.machines.base import Refusal
from matrix_runner.machines.qemu.argv import DiskProperties
from matrix_runner.machines.vagrant import box
from matrix_runner.machines.vagrant.box import (
    FIND,
    parse_names,
    physical_disk,
)
from matrix_runner.simdisks.disk import Disk

MIB = 2**20


@given(st.lists(st.sampled_from(["scsi", "sata", "virtio"]), min_size=1, max_size=8))
def test_disks_are_found_by_their_serial_numbers(buses: list[str]) -> None:
    """`matrix-1` is no part of `matrix-11`, and what is not there is missed."""
    names = {"scsi": "scsi-0QEMU_QEMU_HARDDISK_", "sata": "ata-QEMU_HARDDISK_", "virtio": "virtio-"}
    with tempfile.TemporaryDirectory() as folder:
        for at, bus in enumerate(buses):
            Path(folder, f"{names[bus]}matrix-{at}").write_text(str(at))
        for _ in range(2):
            script = FIND.replace("/dev/disk/by-id", folder).replace("udevadm settle", "true")
            words = [f"matrix-{at}" for at in range(len(buses) + 1)]
            done = subprocess.run(["bash", "-c", script, "it", *words], capture_output=True, text=True, check=True)
            *there, missing = parse_names(done.stdout, len(words))
            assert there == [f"{folder}/matrix-{at}" for at in range(len(buses))], "as in machines of QEMU's"
            assert [Path(one).read_text() for one in there] == [str(at) for at in range(len(buses))]
            assert missing == ""


def test_a_disk_of_the_host_is_flushed_and_looks_as_it_is() -> None:
    turns = physical_disk(Disk(MIB, "scsi"), 3, Path("/s/x"), DiskProperties(rotation=5400))
    assert (turns.serial, turns.cache, turns.rotation, turns.discard) == ("matrix-3", "writeback", 5400, "ignore")
    flash = physical_disk(Disk(MIB, "virtio"), 0, Path("/s/x"), DiskProperties(discard=4096, rotation=1))
    assert (flash.rotation, flash.discard) == (None, "unmap"), "virtio cannot say"
    with pytest.raises(ValueError, match="no NVMe"):
        physical_disk(Disk(MIB, "nvme"), 0, Path("/s/x"), DiskProperties())


def test_missing_programs_of_the_box_script_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says so on two lines of its own, the first of which ends in one."""
    build = tmp_path / "build"
    build.write_text('#!/bin/sh\nprintf "box: this takes programs:\\n  apt install a b\\n" >&2; exit 2\n')
    build.chmod(0o755)
    monkeypatch.setattr(box, "BUILD", build)
    (refused,) = box.refusals(None)
    assert refused.message == "this takes programs: apt install a b"
    assert Refusal("no such thing").message == "no such thing"
