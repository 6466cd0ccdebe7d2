"""NVMe disks with their controllers, by VFIO, in a machine that has an IOMMU: given to machines in it, and taken back.

The machine's own processor is emulated, and with it what KVM takes, so machines in it run at a bearable speed.
"""

from __future__ import annotations

import asyncio
import csv
import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from matrix_runner.language.matrix import SUITES
from matrix_runner.machines.base import MachineOptions
from matrix_runner.machines.qemu.appliance import provide
from matrix_runner.machines.qemu.recipe import DEFAULT_KERNEL, Recipe
from tests.support.lab import INSIDE, Bay, Lab, up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

SIZE = 256 * 2**20
MATRIX = """\
name: whole
machine: {memory: 256MiB}
disks: {count: 2, size: 256MiB, bus: nvme}
layouts:
  mirror: [md: {level: 1}]
workloads:
  work: {rw: randwrite, bs: [4KiB, 16KiB], iodepth: 4, runtime: 2s, size: 8MiB}
repeat: 1
"""
WORK = "/root/work"
#: What machines in it are made by, and what says that an appliance could be built: it is brought along.
PACKAGES = ("qemu-system-x86", "squashfs-tools")
AT_WORK = 'test -z "$(lsblk -dno NAME | grep nvme)"'
PATIENCE = 400.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = asyncio.run(provide(Recipe(SUITES[DEFAULT_KERNEL]), MachineOptions().progress))
    halves = {one.name: one for one in (made.userland, made.core)}
    bay = Bay(2, SIZE, "nvme", iommu=True)
    folder = tmp_path_factory.mktemp("controllers")
    with up(folder, bay, memory=3 * 2**30, packages=PACKAGES, more=halves) as machine:
        machine.run(
            f"mkdir -p /root/.cache/matrix/appliances && cd /root/.cache/matrix/appliances && ln -s {INSIDE}/*-* ."
        )
        machine.put(f"{WORK}/m.yaml", MATRIX)
        machine.put(f"{WORK}/other.yaml", MATRIX.replace("whole", "other"))
        allowed = machine.hosts_yaml().replace("wipe: allowed", "wipe: allowed, vfio: allowed")
        machine.put(f"{WORK}/hosts.yaml", allowed)
        machine.put(f"{WORK}/worn.yaml", allowed.replace("vfio:", "wear: 1TB, vfio:"))
        yield machine


def drivers(lab: Lab) -> list[str]:
    """Who has the controllers; a controller that nobody has is missing."""
    return lab.said(
        "for one in /sys/bus/pci/devices/*; do [ $(cat $one/class) != 0x010802 ] || basename $(readlink $one/driver); done"
    ).split()


def run(lab: Lab, matrix: str = "m.yaml", *more: str) -> list[str]:
    asked = " ".join(word for name in lab.bay.names() for word in ("--destroy", name))
    words = f"run --passthrough --json {asked} {' '.join(more)} {matrix}"
    return lab.ssh(f"cd {WORK} && MATRIX_ACCEL=kvm exec matrix {words}")


def whole(lab: Lab, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command], capture_output=True, text=True, timeout=600)


def given_back(lab: Lab) -> None:
    assert drivers(lab) == ["nvme", "nvme"]
    assert lab.said("cat /sys/bus/pci/devices/*/driver_override | sort -u").split() == ["(null)"]
    told = json.loads(lab.said(f"cd {WORK} && matrix disks --format json"))
    assert [one["usable"] for one in told if one["declared"]] == [True, True], told
    assert lab.said("cat /proc/mdstat | grep ^md || :; pgrep -ax qemu-system-x86 || :") == ""
    assert lab.said("ls /root/.local/state/matrix/disks") == ""


def killed(lab: Lab, log: Path, until: str) -> None:
    """Run it until the controllers are away, or until a trial is told of, and not a line further."""
    with log.open("w") as told, subprocess.Popen(run(lab), stdout=told, stderr=told) as runner:
        deadline = time.monotonic() + PATIENCE
        while until not in log.read_text() or lab.run(AT_WORK, check=False).returncode:
            assert runner.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        assert drivers(lab) == ["vfio-pci", "vfio-pci"]
        lab.run("pkill -9 -f '[r]unner.cli run'")
        runner.wait()


def test_a_disk_whose_writes_are_to_be_counted_stays_where_they_are(lab: Lab) -> None:
    done = whole(lab, *run(lab, "m.yaml", "--hosts", "worn.yaml"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "controller: what is written to it by its controller this host cannot count" in done.stderr
    assert drivers(lab) == ["nvme", "nvme"]


def test_a_controller_of_a_killed_run_is_reported_and_cleaned(lab: Lab, tmp_path: Path) -> None:
    killed(lab, tmp_path / "log", "")
    other = whole(lab, *run(lab, "other.yaml"))
    assert other.returncode == 2, other.stdout + other.stderr
    assert "left over: nvme-QEMU_NVMe_Ctrl_lab-0 is away with its controller, which the run" in other.stderr
    cleaned = whole(lab, *lab.ssh(f"cd {WORK} && matrix clean"))
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert cleaned.stdout.count("given back") == 2
    given_back(lab)


def test_killed_in_the_middle_the_same_command_goes_on(lab: Lab, tmp_path: Path) -> None:
    killed(lab, tmp_path / "log", "measured")
    done = whole(lab, *run(lab))
    assert done.returncode == 0, done.stdout + done.stderr
    given_back(lab)
    found = json.loads(lab.said(f"cat {WORK}/results/whole-*/manifest.json"))
    assert {one["bus"] for one in found["disks"]} == {"nvme, with its controller"}
    assert {one["serial"] for one in found["disks"]} == {"lab-0", "lab-1"}
    trials = list(csv.DictReader(lab.said(f"cat {WORK}/results/whole-*/trials.csv").splitlines()))
    assert [one["outcome"] for one in trials] == ["measured", "measured"]
    # What a guest wrote is on the disks themselves, which carry no more than our label now.
    assert "matrix-disk 1" in lab.said("dd if=/dev/nvme0n1 bs=4096 skip=192 count=1 status=none | head -c 100")
