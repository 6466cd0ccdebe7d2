"""A matrix on a host behind ssh, which is this one: a real sshd, real loop devices, a /run and a /dev of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.disks.real.refusals import judged
from runner.store.journal import Journal
from runner.store.record import Outcome
from tests.disks.loops import Bay, bay, why_not
from tests.ssh.far import NAME, Shelf, why_no_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.store.record import Trial

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
            for claim in (disks.claim, disks.beside)
        )
        (folder / "hosts.yaml").write_text(
            f"hosts:\n  here:\n    reach: local\n  bench:\n    reach: ssh:{NAME}\n    disks:\n{entries}"
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        settings = {"PYTHONPATH": str(ROOT), "PATH": self.shelf.path, "MATRIX_STATE": str(self.folder / "state")}
        return subprocess.Popen(
            [sys.executable, "-m", "runner.cli", *words],
            cwd=self.folder,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def said(self, *words: str, status: int = 0) -> str:
        runner = self.start(*words)
        output, _ = runner.communicate()
        assert runner.returncode == status, output
        return output

    def trials(self) -> list[Trial]:
        (run,) = (self.folder / "results").glob("small-*")
        with Journal.open(run / "journal.sqlite") as journal:
            return list(journal.trials())

    def clean(self) -> bool:
        """Nothing of ours is left over there, neither on disks nor beside them."""
        assert self.shelf.there("ls /run/matrix/far") == ""
        assert "/dev/loop" not in self.shelf.there("cat /proc/self/mounts")
        assert self.said("clean", "--dry-run", "--host", "bench") == ""
        return judged(self.disks.ask(), self.disks.claim).usable


@pytest.fixture
def desk(disks: Bay, tmp_path: Path) -> Iterator[Desk]:
    shelf = Shelf(tmp_path / "ssh", str(disks.names))
    yield Desk(tmp_path / "desk", disks, shelf)
    shelf.close()


def test_the_same_cells_are_measured_over_there(desk: Desk) -> None:
    desk.said(*RUN)
    assert [trial.outcome for trial in desk.trials()] == [Outcome.MEASURED] * 4
    assert len(desk.shelf.connections) == 1
    assert desk.clean()
