"""Calls of libvirt, and the machines that a killed process leaves."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent.connection import PYTHON
from matrix_runner.machines.base import Leftover, RigLost
from matrix_runner.machines.vagrant import libvirt
from matrix_runner.machines.vagrant.rig import (
    serve_disks,
)
from matrix_runner.simdisks.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Mapping


MIB = 2**20


ROOT = Path(__file__).parents[3]


def test_the_user_of_machines_is_read_from_libvirt() -> None:
    dac = "<secmodel><model>dac</model><doi>0</doi>{}</secmodel>"
    label = "<baselabel type='{}'>+{}:+108</baselabel>"
    other = "<secmodel><model>apparmor</model><doi>0</doi></secmodel>"
    assert libvirt.parse_qemu_user(other + dac.format(label.format("kvm", 1) + label.format("qemu", 64055))) == 64055
    assert libvirt.parse_qemu_user(dac.format(label.format("qemu", 0))) == 0
    with pytest.raises(HarnessBroken, match="does not report the user"):
        libvirt.parse_qemu_user(other)


QEMU_USER = 64055
CAPABILITIES = "<secmodel><model>dac</model><baselabel type='qemu'>+{}:+108</baselabel></secmodel>"


@pytest.fixture
def dac(monkeypatch: pytest.MonkeyPatch) -> None:
    Virsh(monkeypatch, {})
    monkeypatch.setattr(libvirt, "run_virsh", lambda *_: CAPABILITIES.format(QEMU_USER))


@pytest.mark.usefixtures("dac")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_only_the_user_of_machines_reaches_the_sockets_of_disks(tmp_path: Path) -> None:
    """Write access to a socket is write access to its disk, and `ps` and /proc/net/unix show the path to all users."""
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"

    def connects(path: Path, user: int) -> bool:
        command = [PYTHON, "-I", "-c", code, str(path)]
        return not subprocess.run(command, user=user, group=user, extra_groups=[], capture_output=True).returncode

    with libvirt.record_machine(tmp_path) as (record, _), socket.socket(socket.AF_UNIX) as listener:
        folder = Path(record.sockets)
        listener.bind(f"{folder}/disk")
        listener.listen(8)
        (folder / "disk").chmod(0o666)
        assert [connects(folder / "disk", user) for user in (0, QEMU_USER, 4321)] == [True, False, False]
        libvirt.admit_qemu(folder)
        assert [connects(folder / "disk", user) for user in (0, QEMU_USER, 4321)] == [True, True, False]


@pytest.mark.usefixtures("dac")
def test_a_folder_of_sockets_without_access_lists_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(HarnessBroken, match="to the user of libvirt's machines alone: Operation not") as refused:
        libvirt.admit_qemu(tmp_path)
    assert "$TMPDIR" in str(refused.value.resolution)


@pytest.mark.parametrize(
    ("complaint", "systemd", "brief", "resolution"),
    [
        ("error: Failed to connect socket to '/run/libvirt/libvirt-sock': No such file", True, "does not", "systemctl"),
        ("error: Failed to connect socket to '/run/libvirt/libvirt-sock': No such file", False, "does not", "libvirtd"),
        ("error: authentication unavailable: no polkit agent", True, "may not use libvirt", "adduser"),
        ("error: Failed to connect socket: Permission denied", False, "may not use libvirt", "adduser"),
        ("", False, "no reason was given", "libvirtd"),
    ],
)
def test_a_libvirt_that_does_not_answer(complaint: str, systemd: bool, brief: str, resolution: str) -> None:
    told = libvirt.explain_unreachable(complaint, systemd=systemd)
    assert brief in told[0]
    assert resolution in told[1]


def test_the_network_is_where_no_route_leads() -> None:
    routes = "default via 10.0.0.1 dev e\n192.168.131.0/24 dev a scope link\nlocal 192.168.132.7 dev b table local\n"
    assert str(libvirt.free_subnet(routes)) == "192.168.133.0/24"
    xml = libvirt.network_xml(libvirt.free_subnet(""))
    assert libvirt.parse_address(xml) == "192.168.131.0/24"
    with pytest.raises(HarnessBroken, match="no subnet is free"):
        libvirt.free_subnet("blackhole 192.168.0.0/16\nunicast 192.168.128.0/17 dev x\n")


def test_volumes_of_a_machine_are_those_of_its_name_and_no_others() -> None:
    domain = "matrix-1a2b3c4d-node"
    there = [
        f"{domain}.img",
        f"{domain}-vdb.raw",
        f"{domain}_1.img",
        f"{domain}2.img",
        "matrix-9-node.img",
        "photos.img",
    ]
    assert libvirt.volumes_of(domain, there) == there[:3]


class Virsh:
    """A libvirt that knows of these domains."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, domains: Mapping[str, str]) -> None:
        self.domains = dict(domains)
        self.removed: list[str] = []
        monkeypatch.setattr(libvirt, "carries_mark", self.ours)
        monkeypatch.setattr(libvirt, "remove_domain", self.remove)

    def ours(self, domain: str, mark: str) -> bool | None:
        return None if domain not in self.domains else self.domains[domain] == mark

    def remove(self, domain: str) -> None:
        self.removed.append(domain)
        self.domains.pop(domain, None)


