"""Machines of Vagrant's, without any: what is asked for, what is refused, and what is ours of what is left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from xml.etree import ElementTree

import pytest

import matrix_runner.machines.vagrant as package
from matrix_runner.base.children import run_to_end
from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.cli import cli
from matrix_runner.decide.concurrency import Level
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.inventory import Node
from matrix_runner.hosts.operations import LOCAL, Descriptor
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.machines.base import Refusal, RigLost, RigSpec
from matrix_runner.machines.dry import plausible
from matrix_runner.machines.qemu.argv import DiskProperties
from matrix_runner.machines.qemu.host import Host, max_machines
from matrix_runner.machines.rig_specs import rig_spec
from matrix_runner.machines.vagrant import Passthrough, Vagrant, box, refuse_large_sectors, spec_refusals
from matrix_runner.machines.vagrant.box import (
    Box,
    temporary_disk,
)
from matrix_runner.machines.vagrant.libvirt import Record
from matrix_runner.machines.vagrant.rig import (
    Order,
    command,
    plan,
    serve_disks,
)
from matrix_runner.simdisks.disk import Disk, Physics
from matrix_runner.simdisks.server import device_command
from tests.support.bearing import Bearing, BearingRig
from tests.support.engine import Bench
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from matrix_runner.machines.base import Progress

MIB = 2**20
SPEC = RigSpec((Disk(64 * MIB, "scsi"), Disk(64 * MIB, "virtio")), cpus=3, memory=512 * MIB)
RECORD = Record("matrix-1a2b3c4d-", "matrix 00ff", "/r/run", "/tmp/matrix-1a2b3c4d-x")
ROOT = Path(__file__).parents[3]


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


def test_the_server_of_a_physical_disk_does_not_cache() -> None:
    line = " ".join(device_command(Path("/s/x"), 9, discards=False))
    assert "--cache=none --aio=native --discard=ignore --socket /s/x /dev/fd/9" in line
    assert "--discard=unmap" in device_command(Path("/s/x"), 9, discards=True)


def test_only_root_may_give_disks_of_the_host_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "only root can pass disks" in " ".join(one.brief for one in Passthrough().refusals(SPEC))


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
    assert "not debian-12-backports" in Vagrant().kernel_refusal("debian-12-backports")
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
