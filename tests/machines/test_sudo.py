"""A matrix on this very host by somebody who is not root, through a real sudo that allows the one program."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

import pytest

from matrix_runner.hosts.checks import check_disk
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome
from tests.hosts.loops import Bay, bay, why_not
from tests.support.amounts import kill_moments
from tests.support.forked import Forked
from tests.support.local_place import ROOT, RUN, SMALL, Place, placed
from tests.support.runners import killed_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.records.record import Trial

USER = "nobody"
INSTALLED = "/usr/local/libexec/matrix-agent"


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "runner")}


def as_user(*words: str) -> list[str]:
    one = pwd.getpwnam(USER)
    return ["setpriv", f"--reuid={one.pw_uid}", f"--regid={one.pw_gid}", "--clear-groups", *words]


def why_no_sudo() -> str:
    """Why it cannot be tried here; empty if it can."""
    if os.geteuid():
        return "only root may become somebody else"
    if not shutil.which("sudo") or not Path("/etc/sudoers.d").is_dir():
        return "without sudo on this host"
    reads = as_user(sys.executable, "-c", "import matrix_runner.cli")
    if subprocess.run(reads, env=ENVIRONMENT, cwd="/", capture_output=True).returncode:
        return f"{USER} cannot read this checkout and its Python"
    # A container may forbid anybody to become another user.
    tried = subprocess.run(as_user("sudo", "-n", "true"), capture_output=True, text=True)
    return tried.stderr.strip() if "no new privileges" in tried.stderr or "effective uid" in tried.stderr else ""


REASON = why_not() or why_no_sudo()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

#: What sudo may allow, and where its program is, are seen here alone; and a folder of root's tests is this user's. As
#: on a person's own host, sudo allows the user all for a password.
SEAT = """\
set -e
mkdir -p /run/lock /run/local /run/local-work
mount -t overlay none -o lowerdir=/usr/local,upperdir=/run/local,workdir=/run/local-work /usr/local
mount -t tmpfs -o mode=755 none /etc/sudoers.d
printf '%s\\n' 'Defaults logfile=/run/sudo.log' "Defaults $2" >/etc/sudoers.d/log
echo "$3 ALL=(ALL) ALL" >/etc/sudoers.d/people
mount --bind "$1" /mnt
chown -R "$3:" /mnt
"""


class Seat(Place):
    """As root's place, but everything is done by somebody who is not."""

    use = "use_pty"

    def __init__(self, disks: Bay, folder: Path) -> None:
        super().__init__(disks, folder)
        self.disks = disks
        self.root(SEAT, str(folder), self.use, USER)

    def root(self, script: str, *words: str) -> str:
        """What root says there."""
        enter = ["nsenter", "--mount", f"--target={self.holder.pid}", "bash", "-c", script, "bash", *words]
        return subprocess.run(enter, capture_output=True, text=True, check=True).stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        one = pwd.getpwnam(USER)
        return Forked(
            words,
            mounts=self.holder.pid,
            cwd="/mnt",
            env={**ENVIRONMENT, "HOME": "/mnt", "MATRIX_STATE": "/mnt/state"},
            user=one.pw_uid,
            group=one.pw_gid,
            extra_groups=[],
            stdout=PIPE,
            stderr=STDOUT,
            text=True,
        )

    def told(self, *words: str, status: int = 0) -> str:
        runner = self.start(*words)
        output, _ = runner.communicate()
        assert runner.returncode == status, output
        return output

    def set_up(self) -> None:
        """By doing what the doctor says, on a terminal."""
        said = self.told("doctor", "--on", "local", status=3)
        (command,) = re.findall(r": (sudo install .*)", said)
        self.root('exec script -qefc "$1" /dev/null', command)

    def trials(self) -> list[Trial]:
        (run,) = (self.folder / "results").glob("small-*")
        with Journal.open(run / "journal.sqlite") as journal:
            return list(journal.trials())

    def clean(self) -> bool:
        """Nothing of ours is left on the disks or beside them, and what is kept is the user's."""
        assert self.root("ls /run/matrix/far") == ""
        assert not self.disks.mounted(self.root("cat /proc/self/mounts"))
        assert "disk-" not in self.told("clean", "--dry-run")
        mine = pwd.getpwnam(USER).pw_uid
        kept = [path for name in ("results", "state") for path in (self.folder / name).rglob("*")]
        assert {path.lstat().st_uid for path in kept} == {mine}
        return check_disk(self.disks.ask(), self.disks.declared).usable


