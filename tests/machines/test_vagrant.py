"""Machines of Vagrant's, without any: what is asked for, what is refused, and what is ours of what is left."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matrix_runner.machines.vagrant as package
from matrix_runner.base import process
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.base.files import open_lock_file, try_lock
from matrix_runner.base.process import run_to_end
from matrix_runner.carry.executor import rig_spec
from matrix_runner.cli import cli
from matrix_runner.decide.concurrency import Level
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.inventory import Node
from matrix_runner.hosts.operations import LOCAL, Descriptor
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.machines.base import Leftover, Refusal, RigLost, RigSpec
from matrix_runner.machines.dry import plausible
from matrix_runner.machines.qemu.argv import DiskProperties
from matrix_runner.machines.qemu.host import Host, max_machines
from matrix_runner.machines.vagrant import Passthrough, Vagrant, box, libvirt, refuse_large_sectors, spec_refusals
from matrix_runner.machines.vagrant.box import (
    FIND,
    Box,
    parse_names,
    physical_disk,
    read_lines,
    temporary_disk,
)
from matrix_runner.machines.vagrant.libvirt import Record
from matrix_runner.machines.vagrant.rig import (
    Order,
    command,
    enter_command,
    missing_modules,
    plan,
    report_progress,
    serve_disks,
    ssh_config,
    start_machine,
)
from matrix_runner.simdisks.disk import Disk, Physics
from matrix_runner.simdisks.server import device_command
from tests.support.bearing import Bearing, BearingRig
from tests.support.engine import Bench
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from matrix_runner.machines.base import Progress

MIB = 2**20
SPEC = RigSpec((Disk(64 * MIB, "scsi"), Disk(64 * MIB, "virtio")), cpus=3, memory=512 * MIB)
RECORD = Record("matrix-1a2b3c4d-", "matrix 00ff", "/r/run", "/tmp/matrix-1a2b3c4d-x")
ROOT = Path(__file__).parents[2]


def the_plan(spec: RigSpec = SPEC) -> str:
    order = Order(spec, Box(name="matrix/trixie-1", catalogue="/c/box.json"), "qemu", Path("/r"), serve_disks)
    disks = [temporary_disk(disk, number, Path(f"/s/{number}")) for number, disk in enumerate(spec.disks)]
    return plan(order, RECORD, disks, "192.168.131.0/24", ("apparmor",))


def test_the_plan_has_all_that_the_vagrantfile_reads() -> None:
    told = json.loads(the_plan())
    (machine,) = told["machines"]
    assert (machine["cpus"], machine["memory"]) == (3, 768)
    assert [(disk["serial"], disk["bus"], disk["socket"]) for disk in machine["disks"]] == [
        ("matrix-0", "scsi", "/s/0"),
        ("matrix-1", "virtio", "/s/1"),
    ]
    assert {disk["cache"] for disk in machine["disks"]} == {"unsafe"}
    read = (ROOT / "vagrant/Vagrantfile").read_text()
    for name in told:
        assert f"plan[:{name}]" in read or f"plan.fetch(:{name}" in read, name


@pytest.mark.skipif(shutil.which("ruby") is None, reason="no ruby on this host")
@pytest.mark.parametrize("file", ["Vagrantfile", "disks.rb", "box/Vagrantfile"])
def test_ruby_files_are_valid(file: str) -> None:
    assert subprocess.run(["ruby", "-wc", str(ROOT / "vagrant" / file)], capture_output=True).returncode == 0


#: As much of the plugin as `disks.rb` is built upon: a domain with one disk of its own.
PLUGIN = """\
module VagrantPlugins
  module ProviderLibvirt
    class Config
      def storage(kind, options = {}) = (@own ||= []) << [kind, options]
      def merge(other) = self.class.new
    end
    module Action
      class CreateDomain
        def initialize(config) = @config = config
        def call(env) = to_xml("domain")
        def to_xml(*) = "<domain><devices><disk type='file'><target dev='sda' bus='scsi'/></disk></devices></domain>"
      end
    end
  end
