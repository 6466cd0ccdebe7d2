"""A place on this host whose disks are loop devices."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.hosts.loops import HIDE_OTHERS
from tests.support.forked import Forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.hosts.loops import Bay


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


#: The host's /dev stays as it is: what is made in it here is seen here alone.
ALONE = f"""\
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir /run/upper /run/work /run/pts
mount --bind /dev/pts /run/pts
mount -t overlay none -o lowerdir=/dev,upperdir=/run/upper,workdir=/run/work /dev
mount --bind /run/pts /dev/pts
mkdir -p /dev/disk/by-id
mount --bind "$1" /dev/disk/by-id
{HIDE_OTHERS}echo up
exec sleep infinity
"""


class Place:
    """A mount namespace in which the stand-ins have stable names, and nothing of the host's is touched."""

    def __init__(self, disks: Bay, folder: Path) -> None:
        self.folder = folder
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "bash", "-c", ALONE, "bash", str(disks.names)], stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "up\n"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "MATRIX_STATE": f"{self.folder}/state", "MATRIX_MEMORY": f"{self.folder}/memory"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `matrix` there."""
        return Forked(
            words,
            mounts=self.holder.pid,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def said(self, *words: str) -> str:
        """Run another program there, and return its output."""
        line = ["nsenter", "--mount", f"--target={self.holder.pid}", f"--wdns={self.folder}", *words]
        return subprocess.run(line, capture_output=True, text=True, check=True, env=self.environment).stdout


ROOT = Path(__file__).parents[2]


RUN = ("run", "--on", "local", "--json", "--destroy", "disk-a", "--destroy", "disk-b", "m.yaml")


AnyPlace = TypeVar("AnyPlace", bound=Place)


@contextmanager
def placed(disks: Bay, tmp_path: Path, matrix: str, kind: Callable[[Bay, Path], AnyPlace]) -> Iterator[AnyPlace]:
    """A folder with a matrix and a hosts.yaml that allows both disks, in such a place."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "m.yaml").write_text(matrix)
    entries = "".join(
        f"      - {{id: {claim.id}, serial: '{claim.serial}', size: {claim.size}B}}\n"
        for claim in (disks.declared, disks.beside)
    )
    (folder / "hosts.yaml").write_text(f"hosts:\n  here:\n    disks:\n{entries}")
    made = kind(disks, folder)
    yield made
    made.holder.kill()
    made.holder.communicate()


class Gate:
    """Where a script waits until it is told to go on: the end of a template of one's own."""

    def __init__(self, folder: Path, template: str) -> None:
        self.there, self.on = folder / "there", folder / "on"
        for pipe in (self.there, self.on):
            os.mkfifo(pipe)
        own = folder / "own" / template
        own.parent.mkdir(parents=True)
        text = (ROOT / "templates" / template).read_text()
        own.write_text(f"{text}\nif [ -p {self.on} ]; then echo here >{self.there}; cat {self.on}; fi\n")

    def reached(self) -> None:
        assert self.there.read_text() == "here\n"

    def opened(self) -> None:
        """For this one and all that come."""
        with self.on.open("w"):
            self.on.unlink()