class Plain(Seat):
    """Where sudo runs a command without a terminal of its own, as it did by itself before 1.9.14."""

    use = "!use_pty"


#: By day, the runs that end well are enough without a terminal of its own.
@pytest.fixture(params=[Seat, pytest.param(Plain, marks=pytest.mark.exhaustive)])
def seat(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Seat]:
    with bay(tmp_path) as disks, placed(disks, tmp_path, SMALL, request.param) as made:
        yield made


def test_the_same_cells_are_measured_and_belong_to_the_user(seat: Seat) -> None:
    seat.set_up()
    # Whether its kernel has md is another question.
    assert INSTALLED not in seat.start("doctor", "--on", "local").communicate()[0]
    found = json.loads(seat.told("disks", "--format", "json"))
    assert [(one["declared"], one["usable"]) for one in found[:2]] == [("disk-a", True), ("disk-b", True)]
    seat.told(*RUN)
    assert [trial.outcome for trial in seat.trials()] == [Outcome.MEASURED] * 4
    assert seat.clean()
    calls = re.findall(rf" : {USER} : .*? COMMAND=(\S+ \S+)", seat.root("tr -s '\\n ' ' ' </run/sudo.log"))
    assert set(calls) == {f"{INSTALLED} {word}" for word in ("ask", "begin")}


@pytest.mark.exhaustive
def test_a_run_killed_at_any_step_resumes_without_leftovers(seat: Seat) -> None:
    seat.set_up()
    for lines in kill_moments(daily=(3,)):
        killed_after(seat.start(*RUN), lines)
    seat.told(*RUN)
    trials = seat.trials()
    assert len({(trial.cell, trial.round) for trial in trials}) == len(trials) == 4
    assert {trial.outcome for trial in trials} == {Outcome.MEASURED}
    assert seat.clean()


def test_a_killed_run_is_cleaned_by_its_own_scripts(seat: Seat) -> None:
    seat.set_up()
    os.mkfifo(seat.folder / "there")
    mine = seat.folder / "templates/measure.sh"
    mine.parent.mkdir()
    mine.write_text((ROOT / "templates/measure.sh").read_text() + "\necho here >/mnt/there; sleep 1000\n")
    runner = seat.start(*RUN, "--templates", "templates", "--only", "layout=fs")
    assert (seat.folder / "there").read_text() == "here\n"
    runner.kill()
    runner.communicate()
    # Loop devices of others that are at work on this machine are told of as well.
    assert seat.start("clean").communicate()[0].count("returned from the run") == 2
    assert seat.clean()


def test_missing_rights_are_reported_before_a_run_exists(seat: Seat) -> None:
    said = seat.told(*RUN, status=2)
    assert f"{USER} may not work on the disks of this host: log in as root" in said
    assert f"cannot be used: {INSTALLED}: No such file or directory: sudo install -D" in said
    seat.set_up()
    seat.root(f"echo >>{INSTALLED}")
    assert "is not the one of this version of matrix" in seat.told(*RUN, status=2)
    seat.root(f"chmod o+w {INSTALLED}")
    assert "can be written by others than root" in seat.told(*RUN, status=2)
    seat.root("rm /usr/local/libexec/* /etc/sudoers.d/zz-matrix-*")
    seat.root(f"install -m 755 {ROOT}/runner/matrix_runner/hosts/agent/agent.py {INSTALLED}")
    said = seat.told(*RUN, status=2)
    assert "without a password: sudo: a password is required" in said
    assert not (seat.folder / "results").exists()


@pytest.mark.skipif(Path("/proc/mdstat").exists(), reason="this host has md")
@pytest.mark.parametrize("may", [False, True])
def test_missing_modules_are_refused_for_each_user(may: bool, seat: Seat) -> None:
    if may:
        seat.set_up()
    (seat.folder / "m.yaml").write_text(
        SMALL.replace("raw: [disk]", "raw: [md: {level: 1}]").replace("  fs: [disk, fs: {type: ext4}]\n", "")
    )
    said = seat.told("run", "--on", "local", "m.yaml", status=2)
    assert "has no raid1, neither built in nor as a module" in said
    assert ("sudo install" in said) != may
    assert not (seat.folder / "results").exists()