end
"""
DOMAIN = """\
require "json"
require ARGV[0]
include VagrantPlugins::ProviderLibvirt
config = Config.new
Matrix::Letters.of(JSON.parse(ARGV[1], symbolize_names: true)).each do |disk|
  2.times { config.storage disk[:as].to_sym, **disk.reject { |key, _| key == :as } }
end
config = config.merge(Config.new)
config.unconfined = ["apparmor"]
Machine = Struct.new(:provider_config)
puts Action::CreateDomain.new(config).call({ machine: Machine.new(config) })
"""


@pytest.fixture
def ruby(tmp_path: Path) -> list[str]:
    """It, with that plugin."""
    if shutil.which("ruby") is None:
        pytest.skip("no ruby on this host")
    (tmp_path / "vagrant-libvirt/action").mkdir(parents=True)
    (tmp_path / "vagrant-libvirt/config.rb").write_text(PLUGIN)
    (tmp_path / "vagrant-libvirt/action/create_domain.rb").touch()
    return ["ruby", "-I", str(tmp_path), "-e"]


def test_disks_unknown_to_the_plugin_are_in_the_domain(ruby: list[str]) -> None:
    wanted = [
        {"socket": "/s/0", "bus": "scsi", "serial": "matrix-0", "rotation": 7200, "errors": "enospace"},
        {"dev": "/dev/disk/by-id/x", "bus": "scsi", "serial": "X", "wwn": "5000c50000000001"},
        {"socket": "/s/1", "bus": "virtio", "serial": "matrix-1", "rotation": 7200, "cache": "unsafe"},
    ]
    words = [DOMAIN, str(ROOT / "vagrant/disks.rb"), json.dumps(wanted)]
    done = subprocess.run([*ruby, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    domain = ElementTree.fromstring(done.stdout)  # noqa: S314 - our own
    own, served, block, virtio = domain.findall("devices/disk")
    assert [disk.find("address").attrib["target"] for disk in (own, served, block)] == ["0", "1", "2"]  # type: ignore[union-attr]
    assert virtio.find("address") is None
    assert [dict(one.attrib) for one in domain.findall("devices/controller")] == [
        {"type": "scsi", "index": "0", "model": "virtio-scsi"}
    ]
    assert [disk.find("target").attrib for disk in (served, block, virtio)] == [  # type: ignore[union-attr]
        {"dev": "sda", "bus": "scsi", "rotation_rate": "7200"},
        {"dev": "sdb", "bus": "scsi"},
        {"dev": "vdc", "bus": "virtio"},
    ]
    assert served.find("source/host").attrib == {"transport": "unix", "socket": "/s/0"}  # type: ignore[union-attr]
    assert block.find("source").attrib == {"dev": "/dev/disk/by-id/x"}  # type: ignore[union-attr]
    assert block.findtext("wwn") == "5000c50000000001"
    assert [disk.find("driver").attrib["cache"] for disk in (served, block, virtio)] == ["writeback", "none", "unsafe"]  # type: ignore[union-attr]
    assert domain.find("seclabel").attrib == {"type": "none", "model": "apparmor"}  # type: ignore[union-attr]


#: As much of Vagrant as says what is asked of it: of which machine, what, and with which words.
VAGRANT = """\
require "json"
class Asked
  def initialize(of) = (@of, @given = of, {})
  def respond_to_missing?(*) = true
  def method_missing(name, *words, **named)
    return @given[name] ||= Asked.new(@of) if words.empty? && named.empty?
    puts JSON.generate([@of, name.to_s.delete_suffix("="), words.first, named])
    @given[name.to_s.delete_suffix("=").to_sym] = words.first
    yield Asked.new(name == :define ? words.first : @of) if block_given?
  end
end
module Vagrant
  def self.configure(_) = yield(Asked.new(nil))