RUNNER = """\
import sys
from pathlib import Path
from matrix_runner.machines.vagrant.libvirt import record_machine
with record_machine(Path("/the/run")) as (record, folder):
    print(record.domain, record.mark, flush=True)
    sys.stdin.read()
"""


def begun() -> tuple[subprocess.Popen[str], str, str]:
    """Another process that has a machine."""
    words = [sys.executable, "-c", RUNNER]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    domain, mark = child.stdout.readline().strip().split(" ", 1)
    return child, domain, mark


def test_a_machine_is_removed_after_the_death_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    child, domain, mark = begun()
    virsh = Virsh(monkeypatch, {domain: mark, "matrix-of-somebody": "x"})
    assert list(libvirt.sweep()) == []
    child.kill()
    child.communicate()
    assert list(libvirt.sweep(dry=True)) == [Leftover(f"machine {domain} of /the/run: its process is gone")]
    assert virsh.removed == []
    assert list(libvirt.sweep()) == [Leftover(f"machine {domain} of /the/run: removed")]
    assert virsh.removed == [domain]
    assert list(libvirt.sweep()) == []
    assert list(libvirt.home().iterdir()) == []


def test_a_machine_without_the_mark_stays_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    child, domain, _ = begun()
    virsh = Virsh(monkeypatch, {domain: "somebody else's"})
    child.kill()
    child.communicate()
    (found,) = libvirt.sweep()
    assert "does not have the recorded mark" in found.message
    assert found.remains
    assert virsh.removed == []


def test_records_stay_while_libvirt_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def silent(*words: str, stdin: str = "") -> str:
        raise HarnessBroken("libvirt: virsh list failed", details="no socket")

    monkeypatch.setattr(libvirt, "run_virsh", silent)
    with libvirt.record_machine(tmp_path) as (record, folder):
        pass
    assert libvirt.read_record(folder) == record
    (found,) = libvirt.sweep()
    assert found.message.endswith("could not be removed: libvirt: virsh list failed: no socket")
    assert found.remains
    assert libvirt.read_record(folder) == record


@pytest.mark.parametrize(("busy", "said"), [(3, ""), (9, "failed")])
def test_calls_on_a_busy_pool_are_repeated(monkeypatch: pytest.MonkeyPatch, busy: int, said: str) -> None:
    answers = [SimpleNamespace(returncode=1, stderr=f"error: pool 'matrix' has {libvirt.BUSY}")] * busy
    answers.append(SimpleNamespace(returncode=0, stderr="", stdout="there"))
    monkeypatch.setattr(libvirt, "virsh", lambda *_, **__: answers.pop(0))
    monkeypatch.setattr(libvirt, "PAUSE", 0)
    monkeypatch.setattr(libvirt, "PAUSES", 5)
    with pytest.raises(HarnessBroken, match=said) if said else nullcontext():
        assert libvirt.run_virsh("pool-refresh", "matrix") == "there"
    assert len(answers) == (0 if not said else 4)


