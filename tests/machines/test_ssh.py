"""A matrix on a host behind ssh, which is this one: a real sshd, real loop devices, a /run and a /dev of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts.checks import check_disk
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from matrix_runner.records.run_folder import load
from matrix_runner.session.host_facts import query_facts
from tests.hosts.agent.far import NAME, Shelf, why_no_namespace
from tests.hosts.loops import Bay, bay, exchange, why_not
from tests.support.amounts import kill_moments
from tests.support.forked import Forked
from tests.support.runners import killed_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.records.record import Trial

REASON = why_not() or why_no_namespace()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
ROOT = Path(__file__).parents[2]

SMALL = """\
name: small
disks: {count: 2, size: 64MiB}
layouts:
  raw: [disk]
  fs: [disk, fs: {type: ext4}]
workloads:
  work: {rw: [randread, randwrite], bs: 4KiB, iodepth: 4, runtime: 100ms, size: 8MiB}
repeat: 1
"""
RUN = ("run", "--on", "ssh", "--json", "--destroy", "disk-a", "--destroy", "disk-b", "m.yaml")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Bay]:
    with bay(tmp_path) as made:
        yield made


class Desk:
    """Where somebody sits who has a lab: a matrix, a hosts.yaml, and an ssh that knows the way."""

    def __init__(self, folder: Path, disks: Bay, shelf: Shelf) -> None:
        self.folder, self.disks, self.shelf = folder, disks, shelf
        folder.mkdir()
        (folder / "m.yaml").write_text(SMALL)
        entries = "".join(
            f"      - {{id: {claim.id}, serial: '{claim.serial}', size: {claim.size}B}}\n"
            for claim in (disks.declared, disks.beside)
        )
        (folder / "hosts.yaml").write_text(
            f"hosts:\n  here:\n    reach: local\n  bench:\n    reach: ssh:{NAME}\n    disks:\n{entries}"
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        settings = {"PATH": self.shelf.path, "MATRIX_STATE": str(self.folder / "state")}
        environment = {**os.environ, **settings}
        return Forked(words, cwd=self.folder, env=environment, stdout=PIPE, stderr=STDOUT, text=True)

    def said(self, *words: str, status: int = 0) -> str:
        runner = self.start(*words)
        output, _ = runner.communicate()
        assert runner.returncode == status, output
        return output

    def cleaned(self) -> str:
        """What clean says over there; loop devices of others that are at work on this machine are there as well."""
        return self.start("clean", "--host", "bench").communicate()[0]

    def trials(self) -> list[Trial]:
        (run,) = (self.folder / "results").glob("small-*")
        with Journal.open(run / "journal.sqlite") as journal:
            return list(journal.trials())

    def clean(self) -> bool:
        """Nothing of ours is left over there, neither on disks nor beside them."""
        assert self.shelf.there("ls /run/matrix/far") == ""
        assert not self.disks.mounted(self.shelf.there("cat /proc/self/mounts"))
        assert "disk-" not in self.said("clean", "--dry-run", "--host", "bench")
        return check_disk(self.disks.ask(), self.disks.declared).usable


@pytest.fixture
def desk(disks: Bay, tmp_path: Path) -> Iterator[Desk]:
    shelf = Shelf(tmp_path / "ssh", str(disks.names))
    yield Desk(tmp_path / "desk", disks, shelf)
    shelf.close()


def test_the_same_cells_are_measured_over_there(desk: Desk) -> None:
    desk.said(*RUN)
    assert [trial.outcome for trial in desk.trials()] == [Outcome.MEASURED] * 4
    assert len(desk.shelf.connections) == 1
    (run,) = (desk.folder / "results").glob("small-*")
    there, here = load(run).manifest.host, query_facts("")
    for fact in ("kernel", "hostname", "cores", "memory", "cpu", "system", "mitigations", "governor", "turbo"):
        assert getattr(there, fact) == getattr(here, fact)
    assert there.versions["fio"] == here.versions["fio"]
    assert desk.clean()


def test_a_search_finds_the_kernels_of_over_there(desk: Desk) -> None:
    said = desk.said("bisect", "--on", "ssh", "--good", "0.1", "--bad", os.uname().release, "m.yaml", status=2)
    assert "--good 0.1: the host has no such kernel" in said
    assert os.uname().release in said.partition("→")[2]
    assert not (desk.folder / "results").exists()


def test_a_run_killed_at_any_step_resumes_without_leftovers(desk: Desk) -> None:
    """In set-up, in a trial, in tear-down: after so many lines, whatever is under way then."""
    for lines in kill_moments(daily=(3,)):
        killed_after(desk.start(*RUN), lines)
    desk.said(*RUN)
    trials = desk.trials()
    assert len({(trial.cell, trial.round) for trial in trials}) == len(trials) == 4
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert desk.clean()


class Gate:
    """Where a step waits until it is told to go on, over there; it is the same file here."""

    def __init__(self, desk: Desk, template: str) -> None:
        self.there, self.on = desk.folder / "there", desk.folder / "on"
        for pipe in (self.there, self.on):
            os.mkfifo(pipe)
        mine = desk.folder / "templates" / template
        mine.parent.mkdir(parents=True)
        text = (ROOT / "templates" / template).read_text()
        mine.write_text(f"{text}\nif [ -p {self.on} ]; then echo here >{self.there}; cat {self.on}; fi\n")

    def reached(self) -> None:
        assert self.there.read_text() == "here\n"

    def opened(self) -> None:
        """For this step and all that come."""
        with self.on.open("w"):
            self.on.unlink()


@pytest.mark.parametrize("whose", ["connections", "masters"])
def test_a_connection_lost_in_a_trial_costs_no_attempt(desk: Desk, whose: str) -> None:
    gate = Gate(desk, "measure.sh")
    with desk.start(*RUN, "--templates", "templates") as runner:
        gate.reached()
        desk.shelf.cut()
        desk.shelf.drop(whose)
        assert runner.stdout is not None
        heard = [next(line for line in runner.stdout if "dropped; scripts there continue" in line)]
        gate.opened()
        desk.shelf.mend()
        heard += list(runner.stdout)
    assert runner.returncode == 0, heard
    assert any("connected to shelf again" in line for line in heard)
    assert [(trial.outcome, trial.attempts) for trial in desk.trials()] == [(Outcome.MEASURED, 1)] * 4
    assert desk.clean()


def test_lost_locks_end_a_run_that_the_same_command_continues(desk: Desk) -> None:
    gate = Gate(desk, "measure.sh")
    with desk.start(*RUN, "--templates", "templates") as runner:
        gate.reached()
        os.kill(int(desk.shelf.there("cat /run/matrix-locks/disk-*").split()[-1]), signal.SIGKILL)
        output = runner.communicate()[0]
    assert runner.returncode == 3, output
    assert "the lease of the disks of shelf is lost: the disk agent of shelf has ended" in output
    gate.on.unlink()
    desk.said(*RUN, "--templates", "templates")
    assert [trial.outcome for trial in desk.trials()] == [Outcome.MEASURED] * 4
    assert sorted(trial.attempts for trial in desk.trials()) == [1, 1, 1, 2]
    assert desk.clean()


def test_a_run_terminated_without_a_connection_ends_at_once(desk: Desk) -> None:
    gate = Gate(desk, "measure.sh")
    with desk.start(*RUN, "--templates", "templates") as runner:
        gate.reached()
        desk.shelf.cut()
        desk.shelf.drop()
        assert runner.stdout is not None
        assert any("dropped; scripts there continue" in line for line in runner.stdout)
        runner.terminate()
        output = runner.communicate()[0]
    assert runner.returncode == 130, output
    desk.shelf.mend()
    gate.on.unlink()
    # What was left working ends as the same run goes on.
    desk.said(*RUN, "--templates", "templates")
    assert [(trial.outcome, trial.attempts) for trial in desk.trials()] == [(Outcome.MEASURED, 1)] * 4
    assert desk.clean()


def test_a_second_run_does_not_get_leased_disks(desk: Desk) -> None:
    gate = Gate(desk, "measure.sh")
    first = desk.start(*RUN, "--templates", "templates")
    gate.reached()
    second = desk.said(*RUN, "--results", "others", status=2)
    assert "nothing was written" in second
    assert "not returned: it is in use by the run " in desk.cleaned()
    gate.opened()
    output, _ = first.communicate()
    assert first.returncode == 0, output
    assert desk.clean()


def test_a_run_terminated_in_a_set_up_leaves_no_part_of_it(desk: Desk) -> None:
    (desk.folder / "m.yaml").write_text(SMALL.replace("  raw: [disk]\n", ""))
    gate = Gate(desk, "fs/set-up.sh")
    runner = desk.start(*RUN, "--templates", "templates")
    gate.reached()
    runner.terminate()
    output, _ = runner.communicate()
    assert runner.returncode == 130, output
    assert desk.clean()


def test_a_killed_run_is_cleaned_from_afar_by_its_own_scripts(desk: Desk) -> None:
    (desk.folder / "m.yaml").write_text(SMALL.replace("  raw: [disk]\n", ""))
    gate = Gate(desk, "measure.sh")
    runner = desk.start(*RUN, "--templates", "templates")
    gate.reached()
    runner.kill()
    runner.communicate()
    assert "disk-a of ssh:shelf: leased by the run " in desk.said("clean", "--dry-run")
    assert "bench: disk-a: leased by the run " in desk.said("clean", "--dry-run", "--every-host")
    assert desk.cleaned().count("returned from the run") == 2
    assert desk.clean()


def test_an_unreachable_host_is_reported_before_a_run_exists(desk: Desk) -> None:
    desk.shelf.cut()
    said = desk.said("run", "--on", "ssh", "m.yaml", status=3)
    assert "shelf cannot be reached by ssh" in said
    assert not (desk.folder / "results").exists()
    said = desk.said("run", "--on", "ssh:here", "m.yaml", status=2)
    assert "hosts.yaml has no ssh host called here" in said
    assert "cannot be reached by ssh" in desk.said("doctor", "--on", "ssh:bench", status=3)


def test_doctor_lists_programs_of_a_host(desk: Desk) -> None:
    for name in ("bench", NAME):
        said = desk.said("doctor", "--on", f"ssh:{name}")
        assert "ssh       ready\n" in said
        assert f"kernel    {os.uname().release}\n" in said
        assert "lacks     " in said
        assert "lacks     smartctl" not in said
        there = desk.shelf.there("PATH=$PATH:/usr/sbin:/sbin; command -v smartctl || :")
        assert ("optional  smartctl (apt install smartmontools)" in said) == (there == "")


def test_the_disks_of_a_host_are_shown(desk: Desk) -> None:
    said = desk.said("disks", "--host", "bench", "--format", "json")
    assert [(one["declared"], one["usable"]) for one in json.loads(said)[:2]] == [("disk-a", True), ("disk-b", True)]


def test_no_night_has_more_than_it_may_while_the_line_is_down(desk: Desk) -> None:
    """By whomever it is written: the trial is ended over there, and the run as soon as it hears of that."""
    (desk.folder / "m.yaml").write_text(SMALL.replace("  fs: [disk, fs: {type: ext4}]\n", ""))
    text = (desk.folder / "hosts.yaml").read_text()
    (desk.folder / "hosts.yaml").write_text(text.replace("id: disk-a,", "id: disk-a, wear: 100MiB,"))
    gate = Gate(desk, "measure.sh")
    with desk.start(*RUN, "--templates", "templates") as runner:
        gate.reached()
        desk.shelf.cut()
        desk.shelf.drop()
        assert runner.stdout is not None
        assert any("dropped; scripts there continue" in line for line in runner.stdout)
        for _ in range(2):
            desk.disks.bash('dd if=/dev/zero of="$DISK" bs=1M count=64 oflag=direct status=none')
        while desk.shelf.there(f"pgrep -f 'cat [/]{str(gate.on)[1:]}' || :"):  # the trial, which waits there
            time.sleep(0.05)
        desk.shelf.mend()
        output = runner.communicate()[0]
    assert runner.returncode == 3, output
    assert "stopped for tonight, to limit the wear of disk-a: no bytes are left" in output
    gate.on.unlink()
    assert desk.trials() == []
    assert "the write budget of a disk (`wear:`) is used up for tonight" in desk.said(
        *RUN, "--templates", "templates", status=2
    )
    assert desk.clean()


def test_a_disk_measured_over_ssh_is_exclusive(desk: Desk) -> None:
    gate = Gate(desk, "measure.sh")
    with desk.start(*RUN, "--only", "layout=raw", "--templates", "templates") as runner:
        gate.reached()
        try:
            desk.disks.bash('if mkfs.ext4 -q -F "$DISK" || wipefs --all "$DISK"; then exit 1; fi')
        finally:
            gate.opened()
        output = runner.communicate()[0]
    assert runner.returncode == 0, output
    assert desk.clean()
    os.close(os.open(desk.disks.disk, os.O_RDONLY | os.O_EXCL))


def test_a_remote_disk_taken_before_its_trial_is_not_written(desk: Desk) -> None:
    gate = Gate(desk, "disk/set-up.sh")
    with desk.start(*RUN, "--only", "layout=raw", "--templates", "templates") as runner:
        gate.reached()
        device = os.open(desk.disks.disk, os.O_RDONLY | os.O_EXCL)
        before = desk.disks.digest()
        gate.opened()
        output = runner.communicate()[0]
    assert desk.disks.digest() == before
    os.close(device)
    assert runner.returncode == 3, output
    assert {trial.outcome for trial in desk.trials()} == {Outcome.BROKEN}
    busy = f"disk-a is busy: {desk.disks.disk} is opened exclusively by process {os.getpid()} ("
    assert all(busy in trial.reason for trial in desk.trials())
    desk.cleaned()
    assert desk.clean()


def test_a_disk_that_replaces_a_leased_one_is_refused(desk: Desk) -> None:
    """Of the same size, under the same name and number, while it is built on and nobody holds it."""
    (desk.folder / "m.yaml").write_text(SMALL.replace("  fs: [disk, fs: {type: ext4}]\n", ""))
    other = desk.folder / "other"
    with other.open("wb") as file:
        file.truncate(desk.disks.declared.size)
    gate = Gate(desk, "disk/set-up.sh")
    with desk.start(*RUN, "--templates", "templates") as runner:
        gate.reached()
        exchange(desk.disks.disk, other)
        gate.opened()
        output = runner.communicate()[0]
    assert runner.returncode == 3, output
    assert "a disk of shelf was replaced by another disk" in output
    assert "its diskseq was" in output
    assert not any(other.read_bytes())
