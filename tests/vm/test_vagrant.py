"""Real machines of Vagrant's: modelled disks on every bus, and nothing of ours left or of others touched by any kill."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import process
from matrix_runner.base.cache import cache_dir
from matrix_runner.hosts.checks import check_disk
from matrix_runner.machines.base import RigSpec
from matrix_runner.machines.vagrant import Vagrant, libvirt
from matrix_runner.machines.vagrant.box import PLAN
from matrix_runner.machines.vagrant.rig import command
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from tests.hosts import loops
from tests.support.local_place import Place as Desk
from tests.support.local_place import placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from matrix_runner.records.record import Trial

pytestmark = [pytest.mark.vm, pytest.mark.exhaustive, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
VOLUMES = """\
name: volumes
disks:
  - {count: 1, size: 64MiB, bus: scsi, model: {kind: volume, iops: 400}}
  - {count: 1, size: 64MiB, bus: sata, model: {kind: volume, iops: 400}}
  - {count: 1, size: 64MiB, bus: virtio, model: {kind: volume, iops: 400}}
layouts: {mirror: [md: {level: 1}], striped: [md: {level: 0, chunk: 64KiB}]}
workloads: {work: {rw: randread, bs: 4KiB, iodepth: 4, runtime: 1s, size: 16MiB}}
repeat: 1
"""


@pytest.fixture(autouse=True)
def usable() -> None:
    if refused := Vagrant().refusals(RigSpec((), memory=512 * 2**20)):
        pytest.skip("; ".join(one.brief for one in refused))


class Place:
    """A folder in which a matrix is run, and what of ours is in the world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[subprocess.Popen[str]] = []
        (folder / "m.yaml").write_text(VOLUMES)

    def start(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "runner"), "MATRIX_STATE": str(self.folder / "state")}
        child = subprocess.Popen(
            [sys.executable, "-m", "matrix_runner.cli", *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.children.append(child)
        return child

    def run(self, *words: str) -> subprocess.Popen[str]:
        return self.start("run", "--on", "vagrant", "--json", *words, "m.yaml")

    def said(self, *words: str) -> str:
        child = self.start(*words)
        output, _ = child.communicate()
        assert child.returncode == 0, output
        return output

    def cleaned(self, *words: str) -> str:
        """What `clean` says; it may have something to say of disks that others are at, on the same host."""
        output, _ = self.start("clean", *words).communicate()
        return output

    def trials(self, results: str = "results") -> list[tuple[str, int, Outcome]]:
        (run,) = (self.folder / results).glob("volumes-*")
        with Journal.open(run / "journal.sqlite") as journal:
            return [(trial.cell, trial.round, trial.outcome) for trial in journal.trials()]

    def records(self) -> list[libvirt.Record]:
        """Those of runs in this folder: others may be at work beside this test."""
        found = [libvirt.read_record(folder) for folder in libvirt.home().glob("*/")]
        return [one for one in found if one and one.run.startswith(str(self.folder))]

    def running(self) -> set[str]:
        """Machines of these that libvirt has up."""
        return {one.domain for one in self.records()} & set(libvirt.run_virsh("list", "--name").split())

    def entered(self) -> list[libvirt.Record]:
        """Machines of these that have let their runner in."""
        return [one for one in self.records() if Path(one.sockets, "line").is_socket()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for child in made.children:
        killed(child)
    list(libvirt.sweep())


def waited(child: subprocess.Popen[str], what: object) -> None:
    """Until that is true, or the child ended without."""
    assert callable(what)
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def killed(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGKILL)
        child.communicate()


def below(pid: int) -> Iterator[str]:
    """The command lines of all that it has started."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            try:
                yield Path(f"/proc/{child}/cmdline").read_text()
            except OSError:
                continue
            yield from below(child)


class Theirs:
    """A machine with a name like ours, and a volume of a pool of somebody else's."""

    def __init__(self, folder: Path) -> None:
        self.domain = f"matrix-{secrets.token_hex(4)}-node"
        self.pool = f"theirs-{secrets.token_hex(4)}"
        self.files = folder / "theirs"
        self.files.mkdir()
        (self.files / "photos.img").write_bytes(b"photos" * 1000)
        libvirt.run_virsh("pool-create-as", self.pool, "dir", "--target", str(self.files))
        disk = f"<disk type='file'><source file='{self.files}/photos.img'/><target dev='vda' bus='virtio'/></disk>"
        xml = (
            f"<domain type='qemu'><name>{self.domain}</name><memory unit='MiB'>64</memory>"
            f"<os><type>hvm</type></os><devices>{disk}</devices></domain>"
        )
        libvirt.run_virsh("define", "/dev/stdin", stdin=xml)

    def untouched(self) -> bool:
        there = self.domain in libvirt.run_virsh("list", "--all", "--name").split()
        return there and (self.files / "photos.img").read_bytes() == b"photos" * 1000

    def gone(self) -> None:
        libvirt.virsh("undefine", self.domain)
        libvirt.virsh("pool-destroy", self.pool)


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    made = Theirs(tmp_path)
    yield made
    made.gone()


def test_a_killed_run_resumes_and_leaves_foreign_data(place: Place, theirs: Theirs) -> None:
    coming_up = place.run()
    waited(coming_up, lambda: any(libvirt.carries_mark(one.domain, one.mark) for one in place.records()))
    killed(coming_up)
    (first,) = place.records()
    assert libvirt.carries_mark(first.domain, first.mark)
    assert f"machine {first.domain} of {first.run}: its process is gone" in place.cleaned("--dry-run")

    measuring = place.run()  # takes away what the first has left
    waited(measuring, lambda: list((place.folder / "results").glob("volumes-*/cells/**/fio.json")))
    assert libvirt.carries_mark(first.domain, first.mark) is None
    killed(measuring)
    (second,) = place.records()
    assert f"machine {second.domain} of {second.run}: removed" in place.cleaned()
    assert place.records() == []

    going_down = place.run()
    waited(going_down, lambda: any("vagrant\0destroy" in line for line in below(going_down.pid)))
    killed(going_down)
    last = place.start("run", "--on", "vagrant", "--json", "m.yaml")
    output, _ = last.communicate()
    assert last.returncode == 0, output
    place.cleaned()

    trials = place.trials()
    assert len({(cell, round_number) for cell, round_number, _ in trials}) == len(trials) == 2
    assert {outcome for _, _, outcome in trials} == {Outcome.MEASURED}
    assert place.records() == []
    domains = libvirt.run_virsh("list", "--all", "--name")
    volumes = libvirt.run_virsh("vol-list", libvirt.POOL)
    for one in (first, second):
        assert one.prefix not in domains
        assert one.prefix not in volumes
        assert not Path(one.sockets).exists()
    assert theirs.untouched()


def test_simulated_disks_keep_their_pace_on_each_bus(place: Place) -> None:
    output = place.said("run", "--on", "vagrant", "--json", "m.yaml")
    assert all(json.loads(line) for line in output.splitlines() if line.startswith("{"))
    assert [outcome for _, _, outcome in place.trials()] == [Outcome.MEASURED] * 2
    (run,) = (place.folder / "results").glob("volumes-*")
    tables = [path.read_text() for path in run.glob("cells/**/disks.csv")]
    assert len(tables) == 2
    # A volume of 400 requests a second does no more in whatever time the trial took.
    for path in run.glob("cells/**/fio.json"):
        told = json.loads(path.read_text()[path.read_text().index("{") :])["jobs"][0]["read"]
        assert 0 < told["iops"] < 3 * 400 * 1.3
    assert not place.records()
    assert not list(cache_dir().glob("vagrant/uploading"))


SIDE_BY_SIDE = (
    VOLUMES.replace("chunk: 64KiB", "chunk: [16KiB, 64KiB, 256KiB]").replace("repeat: 1", "repeat: 2")
    + "machine: {memory: 256MiB, cpus: 1}\n"
)


def remaining_seconds(domains: Iterable[str]) -> list[str]:
    """Those that libvirt still has something of."""
    there = f"{libvirt.run_virsh('list', '--all', '--name')}\n{libvirt.run_virsh('vol-list', libvirt.POOL)}"
    return [domain for domain in domains if domain in there]


def test_arrays_side_by_side_have_a_machine_each_which_stays_for_the_next(place: Place, theirs: Theirs) -> None:
    (place.folder / "m.yaml").write_text(SIDE_BY_SIDE)
    killed_with_two = place.run("--jobs", "2")
    waited(killed_with_two, lambda: len(place.entered()) == 2)
    killed(killed_with_two)
    two = place.records()
    assert place.running() == {one.domain for one in two}
    assert len(two) == 2
    said = place.cleaned()
    assert all(f"machine {one.domain} of {one.run}: removed" in said for one in two)
    assert not any(Path(one.sockets).exists() for one in two)
    assert remaining_seconds(one.domain for one in two) == []
    assert place.records() == []

    runner, output, most = place.run("--jobs", "2"), "", 0
    seen: set[str] = set()
    while runner.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            output, _ = runner.communicate(timeout=0.5)
        up = place.running()
        seen |= up
        most = max(most, len(up))
    assert runner.returncode == 0, output
    assert (most, len(seen)) == (2, 2), "two at a time, and no third for all that is left of eight arrays"
    place.said("run", "--on", "dry", "--results", "dry", "m.yaml")
    assert sorted(place.trials()) == sorted(place.trials("dry"))
    assert {outcome for _, _, outcome in place.trials()} == {Outcome.MEASURED}
    assert remaining_seconds(seen) == []
    assert place.records() == []
    assert theirs.untouched()


def test_a_plan_by_hand_may_have_several_machines(tmp_path: Path) -> None:
    prefix = f"matrix-{secrets.token_hex(4)}-"
    disk = {"size": "64M", "bus": "scsi", "serial": "of-each"}
    of_libvirt = {
        "prefix": prefix,
        "pool": libvirt.POOL,
        "network": {"name": libvirt.NETWORK, "address": libvirt.prepare()},
    }
    # Emulated, as that a KVM can be opened does not prove that a machine boots under it.
    each = {"cpus": 1, "memory": 512, "disks": [disk], "driver": "qemu"}
    (tmp_path / PLAN).write_text(json.dumps({"machines": 3, **each, **of_libvirt}))
    names = [f"node-{number}" for number in (1, 2, 3)]
    domains = {f"{prefix}{name}" for name in names}

    def said(*words: str) -> str:
        done = process.run(command(tmp_path, *words), timeout=PATIENCE)
        assert done.returncode == 0, done.stdout
        return done.stdout

    try:
        said("up")
        assert domains <= set(libvirt.run_virsh("list", "--name").split())
        for name in names:
            assert "of-each" in said("ssh", name, "-c", "lsblk --nodeps --noheadings --output SERIAL")
        said("destroy", "-f")
        assert remaining_seconds(domains) == []
    finally:
        for domain in domains:
            libvirt.remove_domain(domain)


PASSED = """\
name: passed
disks: {count: 2, size: 64MiB, bus: scsi}
layouts:
  mirror: [md: {level: 1, metadata: "1.0"}, fs: {type: ext4}]
  volume: [lvm: {stripes: 2}]
workloads: {work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}}
repeat: 1
"""
BY_US = ("run", "--on", "vagrant", "--passthrough", "--json", "--destroy", "disk-a", "--destroy", "disk-b", "m.yaml")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[loops.Bay]:
    if reason := loops.why_not():
        pytest.skip(reason)
    with loops.bay(tmp_path) as made:
        yield made


@pytest.fixture
def desk(disks: loops.Bay, tmp_path: Path) -> Iterator[Desk]:
    with placed(disks, tmp_path, PASSED, Desk) as made:
        # Its namespace has a /run of its own; libvirt listens in the host's.
        made.said("ln", "-s", f"/proc/{os.getpid()}/root/run/libvirt", "/run/libvirt")
        yield made
    list(libvirt.sweep())


def recorded(desk: Desk) -> list[Trial]:
    (run,) = (desk.folder / "results").glob("passed-vagrant-passthrough-*")
    with Journal.open(run / "journal.sqlite") as journal:
        return list(journal.trials())


def all_free(disks: loops.Bay) -> bool:
    """Both are given back, with nothing on them."""
    found = [check_disk(disks.ask(), claim).node for claim in (disks.declared, disks.beside)]
    return all(one and one.label and one.label.state == "free" and not one.signatures for one in found)


def test_disks_of_the_host_are_measured_there_and_come_back(disks: loops.Bay, desk: Desk) -> None:
    runner = desk.start(*BY_US)
    output, _ = runner.communicate()
    assert runner.returncode == 0, output
    assert [(trial.outcome, trial.reason) for trial in recorded(desk)] == [(Outcome.MEASURED, "")] * 4
    assert all_free(disks)


def test_killed_with_an_array_on_disks_of_the_host_they_are_given_back(disks: loops.Bay, desk: Desk) -> None:
    """The machine outlives its runner, but not with the disks: nothing is written on them any more."""
    runner = desk.start(*BY_US, "--only", "layout=mirror")
    assert runner.stdout is not None
    for said in runner.stdout:
        if '"trial"' in said and "measured" in said:
            break
    runner.kill()
    runner.communicate()
    cleaner = desk.start("clean")
    cleaned, _ = cleaner.communicate()
    assert cleaned.count("returned from the run") == 2, cleaned
    assert "removed" in cleaned
    assert all_free(disks)
    again = desk.start(*BY_US, "--only", "layout=mirror")
    output, _ = again.communicate()
    assert again.returncode == 0, output
    assert {trial.outcome for trial in recorded(desk)} == {Outcome.MEASURED}
