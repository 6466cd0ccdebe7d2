"""Arrays and volumes of a run that was killed, on hosts that outlive it: in a container, on a host itself, behind ssh.

With bare disks and file systems that is tested without a machine of its own; these need a kernel that has md.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

import pytest

from tests.support.images import IMAGE, ROOT
from tests.support.lab import Bay, Lab, install_zfs, up

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(3000)]

MATRIX = """\
name: killed
disks: {count: 2, size: 128MiB, bus: scsi}
layouts:
  mirror: [md: {level: 1}]
  nested: [md: {level: 0, chunk: 64KiB}, lvm: {}, fs: {type: ext4}]
  striped: [lvm: {stripes: 2}]
workloads:
  work: {rw: randwrite, bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""
#: Layers whose devices are below other names than those of the disks.
NEWER = """\
name: killed
disks: {hdd: {count: 1, size: 128MiB, bus: scsi}, ssd: {count: 1, size: 128MiB, bus: scsi}}
layouts:
  cached: {on: hdd, layers: [bcache: {cache: ssd, bucket: 64KiB}, fs: {type: ext4}]}
  memory: {on: hdd, layers: [memory: {count: 2, size: 64MiB}, md: {level: 1}]}
  ram: {on: hdd, layers: [memory: {driver: brd, count: 2, size: 64MiB}, md: {level: 0, chunk: 64KiB}]}
  remote: {on: hdd, layers: [nvme-tcp: {}, fs: {type: ext4}]}
  written: {on: hdd, layers: [writecache: {cache: ssd}]}
workloads:
  work: {rw: randwrite, bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""
POOLS = """\
name: pools
disks: {count: 2, size: 128MiB, bus: scsi}
layouts:
  mirror: [zfs: {vdev: mirror, recordsize: [16KiB, 128KiB]}]
  volume: [zfs: {vdev: stripe, type: zvol}, fs: {type: ext4}]
workloads:
  work: {rw: randwrite, bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""
#: Changes a pool behind the back of the program.
MEDDLE = """
for pool in $(zpool list -Ho name); do
  case $pool in matrix-*) zfs set recordsize=64K "$pool" ;; esac
done
"""
HOME = "/root/work"
#: What scripts share with their host wherever they run.
SHARED = "/run/matrix"
#: Where a step waits, if it is told to, for what never comes.
GATE = """
if [ -e {shared}/wait-in-{step} ]; then
  mv {shared}/wait-in-{step} {shared}/waits
  sleep 1000 || true
fi
"""
PATIENCE = 900.0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A host with two disks for us, and a third with volumes of somebody else."""
    with up(tmp_path_factory.mktemp("bench"), Bay(3, 128 * 2**20)) as lab:
        lab.put(f"{HOME}/killed.yaml", MATRIX)
        lab.put(f"{HOME}/pools.yaml", POOLS)
        lab.put(f"{HOME}/hosts.yaml", lab.hosts_yaml())
        for step in ("set-up", "measure", "tear-down"):
            lab.put(f"{HOME}/templates/{step}.sh", gated(step))
        lab.run(f"vgcreate -q theirs {lab.disks[2]} && lvcreate -q -y -n data -L 32M theirs")
        lab.run("mkfs.ext4 -q /dev/theirs/data && sync")
        yield lab


def gated(step: str) -> str:
    return (ROOT / f"templates/{step}.sh").read_text() + GATE.format(shared=SHARED, step=step)


@dataclass
class Inside:
    """In the lab, as root of it."""

    lab: Lab
    folder: Path
    place: str
    matrix: str = "killed"
    settings: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.place == "container":
            self.lab.run(IMAGE, timeout=600)
            self.settings = "MATRIX_CONTAINER_IMAGE=localhost/lab "

    def command(self, *words: str) -> list[str]:
        return self.lab.ssh(f"cd {HOME} && {self.settings}exec matrix {' '.join(words)}")

    def kill(self, runner: subprocess.Popen[str]) -> None:
        self.lab.run("pkill -9 -f '[r]unner.cli run'")
        runner.wait()

    def clean(self) -> list[str]:
        return self.command("clean")

    def table(self) -> str:
        return self.lab.said(f"cat {HOME}/{self.place}/{self.matrix}-*/trials.csv")

    @property
    def environment(self) -> dict[str, str]:
        return dict(os.environ)


@dataclass
class BySudo(Inside):
    """There as well, as somebody who may have nothing but the one program done by root."""

    def __post_init__(self) -> None:
        self.place = "local"
        mine = f"{HOME}/*.yaml {HOME}/templates"
        self.lab.run("id jo || useradd --create-home jo")
        self.lab.run(f"cp -r {mine} ~jo && chown -R jo: ~jo")
        said = subprocess.run(self.command("doctor", "--on", "local"), capture_output=True, text=True).stdout
        self.lab.run(re.findall(r": (sudo install .*)", said)[0])

    def command(self, *words: str) -> list[str]:
        return self.lab.ssh(f"exec runuser -l jo -c {quote(f'exec matrix {join(words)}')}")

    def table(self) -> str:
        assert self.lab.said("find ~jo ! -user jo") == ""
        return self.lab.said(f"cat ~jo/{self.place}/{self.matrix}-*/trials.csv")


@dataclass
class Into:
    """From here into the lab."""

    lab: Lab
    folder: Path
    place: str
    matrix: str = "killed"

    def __post_init__(self) -> None:
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F "{self.lab.ssh_config}" "$@"\n')
        (tools / "ssh").chmod(0o755)
        (self.folder / "hosts.yaml").write_text(self.lab.hosts_yaml("ssh:lab"))
        (self.folder / "killed.yaml").write_text(MATRIX)
        (self.folder / "pools.yaml").write_text(POOLS)
        (self.folder / "templates").mkdir()
        for step in ("set-up", "measure", "tear-down"):
            (self.folder / f"templates/{step}.sh").write_text(gated(step))

    def command(self, *words: str) -> list[str]:
        return ["env", "-C", str(self.folder), sys.executable, "-m", "matrix_runner.cli", *words]

    def kill(self, runner: subprocess.Popen[str]) -> None:
        runner.kill()
        runner.wait()

    def clean(self) -> list[str]:
        return self.command("clean", "--host", "lab")

    def table(self) -> str:
        (table,) = self.folder.glob(f"{self.place}/{self.matrix}-*/trials.csv")
        return table.read_text()

    @property
    def environment(self) -> dict[str, str]:
        tools = f"{self.folder / 'tools'}:{os.environ['PATH']}"
        return {
            **os.environ,
            "PATH": tools,
            "PYTHONPATH": str(ROOT / "runner"),
            "MATRIX_STATE": str(self.folder / "state"),
        }


Place = Inside | Into
PLACES: dict[str, type[Place]] = {"local": Inside, "sudo": BySudo, "container": Inside, "ssh": Into}


def run(place: Place, *more: str) -> list[str]:
    lent = [word for name in place.lab.bay.names()[:2] for word in ("--destroy", name)]
    words = ("--on", place.place, *lent, "--results", place.place, "--templates", "templates", *more)
    return place.command("run", "--json", *words, f"{place.matrix}.yaml")


@contextmanager
def waiting(place: Place, step: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run it until it is in a step, and not a line further."""
    lab = place.lab
    lab.run(f"mkdir -p {SHARED} && rm -f {SHARED}/waits && touch {SHARED}/wait-in-{step}")
    told = (place.folder / f"{step}.log").open("w")
    with (
        told,
        subprocess.Popen(run(place, *more), env=place.environment, stdout=told, stderr=told, text=True) as runner,
    ):
        deadline = time.monotonic() + PATIENCE
        while lab.run(f"test -e {SHARED}/waits", check=False).returncode:
            assert runner.poll() is None, Path(told.name).read_text()
            assert time.monotonic() < deadline, Path(told.name).read_text()
            time.sleep(0.3)
        yield runner


def killed(place: Place, step: str, *more: str) -> None:
    with waiting(place, step, *more) as runner:
        place.kill(runner)


def whole(place: Place, command: list[str]) -> str:
    done = subprocess.run(command, env=place.environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def left(lab: Lab) -> str:
    """What there is of ours that is more than two disks that nobody uses."""
    ours = " ".join(lab.disks[:2])
    return lab.said(
        f"lsblk -nro NAME,TYPE {ours} | grep -v ' disk$' || :; grep ^md /proc/mdstat || :; pgrep -ax 'fio|sleep' || :; "
        "vgs --noheadings -o vg_name | grep -v theirs || :; grep matrix /proc/self/mounts | grep -v /opt/ || :; "
        "podman ps -aq; ls -d /dev/matrix-* /sys/kernel/config/nullb/matrix-* /sys/block/ram* /sys/block/nvme* 2>/dev/null || :; "
        "dmsetup ls --target writecache | grep -v '^No devices' || :; "
        "! command -v zpool >/dev/null || zpool list -Ho name | grep -v theirs || :; ls -d /run/matrix/zfs* 2>/dev/null || :"
    )


@pytest.mark.parametrize("name", PLACES)
def test_a_run_killed_in_each_step_resumes_and_leaves_foreign_data(name: str, bench: Lab, tmp_path: Path) -> None:
    theirs = f"sha256sum <{bench.disks[2]}"
    before = bench.said(theirs)
    place = PLACES[name](bench, tmp_path, name)
    for step in ("set-up", "measure", "tear-down"):
        killed(place, step)
    whole(place, run(place))
    trials = list(csv.DictReader(place.table().splitlines()))
    assert sorted(trial["name"] for trial in trials) == ["mirror/work", "nested/work", "striped/work"]
    assert {trial["outcome"] for trial in trials} == {"measured"}
    assert left(bench) == ""
    killed(place, "measure", "--fresh")
    whole(place, place.clean())
    assert left(bench) == ""
    assert bench.said(theirs) == before


@pytest.mark.parametrize("layout", ["cached", "memory", "ram", "remote", "written"])
def test_newer_layers_of_a_killed_run_go_and_the_run_resumes(layout: str, bench: Lab, tmp_path: Path) -> None:
    place = Into(bench, tmp_path, "ssh")
    (tmp_path / "killed.yaml").write_text(NEWER)
    only = ("--only", f"layout={layout}")
    for step in ("set-up", "measure", "tear-down"):
        killed(place, step, *only)
    whole(place, run(place, *only))
    assert [(trial["name"], trial["outcome"]) for trial in csv.DictReader(place.table().splitlines())] == [
        (f"{layout}/work", "measured")
    ]
    assert left(bench) == ""
    killed(place, "measure", *only, "--fresh")
    whole(place, place.clean())
    assert left(bench) == ""


@pytest.fixture(scope="module")
def pools(bench: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The same host with ZFS, and a pool of somebody else."""
    install_zfs(bench, tmp_path_factory.mktemp("zfs"))
    bench.run("truncate -s 128M /root/theirs && zpool create theirs /root/theirs && echo kept >/theirs/file")
    return bench


@pytest.fixture
def place(request: pytest.FixtureRequest, pools: Lab, tmp_path: Path) -> Place:
    return PLACES[request.param](pools, tmp_path, request.param, "pools")


@pytest.mark.parametrize("place", ["local", "sudo", "ssh"], indirect=True)
def test_pools_of_a_killed_run_go_and_the_run_resumes(place: Place) -> None:
    lab, limits = place.lab, "awk '/^c_m/ { print $1, $3 }' /proc/spl/kstat/zfs/arcstats"
    before = lab.said(limits)
    for step in ("set-up", "measure", "tear-down"):
        killed(place, step)
    whole(place, run(place))
    trials = [(trial["name"], trial["outcome"]) for trial in csv.DictReader(place.table().splitlines())]
    names = ("mirror/recordsize=128KiB/work", "mirror/recordsize=16KiB/work", "volume/work")
    assert sorted(trials) == [(name, "measured") for name in names]
    assert left(lab) == ""
    killed(place, "measure", "--fresh")
    whole(place, place.clean())
    assert left(lab) == ""
    assert lab.said(f"{limits}; cat /theirs/file") == f"{before}kept\n"


@pytest.mark.parametrize("place", ["local", "ssh"], indirect=True)
def test_a_pool_that_was_changed_is_no_result(place: Place) -> None:
    with waiting(place, "set-up", "--fresh", "--only", "layout=mirror", "--results", "changed") as runner:
        place.lab.run(f"{MEDDLE}\npkill -x sleep")
        assert runner.wait(PATIENCE) == 3
    place.place = "changed"
    trials = {trial["outcome"]: trial["reason"] for trial in csv.DictReader(place.table().splitlines())}
    assert sorted(trials) == ["broken", "measured"]
    assert re.search(r"zfs\.recordsize wanted (16384|131072), kernel says 65536", trials["broken"])
    assert left(place.lab) == ""