end
load ARGV[0]
"""


class Asked(NamedTuple):
    """A setting of a machine, or of all."""

    of: str | None
    name: str
    word: Any
    named: dict[str, Any]


def asked_of_vagrant(ruby: list[str], plan: str, folder: Path) -> list[Asked]:
    (folder / "plan.json").write_text(plan)
    environment = {**os.environ, "MATRIX_VAGRANT": str(folder / "plan.json")}
    words = [*ruby, VAGRANT, str(ROOT / "vagrant/Vagrantfile")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [Asked(*json.loads(line)) for line in done.stdout.splitlines()]


BY_HAND = {"cpus": 1, "memory": 512, "disks": [{"size": "64M", "bus": "sata", "serial": "S"}]}
ONE_BY_ONE = {"machines": [{"name": name, **BY_HAND} for name in ("a", "b")]}


@pytest.mark.parametrize(
    ("plan", "names"), [(ONE_BY_ONE, ["a", "b"]), ({"machines": 3, **BY_HAND}, ["node-1", "node-2", "node-3"])]
)
def test_machines_by_hand_are_listed_or_counted(
    ruby: list[str], tmp_path: Path, plan: dict[str, Any], names: list[str]
) -> None:
    asked = asked_of_vagrant(ruby, json.dumps({"box": "b", **plan}), tmp_path)
    assert [one.word for one in asked if one.name == "define"] == names
    for name in names:
        mine = [one for one in asked if one.of == name]
        assert [one.word for one in mine if one.name in {"cpus", "memory"}] == [1, 512]
        disks = [(one.named["serial"], one.named["device"]) for one in mine if one.name == "storage"]
        assert disks == [("guard", "vdb"), ("S", "sda")]


@pytest.mark.parametrize("script", ["build", "customize"])
def test_the_scripts_of_the_box_pass_shellcheck(script: str) -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([shellcheck, ROOT / "vagrant/box" / script], capture_output=True, text=True)
    assert done.stdout == ""


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


def test_the_server_of_a_physical_disk_does_not_cache() -> None:
    line = " ".join(device_command(Path("/s/x"), 9, discards=False))
    assert "--cache=none --aio=native --discard=ignore --socket /s/x /dev/fd/9" in line
    assert "--discard=unmap" in device_command(Path("/s/x"), 9, discards=True)


def test_only_root_may_give_disks_of_the_host_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "only root can pass disks" in " ".join(one.brief for one in Passthrough().refusals(SPEC))


def test_the_user_of_machines_is_read_from_libvirt() -> None:
    dac = "<secmodel><model>dac</model><doi>0</doi>{}</secmodel>"
    label = "<baselabel type='{}'>+{}:+108</baselabel>"
    other = "<secmodel><model>apparmor</model><doi>0</doi></secmodel>"
    assert libvirt.parse_qemu_user(other + dac.format(label.format("kvm", 1) + label.format("qemu", 64055))) == 64055
    assert libvirt.parse_qemu_user(dac.format(label.format("qemu", 0))) == 0
    with pytest.raises(HarnessBroken, match="does not report the user"):
        libvirt.parse_qemu_user(other)


def test_sectors_that_such_a_machine_cannot_have_are_refused() -> None:
    held = LeasedDisk(DeclaredDisk("x", 1), Node("sdx", "8:0", MIB), LOCAL, Descriptor(-1))
    refuse_large_sectors([held], [DiskProperties()])
    with pytest.raises(BadInput, match="x has sectors of 4096 bytes") as caught:
        refuse_large_sectors([held], [DiskProperties(logical=4096)])
    assert "--on qemu --passthrough" in caught.value.resolution


def test_physical_disks_refuse_models() -> None:
    spec = replace(SPEC, disks=(Disk(MIB, "scsi", Physics("hdd")),))
    assert "physical disks have no model" in [one.brief for one in Passthrough().refusals(spec)]
    assert (Passthrough.zeroed, Passthrough.brings_disks, Passthrough().max_rigs(spec)) == (False, False, 1)


def test_impossible_disks_of_vagrant_are_refused() -> None:
    assert list(spec_refusals(RigSpec((Disk(MIB, "nvme"),)))) == [
        Refusal("vagrant-libvirt has no NVMe bus", "use virtio, scsi or sata, or run it on qemu")
    ]
    assert [*spec_refusals(RigSpec(tuple(Disk(MIB, "virtio") for _ in range(21))))]
    assert not [*spec_refusals(RigSpec(tuple(Disk(MIB, "scsi") for _ in range(21))))]
    (faulty,) = spec_refusals(replace(SPEC, powers=("faults",)))
    assert "cannot fail on demand" in faulty.brief
    assert "`faults:`" in faulty.resolution
    assert not [*spec_refusals(replace(SPEC, powers=("host",)))]


FAILING = """\
name: failing
disks: {count: 2, size: 64MiB, bus: BUS, model: nas-7200}
faults: {none: [], dies: [{disk: 1, at: 0s, kind: dies}]}
layouts: {raid1: [md: {level: 1}]}
workloads: {work: {rw: randread, bs: 4KiB, runtime: 1s}}
"""


@pytest.mark.parametrize(
    ("bus", "words", "said"),
    [
        ("sata", (), "cannot fail on demand"),
        ("nvme", ("--only", "faults=none"), "has no NVMe bus"),
        ("sata", ("--only", "faults=none", "--jobs", "999"), "this host has room for"),
        ("sata", ("--only", "faults=none", "--passthrough"), "physical disks have no model"),
        ("sata", ("--only", "faults=none", "--destroy", "wwn-0x1"), "the vagrant machine creates its disks"),
    ],
)
def test_missing_requirements_are_refused_before_a_run_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: str, words: tuple[str, ...], said: str
) -> None:
    """By the command itself, on a host that lacks nothing."""
    monkeypatch.setattr(package, "tool_refusals", list)
    monkeypatch.setattr(package, "DISK_TOOLS", {})
    monkeypatch.setattr(box, "refusals", lambda _: [])
    monkeypatch.setattr(Vagrant, "rig", lambda *_: pytest.fail("a machine was started"))
    matrix = tmp_path / "failing.yaml"
    matrix.write_text(FAILING.replace("BUS", bus))
    words = ("run", "--on", "vagrant", *words, "--results", str(tmp_path / "results"), str(matrix))
    with pytest.raises(BadInput) as refused:
        cli(list(words), standalone_mode=False)
    assert said in f"{refused.value.brief}\n{refused.value.details}"
    assert refused.value.resolution
    assert not list(tmp_path.glob("results/failing-*"))


def test_a_box_boots_the_kernel_that_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Vagrant().kernel_refusal("debian-12") == ""
    assert Vagrant().kernel_refusal("./bzImage") == "a box boots its own kernel, not ./bzImage"
    monkeypatch.setenv("MATRIX_BOX", "generic/debian12")
    assert Vagrant().kernel_refusal("debian-12") == "the box generic/debian12 has its own kernel, not debian-12"
    assert box.refusals(None) == []


@pytest.mark.parametrize("own", ["generic/debian12", ""])
async def test_an_own_box_is_used_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ruby: list[str], own: str
) -> None:
    """Nothing is built for it, and nothing is said of where it is: it is there, or Vagrant fetches it."""
    (tmp_path / "box.json").write_text('{"name": "matrix/ours"}')
    build = tmp_path / "build"
    build.write_text(f'#!/bin/sh\ntouch "{tmp_path}/built"\necho "{tmp_path}"\n')
    build.chmod(0o755)
    monkeypatch.setattr(box, "BUILD", build)
    monkeypatch.setenv("MATRIX_BOX", own)
    monkeypatch.setenv("VAGRANT_HOME", "/home/me/boxes")
    order = Order(SPEC, await box.provide(None, lambda *_: None), "qemu", tmp_path, serve_disks)
    wanted = plan(order, RECORD, [], "192.168.131.0/24", ())
    asked = {one.name: one.word for one in asked_of_vagrant(ruby, wanted, tmp_path)}
    known_to = {word for word in command(tmp_path, "up") if word.startswith("VAGRANT_HOME=")}
    assert (asked["box"], asked["box_check_update"]) == (own or "matrix/ours", False)
    assert asked.get("box_url") == (None if own else f"file://{tmp_path}/box.json")
    assert known_to == {f"VAGRANT_HOME={'/home/me/boxes' if own else tmp_path / 'cache/vagrant/home'}"}
    assert (tmp_path / "built").exists() == (not own)


def test_each_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("matrix_runner.machines.qemu.host.missing_programs", list)
    monkeypatch.setattr(box, "refusals", lambda _: [])
    refused = Vagrant().refusals(SPEC)
    assert {one.brief for one in refused} >= {"vagrant is not installed", "virsh is not installed"}
    assert all(one.resolution.startswith("apt install ") for one in refused)


def test_missing_programs_of_the_box_script_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says so on two lines of its own, the first of which ends in one."""
    build = tmp_path / "build"
    build.write_text('#!/bin/sh\nprintf "box: this takes programs:\\n  apt install a b\\n" >&2; exit 2\n')
    build.chmod(0o755)
    monkeypatch.setattr(box, "BUILD", build)
    (refused,) = box.refusals(None)
    assert refused.message == "this takes programs: apt install a b"
    assert Refusal("no such thing").message == "no such thing"


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


