"""Physical disks on a cluster: loop devices of several places, each with a worker, whose processes are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts.checks import check_disk
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST, Outcome
from matrix_runner.records.run_folder import load
from tests.hosts.agent.far import NAME, Shelf, why_no_namespace
from tests.hosts.loops import Bay, bay, why_not
from tests.support.local_place import ROOT, SMALL, Gate, Place
from tests.support.runners import waited_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

RUN = ("run", "--on", "local", "--json")
#: The gate of the tests is in the set-up of file systems.
FILES = SMALL.replace("  raw: [disk]\n", "")
MIRROR = """\
name: small
disks: {count: 2, size: 64MiB, bus: scsi}
layouts:
  files: [md: {level: 1, metadata: "1.0"}, fs: {type: ext4}]
workloads:
  work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""


class Host(Place):
    """A place with a worker, whose hosts.yaml allows runs to destroy its disks."""

    worker: subprocess.Popen[str]
    path = os.environ["PATH"]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": str(ROOT / "runner"), "PATH": self.path}

    def allow(self, disks: Bay, destroy: str = "[disk-a, disk-b]", reach: str = "local", more: str = "") -> None:
        entries = "".join(
            f"      - {{id: {claim.id}, serial: '{claim.serial}', size: {claim.size}B{more}}}\n"
            for claim in (disks.declared, disks.beside)
        )
        rights = f"    reach: {reach}\n    destroy: {destroy}\n"
        (self.folder / "pool.yaml").write_text(f"hosts:\n  here:\n{rights}    disks:\n{entries}")

    def join(self, address: str, name: str) -> None:
        self.worker = self.start("worker", "--cluster", address, "--insecure", "--host", name, "--hosts", "pool.yaml")
        assert self.worker.stdout
        lines = iter(self.worker.stdout.readline, "")
        first = next(line for line in lines if not line.startswith("no connection"))  # the host may be busy
        assert first == f"joined {address} as {name}, with rig=1\n"

    def leave(self) -> None:
        self.worker.terminate()
        self.worker.communicate()

    def batches(self) -> list[int]:
        listed = subprocess.run(["pgrep", "-P", str(self.worker.pid)], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]


@contextmanager
def host(tmp_path: Path, name: str) -> Iterator[tuple[Host, Bay]]:
    (tmp_path / name).mkdir()
    folder = tmp_path / name / "place"
    folder.mkdir()
    with bay(tmp_path / name) as disks:
        made = Host(disks, folder)
        made.allow(disks)
        try:
            yield made, disks
        finally:
            made.holder.kill()
            made.holder.communicate()


@contextmanager
def scheduler(place: Host) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with place.start("cluster", "scheduler", "--cluster", address, "--insecure") as made:
        assert made.stdout
        assert made.stdout.readline() == f"the scheduler listens at {address}\n"
        try:
            yield address
        finally:
            made.terminate()
            made.communicate()


def trials_of(place: Host) -> list[tuple[str, int, Outcome, str]]:
    (run,) = (place.folder / "results").glob("small-*")
    with Journal.open(run / "journal.sqlite") as journal:
        return [(one.cell, one.round, one.outcome, one.notes[HOST]) for one in journal.trials()]


@pytest.fixture
def one(tmp_path: Path) -> Iterator[tuple[Host, Bay]]:
    with host(tmp_path, "one") as made:
        (made[0].folder / "m.yaml").write_text(FILES)
        yield made


def assert_returned(place: Host, disks: Bay) -> None:
    """All trials are recorded once, and nothing is left on the disks or on the host."""
    trials = trials_of(place)
    assert len({(cell, number) for cell, number, _, _ in trials}) == len(trials) == 2
    assert {outcome for _, _, outcome, _ in trials} == {Outcome.MEASURED}
    assert not disks.mounted(place.said("cat", "/proc/self/mounts"))
    assert "disk-" not in place.start("clean", "--dry-run").communicate()[0]
    assert check_disk(disks.ask(), disks.declared).usable


def test_each_host_measures_on_its_own_disks(tmp_path: Path) -> None:
    with host(tmp_path, "one") as (one, first), host(tmp_path, "two") as (two, second), scheduler(one) as address:
        text = SMALL.replace("[randread, randwrite]", "randwrite").replace("repeat: 1", "repeat: 2")
        (one.folder / "m.yaml").write_text(text)
        one.join(address, "one")
        two.join(address, "two")
        run = one.start(*RUN, "--cluster", address, "--insecure", "m.yaml")
        output, _ = run.communicate()
        one.leave()
        two.leave()
        assert run.returncode == 0, output
        trials = trials_of(one)
        assert len({(cell, number) for cell, number, _, _ in trials}) == len(trials) == 4
        assert {outcome for _, _, outcome, _ in trials} == {Outcome.MEASURED}
        assert len({(number, name) for _, number, _, name in trials}) == 2
        (folder,) = (one.folder / "results").glob("small-*")
        pools = {name: [disk.serial for disk in pool] for name, pool in load(folder).manifest.pools.items()}
        expected = {"one": [first.declared.serial, first.beside.serial]}
        expected["two"] = [second.declared.serial, second.beside.serial]
        assert pools == {name: expected[name] for _, _, _, name in trials}
        for disks in (first, second):
            assert check_disk(disks.ask(), disks.declared).usable


