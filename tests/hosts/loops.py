"""Loop devices as stand-ins for disks: made for one test, gone after it, and never anybody else's."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.hosts.checks import take_census
from runner.hosts.operations import LocalOperations
from runner.language.hosts import DeclaredDisk
from runner.scripts.jinja import census_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.hosts.inventory import Census

SIZE = 64 << 20

#: Stand in for addpart and delpart, where the host has none.
PARTITION_TOOLS = Path(__file__).parents[1] / "support/partition_tools"


def why_not() -> str:
    """Why this host cannot have them; empty if it can."""
    if os.geteuid():
        return "only root may make loop devices"
    for tool in ("losetup", "mkfs.ext4"):
        if not shutil.which(tool):
            return f"without {tool} on this host"
    found = subprocess.run(["losetup", "--find"], capture_output=True, text=True)
    return "" if found.returncode == 0 else f"this host gives no loop device: {found.stderr.strip()}"


@dataclass(frozen=True)
class Bay:
    """Two disks, a folder in which they have their names, and one to work in."""

    disk: str
    other: str
    names: Path
    work: Path
    file: Path

    @property
    def declared(self) -> DeclaredDisk:
        return DeclaredDisk("disk-a", SIZE, serial=str(self.file))

    @property
    def beside(self) -> DeclaredDisk:
        return DeclaredDisk("disk-b", SIZE, serial=str(self.file.with_name("b")))

    @property
    def locks(self) -> Path:
        return self.work.with_name("locks")

    @property
    def operations(self) -> LocalOperations:
        return LocalOperations(self.locks)

    def ask(self) -> Census:
        """Without what tests beside this one lend, use and give back meanwhile."""
        census = take_census(None, census_script(by_id=str(self.names)))
        own = (f"{self.file.parent}/", "/dev/")
        nodes = {name: node for name, node in census.nodes.items() if not node.backing or node.backing.startswith(own)}
        return replace(census, nodes=nodes)

    def digest(self) -> str:
        """Of the whole file behind the disk, with whatever the kernel has not written yet."""
        device = os.open(self.disk, os.O_RDONLY)
        os.fsync(device)
        os.close(device)
        with self.file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def mounted(self, mounts: str) -> list[str]:
        """What of these is mounted, by the kernel's list: tests beside this one mount loop devices, too."""
        own = tuple(f"{disk}{end}" for disk in (self.disk, self.other) for end in (" ", "p"))
        return [line for line in mounts.splitlines() if line.startswith(own)]

    def bash(self, text: str) -> None:
        settings = {
            "DISK": self.disk,
            "OTHER": self.other,
            "NAMES": str(self.names),
            "NAME": "disk-a",
            "WORK": str(self.work),
        }
        done = subprocess.run(
            ["bash", "-c", f"set -euo pipefail; shopt -s nullglob\n{text}\n"],
            env={**os.environ, **settings, "PATH": f"{os.environ['PATH']}:{PARTITION_TOOLS}"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (text, done.stderr)


def attached(file: Path) -> str:
    done = subprocess.run(
        ["losetup", "--partscan", "--find", "--show", str(file)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@contextmanager
def bay(folder: Path) -> Iterator[Bay]:
    for name in ("names", "work", "locks"):
        (folder / name).mkdir()
    loops = []
    try:
        for name in ("a", "b"):
            with (folder / name).open("wb") as file:
                file.truncate(SIZE)
            loops.append(attached(folder / name))
            (folder / "names" / f"disk-{name}").symlink_to(loops[-1])
        yield Bay(loops[0], loops[1], folder / "names", folder / "work", folder / "a")
    finally:
        for loop in loops:
            subprocess.run(["losetup", "--detach", loop], check=True)
