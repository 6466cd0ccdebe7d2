"""A virtual machine to test in: Debian with systemd and udev, made of Vagrant's own box, with disks that have names.

Unlike the appliance of `--on qemu` it is a host like others: it has a network, sshd, podman, and everything of this
repository, so that `matrix` can run inside of it, or into it. Nothing of it outlives the process that started it.

The fixture `lab` is one for all tests of a session that leave its disks as they found them; `up` makes one of a test's
own. Building the box takes minutes the first time, so such tests are `exhaustive` and have a `timeout` of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.cache import cache_dir
from matrix_runner.base.process import dies_with_parent
from matrix_runner.machines.base import MachineOptions
from matrix_runner.machines.qemu.appliance import provide
from matrix_runner.machines.qemu.argv import EMULATED_CPU, QEMU, escape
from matrix_runner.machines.qemu.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "vagrant/box/build"
#: What a host of ours has that a box needs not: the command itself, and containers.
PACKAGES = ("python3", "podman", "crun", "runc")
#: What of this repository a run takes; and of the Python packages, what it does without.
CARRIED = ("matrix", "runner", "templates", "tests", "vagrant", "pyproject.toml")
LEFT = ("pyarrow*", "mypy*", "*__mypyc*", "scipy-stubs", "pip", "setuptools", "lxml*", "librt", "ast_serialize")
#: Where a machine's IOMMU is to be used. Emulated ones do not remap interrupts, without which VFIO wants to be told twice.
IOMMU = " intel_iommu=on vfio_iommu_type1.allow_unsafe_interrupts=1"
PATIENCE = 240.0
SUITES = {"12": "bookworm", "13": "trixie"}
#: Where the carried things are, inside.
INSIDE = "/opt/matrix"
MATRIX = f"""\
#!/bin/sh
export PYTHONPATH={INSIDE}/packages:{INSIDE}/runner:{INSIDE}
exec python3 -m matrix_runner.cli "$@"
"""


@dataclass(frozen=True)
class Bay:
    """The disks of a lab: how many, and on which bus. Their serial numbers are lab-0, lab-1 …"""

    count: int = 4
    size: int = 256 * 2**20
    bus: str = "scsi"
    #: Such a machine can give devices to machines in it.
    iommu: bool = False

    def names(self) -> tuple[str, ...]:
        """What udev calls them."""
        prefix = {
            "virtio": "virtio-",
            "scsi": "scsi-0QEMU_QEMU_HARDDISK_",
            "sata": "ata-QEMU_HARDDISK_",
            "nvme": "nvme-QEMU_NVMe_Ctrl_",
        }[self.bus]
        return tuple(f"{prefix}lab-{number}" for number in range(self.count))


@dataclass(frozen=True)
class Lab:
    """A machine that is up."""

    folder: Path
    bay: Bay
    port: int
    box: Path

    @property
    def disks(self) -> tuple[str, ...]:
        """The paths of its disks."""
        return tuple(f"/dev/disk/by-id/{name}" for name in self.bay.names())

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`: as `lab` one comes in as root, as `lab-user` as somebody who may use sudo."""
        return self.folder / "ssh-config"

    def ssh(self, *words: str) -> list[str]:
        """The command that runs a shell line in it."""
        return ["ssh", "-F", str(self.ssh_config), "lab", "--", *words]

    def run(
        self, line: str, *, stdin: str = "", check: bool = True, timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell line as root, to its end."""
        done = subprocess.run(self.ssh(line), input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode:
            pytest.fail(f"in the lab, with status {done.returncode}: {line}\n{done.stdout}{done.stderr}")
        return done

    def said(self, line: str, *, stdin: str = "") -> str:
        """What a shell line writes."""
        return self.run(line, stdin=stdin).stdout

    def put(self, path: str, text: str) -> None:
        """Write a file in it."""
        self.run(f"mkdir -p -- {Path(path).parent} && cat >{path}", stdin=text)

    def hosts_yaml(self, reach: str = "local", *, name: str = "lab") -> str:
        """Its disks, as a `hosts.yaml` allows them: to be overwritten."""
        entries = "".join(
            f"      - {{id: {disk}, serial: lab-{number}, size: {self.bay.size}B, wipe: allowed}}\n"
            for number, disk in enumerate(self.bay.names())
        )
        return f"hosts:\n  {name}:\n    reach: {reach}\n    disks:\n{entries}"


def suite() -> str:
    """The Debian whose Python this is, so that what is installed here runs there."""
    told = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.MULTILINE))
    if told.get("ID") != "debian" or told.get("VERSION_ID") not in SUITES:
        pytest.skip("the lab runs this very Python, which takes a host with Debian 12 or 13")
    return SUITES[told["VERSION_ID"]]


def box(more: tuple[str, ...] = ()) -> Path:
    """The box with everything that a lab has, built now unless it is there."""
    words = [str(BUILD), "--suite", suite(), *PACKAGES, *more]
    done = subprocess.run(dies_with_parent(words), capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip(" ".join(done.stderr.split()))
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def carried(target: Path, more: Mapping[str, Path]) -> None:
    """This repository and its Python packages, as a file system that takes no copying: it is read-only."""
    site = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    tree = target.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for name in CARRIED:
        whole = ROOT / name
        copy = shutil.copytree if whole.is_dir() else shutil.copy
        copy(whole, tree / name)
    for name, folder in more.items():
        shutil.copytree(folder, tree / name)
    shutil.copytree(site, tree / "packages", ignore=shutil.ignore_patterns(*LEFT), symlinks=True)
    # The file system is read-only, and an emulated machine would compile the modules for each command again.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "runner")], check=True)
    (tree / "matrix-command").write_text(MATRIX)
    (tree / "matrix-command").chmod(0o755)
    plain = ("-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-all-root", "-quiet", "-no-progress")
    subprocess.run(["mksquashfs", str(tree), str(target), *plain], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


@dataclass(frozen=True)
class Cable:
    """One end of a network cable between two labs: its address, and the sockets of both ends."""

    address: str
    own: Path
    other: Path

    @property
    def mac(self) -> str:
        return f"52:54:00:00:00:{int(self.address.rpartition('.')[2]):02x}"


def command(box: Path, folder: Path, bay: Bay, *, memory: int, cpus: int, cable: Cable | None = None) -> list[str]:
    """The command line of QEMU: booted without a loader, emulated where KVM cannot be had."""
    words = (box / "command-line").read_text().strip() + (IOMMU if bay.iommu else "")
    argv = [
        *(QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-vga", "none"),
        *("-machine", f"q35,accel={_accelerator()},vmport=off,hpet=off"),
        *(("-device", "intel-iommu,caching-mode=on") if bay.iommu else ()),
        *("-cpu", "host" if _accelerator() == "kvm" else EMULATED_CPU, "-smp", str(cpus), "-m", f"{memory // 2**20}M"),
        *("-kernel", str(box / "vmlinuz"), "-initrd", str(box / "initrd.img"), "-append", words),
        *("-chardev", f"file,id=console,path={escape(folder / 'console.log')}", "-serial", "chardev:console"),
        *("-qmp", f"unix:{escape(folder / 'qmp')},server=on,wait=off"),
        *("-netdev", "user,id=net,hostfwd=tcp:127.0.0.1:0-:22", "-device", "virtio-net-pci,netdev=net"),
        *("-device", "virtio-rng-pci"),
        *("-blockdev", _file("qcow2", "root", folder / "root.qcow2"), "-device", "virtio-blk-pci,drive=root"),
        *("-blockdev", _file("raw", "carried", folder / "carried.squashfs") + ",read-only=on"),
        *("-device", "virtio-blk-pci,drive=carried,serial=carried"),
        *("-device", "virtio-scsi-pci,id=scsi"),
    ]
    if cable:
        ends = f"local.path={escape(cable.own)},remote.type=unix,remote.path={escape(cable.other)}"
        argv += ["-netdev", f"dgram,id=cable,local.type=unix,{ends}"]
        argv += ["-device", f"virtio-net-pci,netdev=cable,mac={cable.mac}"]
    for number in range(bay.count):
        argv += ["-blockdev", _file("raw", f"lab{number}", folder / f"lab-{number}.img") + ",discard=unmap"]
        argv += ["-device", f"{_model(bay.bus, number)},drive=lab{number},serial=lab-{number}"]
    return argv


def _file(driver: str, name: str, path: Path) -> str:
    return f"driver={driver},node-name={name},file.driver=file,file.filename={escape(path)},file.locking=off"


def _model(bus: str, number: int) -> str:
    if bus == "virtio":
        return "virtio-blk-pci"
    if bus == "nvme":
        return "nvme"
    return f"scsi-hd,bus=scsi.0,scsi-id={number}" if bus == "scsi" else f"ide-hd,bus=ide.{number}"


def _accelerator() -> str:
    """What the probe of `--on qemu` remembers, or was told; emulation is always right."""
    chosen = os.environ.get("MATRIX_ACCEL")
    remembered = sorted((cache_dir() / "accelerator").glob("*.json"), key=lambda path: path.stat().st_mtime)
    return chosen or (json.loads(remembered[-1].read_text())["accel"] if remembered else "tcg")


@contextmanager
def up(
    folder: Path,
    bay: Bay | None = None,
    *,
    memory: int = 1536 * 2**20,
    cpus: int = 2,
    packages: tuple[str, ...] = (),
    more: Mapping[str, Path] = MappingProxyType({}),
    cable: Cable | None = None,
) -> Iterator[Lab]:
    """A lab, for as long as the block lasts; what was written in it is gone afterwards.

    `packages` are in its box, and `more` folders beside this repository.
    """
    made, bay = box(packages), bay or Bay()
    folder.mkdir(parents=True, exist_ok=True)
    image = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(made / "box.img")]
    subprocess.run([*image, str(folder / "root.qcow2")], check=True)
    carried(folder / "carried.squashfs", more)
    for number in range(bay.count):
        with (folder / f"lab-{number}.img").open("wb") as file:
            file.truncate(bay.size)
    argv = dies_with_parent(command(made, folder, bay, memory=memory, cpus=cpus, cable=cable))
    with ExitStack() as stack:
        child = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
        stack.callback(child.kill)
        lab = Lab(folder, bay, _port(folder / "qmp", child), made)
        lab.ssh_config.write_text(_ssh_config(lab))
        lab.ssh_config.chmod(0o600)
        _answers(lab, child)
        lab.run(
            f"mkdir -p {INSIDE} && mount -r -t squashfs /dev/disk/by-id/virtio-carried {INSIDE} && "
            f"ln -s {INSIDE}/matrix-command /usr/local/bin/matrix && udevadm settle"
        )
        if cable:
            network = f"[Match]\nMACAddress={cable.mac}\n[Network]\nAddress={cable.address}/24\n"
            lab.put("/etc/systemd/network/70-cable.network", network)
            lab.run("networkctl reload")
        yield lab


def install_zfs(lab: Lab, folder: Path) -> None:
    """Give it ZFS: the modules and programs of the appliance, which has the same kernel of Debian."""
    core = asyncio.run(provide(Recipe(suite(), zfs=True), MachineOptions().progress)).core
    release, tree = lab.said("uname -r").strip(), folder / "zfs"
    wanted = (f"{release}/updates", "programs")
    subprocess.run(
        ["unsquashfs", "-quiet", "-no-progress", "-d", str(tree), str(core / "modules.squashfs"), *wanted],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    if not (tree / release / "updates/zfs.ko").exists():
        pytest.skip(f"the appliance with ZFS has another kernel than the lab, {release}")
    packed = subprocess.run(["tar", "-C", str(tree), "-c", "."], check=True, stdout=subprocess.PIPE).stdout
    # Libraries that sshd uses must not be overwritten in place.
    line = (
        f"cd $(mktemp -d) && tar -x && cp -a --remove-destination programs/. / && ldconfig && "
        f"cp -a {release}/updates /lib/modules/{release} && depmod && modprobe zfs"
    )
    done = subprocess.run(lab.ssh(line), input=packed, capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr.decode(errors="replace")


def _port(path: Path, child: subprocess.Popen[bytes]) -> int:
    """Where QEMU listens for us: it was left to choose, so that two labs never want the same."""
    told = _asked(path, child, {"execute": "human-monitor-command", "arguments": {"command-line": "info usernet"}})
    found = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", str(told))
    assert found, told
    return int(found[1])


def _asked(path: Path, child: subprocess.Popen[bytes], *asked: Mapping[str, object]) -> object:
    deadline = time.monotonic() + PATIENCE
    with socket.socket(socket.AF_UNIX) as line:
        while line.connect_ex(str(path)):
            assert child.poll() is None, "QEMU ended at once"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with line.makefile("rw") as talk:
            talk.readline()
            answer: dict[str, object] = {}
            for one in ({"execute": "qmp_capabilities"}, *asked):
                talk.write(json.dumps(one))
                talk.flush()
                answer = json.loads(talk.readline())
                while "event" in answer:
                    answer = json.loads(talk.readline())
    return answer["return"]


def _ssh_config(lab: Lab) -> str:
    shared = (
        f"  HostName 127.0.0.1\n  Port {lab.port}\n  IdentityFile {lab.box / 'key'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {lab.folder / 'known-hosts'}\n  StrictHostKeyChecking accept-new\n  BatchMode yes\n"
        "  LogLevel ERROR\n  ConnectTimeout 60\n"
    )
    return f"Host lab\n  User root\n{shared}Host lab-user\n  User vagrant\n{shared}"


def _answers(lab: Lab, child: subprocess.Popen[bytes]) -> None:
    """Wait until one can come in."""
    deadline = time.monotonic() + PATIENCE
    while subprocess.run(lab.ssh("true"), capture_output=True, check=False).returncode:
        console = (lab.folder / "console.log").read_text(errors="replace")[-3000:]
        assert child.poll() is None, f"the lab ended with status {child.returncode}:\n{console}"
        assert time.monotonic() < deadline, f"the lab did not come up:\n{console}"
        time.sleep(0.5)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One for all tests that leave its disks as they found them."""
    with up(tmp_path_factory.mktemp("lab")) as machine:
        yield machine