def test_vagrant_knows_one_machine_and_checks_no_updates() -> None:
    argv = command(Path("/m/1a2b"), "up")
    assert argv[-2:] == ["vagrant", "up"]
    assert {"MATRIX_VAGRANT=/m/1a2b/machines.json", "VAGRANT_CHECKPOINT_DISABLE=1"} <= set(argv)


async def test_progress_lines_of_vagrant_are_left_out() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(
        b"\r\x1b[KProgress: 1%\r\x1b[KProgress: 2%\r==> node: Starting domain.\n==> node:  -- Cpus: 2\nend"
    )
    stream.feed_eof()
    said = [line async for line in read_lines(stream)]
    assert said == ["==> node: Starting domain.", "==> node:  -- Cpus: 2", "end"]
    heard: list[str] = []
    for one in said:
        report_progress(one, lambda brief, _=None: heard.append(brief))
    assert heard == ["vagrant: Starting domain"]


def test_warnings_of_ruby_are_no_ssh_configuration() -> None:
    said = "/usr/lib/x.rb:1: warning: old\nHost node\n  HostName 192.168.131.7\n  User vagrant\n"
    assert ssh_config(said) == "Host node\n  HostName 192.168.131.7\n  User vagrant\n"


def test_words_reach_the_machine_as_they_were(tmp_path: Path) -> None:
    """Through ssh, which joins them, and the shell there, which takes them apart."""
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/bash\nfor last do :; done\nexec bash -c "$last"\n')
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/bash\nshift\nexec "$@"\n')
    for one in (fake, sudo):
        one.chmod(0o755)
    odd = ["a b", "", "it's", "$HOME `x`", "two\nlines", "*", "ä"]
    enter = enter_command(Path("/c/ssh config"), Path("/l"))
    done = process.run([*enter, "printf", "%s|", *odd], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout == "".join(f"{word}|" for word in odd)


def test_missing_modules_are_separated_from_programs() -> None:
    assert missing_modules("kernel 6.1\nno-module raid456\nno-program f2fs\nno-module dm_raid\n") == "raid456 dm_raid"


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


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("MATRIX_CACHE", str(tmp_path / "cache"))
    yield
    for record in filter(None, map(libvirt.read_record, libvirt.home().glob("*/"))):
        shutil.rmtree(record.sockets, ignore_errors=True)


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
        assert Path(record.sockets).stat().st_mode & 0o777 == 0o711
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


@pytest.mark.skipif(
    not (shutil.which("nbdkit") and shutil.which("qemu-nbd")), reason="without nbdkit or qemu-utils on this host"
)
async def test_simulated_disks_report_their_work(tmp_path: Path) -> None:
    disks = (Disk(MIB, "scsi", Physics("ideal")), Disk(MIB), Disk(MIB, "sata", Physics("ideal")))
    async with serve_disks(disks, tmp_path, tmp_path) as made:
        uri = f"nbd+unix:///?socket={made.sockets[2]}"
        write = await asyncio.to_thread(process.run, ["qemu-io", "-f", "raw", "-c", "write -P 7 0 64k", uri])
        assert write.returncode == 0, write.stderr
        assert [report.written_bytes for report in made.reports()] == [0, 0, 64 << 10]
        made.empty()
        read = await asyncio.to_thread(process.run, ["qemu-io", "-f", "raw", "-c", "read -P 0 0 1M", uri])
        assert "verification failed" not in read.stdout


@pytest.mark.skipif(shutil.which("qemu-nbd") is None, reason="without qemu-nbd on this host")
async def test_disks_answer_at_their_sockets_and_are_emptied_from_outside(tmp_path: Path) -> None:
    async with serve_disks((Disk(MIB), Disk(MIB, "scsi")), tmp_path, tmp_path) as made:
        assert await made.find_ended_server() is None
        assert made.reports() == ()
        uri = f"nbd+unix:///?socket={made.sockets[0]}"
        write = process.run(["qemu-io", "-f", "raw", "-c", "write -P 7 0 64k", uri])
        assert write.returncode == 0, write.stderr
        made.empty()
        read = process.run(["qemu-io", "-f", "raw", "-c", "read -P 0 0 1M", uri])
        assert "verification failed" not in read.stdout
        assert read.returncode == 0
        made.servers[0].kill()
        await made.servers[0].wait()
        assert await made.find_ended_server()


@pytest.mark.skipif(shutil.which("nbdkit") is None, reason="without nbdkit on this host")
async def test_an_ended_server_has_a_reason(tmp_path: Path) -> None:
    disk = Disk(MIB, "scsi", Physics("ideal"))
    async with serve_disks((disk, disk), tmp_path, tmp_path) as made:
        assert await made.find_ended_server() is None
        made.servers[1].kill()
        await made.servers[1].wait()
        assert await made.find_ended_server() == ("the server of disk 1 was killed by signal 9", "")


async def test_servers_and_records_end_with_the_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Virsh(monkeypatch, {})
    with ExitStack() as stack:
        record, _ = stack.enter_context(libvirt.record_machine(tmp_path))
        if shutil.which("qemu-nbd"):
            async with serve_disks((Disk(MIB),), tmp_path, Path(record.sockets)) as made:
                server = made.servers[0]
            assert server.returncode is not None
    assert record.domain not in [one.name for one in libvirt.home().iterdir()]


def test_the_box_has_memory_beyond_the_rig() -> None:
    assert json.loads(the_plan())["machines"][0]["memory"] * MIB > SPEC.memory


class Comes:
    """Machines that come up and go down without any."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self._count = self.coming = self.most = 0
        #: Whose end ends in an error.
        self.stuck: set[int] = set()
        monkeypatch.setattr(package, "start_machine", self.up)
        monkeypatch.setattr(package, "query_facts", lambda _, spec: {"kernel": "6", "modules": ",".join(spec.modules)})
        monkeypatch.setattr(box, "provide", self.provide)
        monkeypatch.setenv("MATRIX_ACCEL", "tcg")

    async def provide(self, kernel: str | None, _: Progress) -> Box:
        return Box(name=f"matrix/{kernel}")

    @asynccontextmanager
    async def up(self, order: Order, _: Progress) -> AsyncIterator[SimpleNamespace]:
        self._count += 1
        number, name = self._count, f"{self._count} of {order.box.name} by {order.driver}"
        self.coming += 1
        self.most = max(self.most, self.coming)
        await asyncio.sleep(0)
        self.coming -= 1
        self.said.append(f"{name} up")
        try:
            yield SimpleNamespace(
                disks=lambda: ("/d",), empty_disks=lambda _: self.said.append(f"{name} emptied"), enter=(), where=name
            )
        finally:
            await run_to_end(self._down(name))
            if number in self.stuck:
                raise HarnessBroken(f"libvirt cannot remove {number}")

    async def _down(self, name: str) -> None:
        await asyncio.sleep(0)
        self.said.append(f"{name} down")

    def ends(self) -> list[str]:
        """Of each machine in turn: that it is up, or down."""
        return [word.rpartition(" ")[2] for word in self.said if not word.endswith(" emptied")]


def test_a_cancelled_run_still_removes_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def nothing(*_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(plan_entries=())

    @contextmanager
    def recorded(_: Path) -> Iterator[tuple[Record, Path]]:
        yield RECORD, tmp_path

    async def made(*_: object) -> None:
        pass

    async def vagrant(_folder: Path, *words: str, deadline: float) -> None:
        assert deadline
        next(one for one in asyncio.all_tasks() if one.get_name() == "run").cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        said.append(words[0])

    fakes = {"record_machine": recorded, "ssh_connection": nothing, "_create": made, "vagrant": vagrant}
    for name, fake in {**fakes, "facts_of": lambda _: {}}.items():
        monkeypatch.setattr(sys.modules["matrix_runner.machines.vagrant.rig"], name, fake)
    monkeypatch.setattr(libvirt, "remove_domain", said.append)

    async def run() -> None:
        async with start_machine(Order(SPEC, Box(name="b"), "qemu", tmp_path, cast("Any", nothing)), lambda *_: None):
            pass

    async def whole() -> None:
        await asyncio.create_task(run(), name="run")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(whole())
    assert said == ["destroy", RECORD.domain]


@pytest.mark.parametrize(
    ("made_of", "there", "waits"),
    [
        (Box(name="matrix/ours", catalogue="/c/box.json"), True, False),
        (Box(name="matrix/ours", catalogue="/c/box.json"), False, True),
        (Box(name="generic/debian12"), True, True),
    ],
)
async def test_only_one_process_uploads_a_box(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made_of: Box, *, there: bool, waits: bool
) -> None:
    """Of a box of ours that is there no other can be brought; of one of the user's own a newer version may be."""
    held: list[bool] = []

    async def vagrant(*_: object, **__: object) -> None:
        with open_lock_file(tmp_path / "cache/vagrant/up.lock") as lock:
            held.append(not try_lock(lock, fcntl.LOCK_EX))

    coming_up = sys.modules["matrix_runner.machines.vagrant.rig"]
    monkeypatch.setattr(coming_up, "vagrant", vagrant)
    monkeypatch.setattr(libvirt, "prepare", lambda: "192.168.131.0/24")
    monkeypatch.setattr(libvirt, "security_models", tuple)
    monkeypatch.setattr(libvirt, "box_volumes", lambda name: [name] if there else [])
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("MATRIX_BOX", "" if made_of.catalogue else made_of.name)
    theirs = tmp_path / "me/uploading"
    theirs.parent.mkdir()
    theirs.write_text("photos")
    order = Order(SPEC, made_of, "qemu", tmp_path, serve_disks)
    await coming_up._create(order, RECORD, tmp_path, [], lambda *_: None)
    assert held == [waits]
    assert [(one.name, one.read_text()) for one in theirs.parent.iterdir()] == [("uploading", "photos")]


async def test_a_machine_stays_for_all_arrays_that_want_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    comes, place = Comes(monkeypatch), Vagrant()
    first = replace(SPEC, kernel="debian-12", cpus=1)
    for modules in (("raid1",), ("raid456",)):
        async with place.rig(replace(first, modules=modules), tmp_path) as rig:
            assert rig.facts["modules"] == ",".join(modules)
    async with place.rig(replace(first, kernel="debian-13"), tmp_path):
        pass
    await place.shut_down()
    one, two = "1 of matrix/debian-12 by qemu", "2 of matrix/debian-13 by qemu"
    assert comes.said == [
        *(f"{one} up", f"{one} emptied", f"{one} emptied", f"{one} down"),
        *(f"{two} up", f"{two} emptied", f"{two} down"),
    ]


@pytest.mark.parametrize("error", [RigLost("it hangs"), asyncio.CancelledError()])
async def test_a_machine_on_which_anything_went_wrong_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    comes, place = Comes(monkeypatch), Vagrant()
    spec = replace(SPEC, cpus=1)
    with pytest.raises(type(error)):
        async with place.rig(spec, tmp_path):
            raise error
    assert comes.said[-1].endswith(" down")
    async with place.rig(spec, tmp_path), place.rig(spec, tmp_path):
        pass
    assert [word.rpartition(" ")[2] for word in comes.said] == ["up", "down", "up", "up", "emptied", "emptied"]
    await place.shut_down()
    assert [word.rpartition(" ")[2] for word in comes.said[-2:]] == ["down", "down"]


@asynccontextmanager
async def side_by_side(place: Vagrant, spec: RigSpec, scratch: Path, count: int) -> AsyncIterator[None]:
    """So many arrays at a time."""
    async with AsyncExitStack() as stack:
        rigs = [stack.enter_async_context(place.rig(spec, scratch)) for _ in range(count)]
        await asyncio.gather(*rigs)
        yield


async def test_machines_side_by_side_are_each_used_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    comes, place = Comes(monkeypatch), Vagrant()
    for count in (3, 2, 3):
        async with side_by_side(place, replace(SPEC, cpus=1), tmp_path, count):
            pass
    assert comes.ends() == ["up"] * 3
    await place.shut_down()
    assert comes.ends() == ["up"] * 3 + ["down"] * 3
    assert len(set(comes.said)) == 3 * 3


async def test_parallel_rigs_remove_each_idle_machine_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    comes, place = Comes(monkeypatch), Vagrant()
    for kernel in ("debian-12", "debian-13"):
        async with side_by_side(place, replace(SPEC, kernel=kernel, cpus=1), tmp_path, 2):
            pass
    assert sorted(word for word in comes.said if word.endswith(" down")) == [
        f"{number} of matrix/debian-12 by qemu down" for number in (1, 2)
    ]
    await place.shut_down()
    assert comes.ends().count("up") == comes.ends().count("down") == 4


async def test_no_more_machines_boot_at_a_time_than_there_are_processors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(package, "this_host", lambda: Host(64 << 30, 2))
    comes, place = Comes(monkeypatch), Vagrant()
    async with side_by_side(place, replace(SPEC, cpus=1), tmp_path, 5):
        pass
    assert comes.most == 2
    await place.shut_down()


@pytest.mark.parametrize("told", [False, True])
async def test_an_error_of_one_machine_does_not_keep_others_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, told: bool
) -> None:
    comes, place = Comes(monkeypatch), Vagrant()
    async with side_by_side(place, replace(SPEC, cpus=1), tmp_path, 3):
        pass
    comes.stuck = set() if told else {1, 2, 3}
    end = asyncio.create_task(place.shut_down())
    await asyncio.sleep(0)
    if told:
        end.cancel()
    with pytest.raises(asyncio.CancelledError if told else HarnessBroken):
        await end
    assert comes.ends().count("down") == 3


def test_a_run_keeps_as_many_machines_as_arrays_are_under_way_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    comes, host = Comes(monkeypatch), Bearing(9)
    bench = Bench(tmp_path, SMALL.replace("[16KiB, 64KiB]", "[16KiB, 32KiB, 64KiB, 128KiB]"))
    spec = rig_spec(bench.plan.selection.space.matrix, bench.plan.selection.space.stacks[0], None)
    monkeypatch.setattr(package, "VagrantRig", lambda *_: BearingRig(spec, plausible, host))
    bench.run(machine=cast("Any", Vagrant()), level=Level.of(2))
    assert {(trial.cell, trial.round) for trial in bench.trials} == bench.planned()
    assert host.most == 2
    assert comes.ends() == ["up", "up", "down", "down"]
    assert not bench.shelf.standing
    bench.journal.close()


def test_there_is_room_for_as_many_as_the_distribution_leaves_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(8 * 512 * MIB, 64)
    monkeypatch.setattr(package, "this_host", lambda: host)
    assert (Vagrant().max_rigs(SPEC), max_machines(SPEC, host)) == (4, 7)