def test_a_killed_batch_leaves_no_stack_on_the_disks(one: tuple[Host, Bay]) -> None:
    place, disks = one
    gate = Gate(place.folder, "fs/set-up.sh")
    with scheduler(place) as address:
        place.join(address, "one")
        words = (*RUN, "--cluster", address, "--insecure", "--templates", "own", "m.yaml")
        with place.start(*words) as run:
            gate.reached()
            assert disks.mounted(place.said("cat", "/proc/self/mounts"))
            gate.on.unlink()  # the next set-up does not wait
            (batch,) = place.batches()
            os.kill(batch, signal.SIGKILL)
            output, _ = run.communicate()
        place.leave()
    assert run.returncode == 0, output
    assert "removed what an earlier process of this run left on it" in output
    assert_returned(place, disks)


@pytest.mark.parametrize("part", ["worker", "run"])
def test_a_killed_part_gives_the_disks_back(one: tuple[Host, Bay], part: str) -> None:
    place, disks = one
    gate = Gate(place.folder, "fs/set-up.sh")
    with scheduler(place) as address:
        place.join(address, "one")
        words = (*RUN, "--cluster", address, "--insecure", "--templates", "own", "m.yaml")
        run = place.start(*words)
        gate.reached()
        gate.on.unlink()  # the next set-up does not wait
        if part == "worker":
            place.worker.kill()
            place.worker.communicate()
            place.join(address, "one")
        else:
            run.kill()
            run.communicate()
            run = place.start(*words)
        output, _ = run.communicate()
        place.leave()
    assert run.returncode == 0, output
    assert_returned(place, disks)


def test_clean_returns_what_is_left_if_all_is_killed(one: tuple[Host, Bay]) -> None:
    place, disks = one
    gate = Gate(place.folder, "fs/set-up.sh")
    with scheduler(place) as address:
        place.join(address, "one")
        run = place.start(*RUN, "--cluster", address, "--insecure", "--templates", "own", "m.yaml")
        gate.reached()
        for pid in (run.pid, *place.batches(), place.worker.pid):
            os.kill(pid, signal.SIGKILL)
        run.communicate()
        place.worker.communicate()
    gate.on.unlink()
    assert disks.mounted(place.said("cat", "/proc/self/mounts"))
    output, _ = place.start("clean").communicate()
    assert output.count("; 1 tear-down scripts were run") == 2, output
    assert not disks.mounted(place.said("cat", "/proc/self/mounts"))
    assert check_disk(disks.ask(), disks.declared).usable


def test_the_words_of_a_coordinator_do_not_allow_to_destroy(one: tuple[Host, Bay]) -> None:
    place, disks = one
    place.allow(disks, destroy="[disk-a]")
    before = disks.digest()
    with scheduler(place) as address:
        place.join(address, "one")
        words = (*RUN, "--cluster", address, "--insecure", "m.yaml")
        refused = [place.start(*words).communicate()[0], place.start(*words, "--destroy", "disk-b").communicate()[0]]
        place.leave()
    assert "one: pool.yaml of this worker does not allow runs to destroy what is on disk-b" in refused[0]
    assert "--destroy and --hosts do not work with --cluster" in refused[1]
    assert disks.digest() == before
    assert not (place.folder / "results").exists()


def test_worn_disks_end_the_run_for_tonight(one: tuple[Host, Bay]) -> None:
    place, disks = one
    place.allow(disks, more=", wear: 8MiB")
    with scheduler(place) as address:
        place.join(address, "one")
        run = place.start(*RUN, "--cluster", address, "--insecure", "m.yaml")
        output, _ = run.communicate()
        place.leave()
    assert run.returncode == 2, output
    assert "one: stopped for tonight, to limit the wear of disk-" in output
    assert check_disk(disks.ask(), disks.declared).usable


@pytest.mark.skipif(bool(why_no_namespace()), reason=why_no_namespace())
def test_a_worker_leases_disks_of_a_host_behind_ssh(one: tuple[Host, Bay], tmp_path: Path) -> None:
    place, disks = one
    place.allow(disks, reach=f"ssh:{NAME}")
    shelf = Shelf(tmp_path / "ssh", str(disks.names))
    place.path = shelf.path
    with scheduler(place) as address:
        place.join(address, "shelf")
        run = place.start("run", "--on", "ssh", "--json", "--cluster", address, "--insecure", "m.yaml")
        output, _ = run.communicate()
        place.leave()
    shelf.close()
    assert run.returncode == 0, output
    assert_returned(place, disks)


@pytest.mark.vm
def test_the_disks_of_a_worker_are_passed_through(one: tuple[Host, Bay]) -> None:
    place, disks = one
    (place.folder / "m.yaml").write_text(MIRROR)
    with scheduler(place) as address:
        place.join(address, "one")
        words = ("run", "--passthrough", "--json", "--cluster", address, "--insecure", "m.yaml")
        run = place.start(*words)
        waited_for(run, 5)  # a trial: the next one may run in the guest
        killed = place.batches()
        for batch in killed:
            os.kill(batch, signal.SIGKILL)
        output, _ = run.communicate()
        place.leave()
    assert killed
    assert run.returncode == 0, output
    assert_returned(place, disks)