def test_a_folder_without_a_record_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    Virsh(monkeypatch, {})
    (libvirt.home() / "0badf00d").mkdir(parents=True)
    assert list(libvirt.sweep()) == []
    assert list(libvirt.home().iterdir()) == []


def test_a_record_stays_while_its_machine_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    virsh = Virsh(monkeypatch, {})
    with libvirt.record_machine(tmp_path) as (record, folder):
        assert libvirt.read_record(folder) == record
        assert Path(record.sockets).stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    assert not Path(record.sockets).exists()
    with libvirt.record_machine(tmp_path) as (record, folder):
        virsh.domains[record.domain] = record.mark
    assert libvirt.read_record(folder) == record
    assert list(libvirt.sweep()) == [Leftover(f"machine {record.domain} of {tmp_path}: removed")]


def test_an_interrupted_upload_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Vagrant would take a volume of that name for the whole box, for good."""
    forgotten: list[str] = []
    pool = ["matrix-VAGRANTSLASH-a_vagrant_box_image_1.0_box.img"]  # of another version, with machines on it
    monkeypatch.setattr(libvirt, "box_volumes", lambda box: pool if box == "matrix/a" else [])
    monkeypatch.setattr(libvirt, "forget_box", lambda box, but: forgotten.append(" but ".join((box, *but))))
    with libvirt.note_upload("matrix/a", tmp_path):
        assert (tmp_path / libvirt.NOTE).exists()
    assert not (tmp_path / libvirt.NOTE).exists()
    assert forgotten == []
    with pytest.raises(RigLost), libvirt.note_upload("matrix/a", tmp_path):
        raise RigLost("the disk is full")
    assert forgotten == [f"matrix/a but {pool[0]}"]
    with libvirt.note_upload("matrix/a", tmp_path):
        said = (tmp_path / libvirt.NOTE).read_text()
    (tmp_path / libvirt.NOTE).write_text(said)  # of one that was killed
    with libvirt.note_upload("matrix/c", tmp_path):
        assert forgotten == [f"matrix/a but {pool[0]}"] * 2


def test_complete_volumes_of_a_box_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"generic-VAGRANTSLASH-debian12_vagrant_box_image_{one}_box.img" for one in ("1.0", "1.1")]
    deleted: list[str] = []
    monkeypatch.setattr(libvirt, "_list_volumes", lambda: [*names, "other_vagrant_box_image_1.1_box.img"])
    monkeypatch.setattr(libvirt, "run_virsh", lambda *words: deleted.append(words[-1]))
    libvirt.forget_box("generic/debian12", names[:1])
    assert deleted == names[1:]


async def test_servers_and_records_end_with_the_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Virsh(monkeypatch, {})
    with ExitStack() as stack:
        record, _ = stack.enter_context(libvirt.record_machine(tmp_path))
        if shutil.which("qemu-nbd"):
            async with serve_disks((Disk(MIB),), tmp_path, Path(record.sockets)) as made:
                server = made.servers[0]
            assert server.returncode is not None
    assert record.domain not in [one.name for one in libvirt.home().iterdir()]


@pytest.mark.parametrize("user", ["", "matrix-0123-node"])
def test_clean_all_removes_the_pool_unless_a_machine_uses_it(monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    answers = {"pool-list": "matrix\n", "list": f"other\n{user}\n", "vol-list": "box.img /x\n", "net-list": "matrix\n"}
    called: list[tuple[str, ...]] = []

    def answer(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        called.append(words)
        return subprocess.CompletedProcess(words, 0, answers.get(words[0], ""), "")

    monkeypatch.setattr(libvirt, "virsh", answer)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/virsh")
    (listed,) = libvirt.sweep(dry=True, everything=True)
    assert not listed.remains
    (done,) = libvirt.sweep(everything=True)
    assert done.remains == bool(user)
    removed = [words for words in called if re.match("vol-delete|pool-undefine|net-undefine", words[0])]
    whole = [("vol-delete", "--pool", "matrix", "box.img"), ("pool-undefine", "matrix"), ("net-undefine", "matrix")]
    assert removed == ([] if user else whole)
