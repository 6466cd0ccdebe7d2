"""Loop devices as stand-ins for disks: made for one test, gone after it, and never anybody else's."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from matrix_runner.hosts.checks import take_census
from matrix_runner.hosts.operations import LocalOperations
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.scripts.jinja import census_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.hosts.inventory import Census

SIZE = 64 << 20
_PART = 64 << 10
_CONTROL = Path("/dev/loop-control")
_LOOP_CTL_ADD, _LOOP_CTL_REMOVE = 0x4C80, 0x4C81  # of linux/loop.h

#: Stand in for addpart and delpart, where the host has none.
PARTITION_TOOLS = Path(__file__).parents[1] / "support/partition_tools"

#: Hides the loop devices of other tests in a mount namespace of bash's own, where `$1` is the folder of the names of a
#: bay: each census of a run would look at their content. /run is a file system of the namespace.
HIDE_OTHERS = """\
mkdir /run/nothing
for file in /sys/devices/virtual/block/loop*/loop/backing_file; do
  backing=
  read -r backing <"$file" || true
  case $backing in
    "${1%/*}"/*) ;;
    *) mount --bind /run/nothing "${file%/loop/*}" || true ;; # it may be gone by now
  esac
done 2>/dev/null
"""


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
        # A device may be gone at any time; `$(<file)` would end the script then.
        backing = 'backing=; { read -r backing <"$path/loop/backing_file" || true; } 2>/dev/null'
        others = f"-n $backing && $backing != {quote(str(self.file.parent))}/* && $backing != /dev/*"
        before = '  attributes "$name"\n'
        script = census_script(by_id=str(self.names))
        assert script.count(before) == 1
        left_out = f"  {backing}\n  if [[ {others} ]]; then continue; fi\n"
        return take_census(None, script.replace(before, left_out + before))

    def digest(self) -> str:
        """Of the whole file behind the disk, with whatever the kernel has not written yet. Only what is no zero is read."""
        device = os.open(self.disk, os.O_RDONLY)
        os.fsync(device)
        os.close(device)
        found = hashlib.sha256(str(self.file.stat().st_size).encode())
        with self.file.open("rb", buffering=0) as stream:
            for place in _written(stream.fileno()):
                if any(part := os.pread(stream.fileno(), _PART, place)):
                    found.update(b"%d:%b" % (place, part))
        return found.hexdigest()

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


def attach(file: Path) -> str:
    """Attach `file` to a loop device of this process: other programs take the lowest free number, these are high."""
    first = 1000 + os.getpid() % 4096 * 16
    for number in range(first, first + 16):
        with _CONTROL.open("rb") as control, suppress(FileExistsError):
            fcntl.ioctl(control, _LOOP_CTL_ADD, number)
        loop = f"/dev/loop{number}"
        if subprocess.run(["losetup", "--partscan", loop, str(file)], capture_output=True).returncode == 0:
            return loop
    raise AssertionError(f"no loop device from {first} to {first + 15} is free")


def exchange(loop: str, file: Path) -> None:
    """Put `file` behind `loop`. A test beside this one that reads all devices delays the detaching a little."""
    subprocess.run(["losetup", "--detach", loop], check=True)
    command = ["losetup", loop, str(file)]
    for _ in range(200):
        if "busy" not in subprocess.run(command, capture_output=True, text=True).stderr:
            return
        time.sleep(0.05)
    raise AssertionError(f"{loop} is still in use")


def detach(loop: str) -> None:
    subprocess.run(["losetup", "--detach", loop], check=True)
    with _CONTROL.open("rb") as control, suppress(OSError):  # a device in use stays, and is free later
        fcntl.ioctl(control, _LOOP_CTL_REMOVE, int(loop.removeprefix("/dev/loop")))


def _written(file: int) -> Iterator[int]:
    """Yield the places of the parts of a sparse file that are no holes."""
    place = 0
    with suppress(OSError):  # there is no more data
        while True:
            place = os.lseek(file, place, os.SEEK_DATA) // _PART * _PART
            yield place
            place += _PART


@contextmanager
def bay(folder: Path) -> Iterator[Bay]:
    for name in ("names", "work", "locks"):
        (folder / name).mkdir()
    loops = []
    try:
        for name in ("a", "b"):
            with (folder / name).open("wb") as file:
                file.truncate(SIZE)
            loops.append(attach(folder / name))
            (folder / "names" / f"disk-{name}").symlink_to(loops[-1])
        yield Bay(loops[0], loops[1], folder / "names", folder / "work", folder / "a")
    finally:
        for loop in loops:
            detach(loop)
