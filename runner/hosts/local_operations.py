"""Disks of this very host: the kernel's locks and exclusive openings, which it takes back from whoever is killed."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.hosts.inventory import Node

LOCKS = Path("/run/lock/matrix")
#: What the kernel itself exports as NVMe: it has devices open, and is no process.
TARGETS = Path("/sys/kernel/config/nvmet/subsystems")
#: How often, and after how many seconds each, what is held by nobody who can be seen is tried once more.
GLANCES, GLANCE = 20, 0.1
_SIZE, _SEQUENCE, _REREAD = 0x80081272, 0x80081280, 0x125F  # BLKGETSIZE64, BLKGETDISKSEQ, BLKRRPART


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One of ours."""

    number: int

    def close(self) -> None:
        """Let it go."""
        os.close(self.number)

    def seen(self) -> Mapping[str, str]:
        """What the kernel says of what is open."""
        device = os.fstat(self.number).st_rdev
        (size,) = struct.unpack("Q", fcntl.ioctl(self.number, _SIZE, bytes(8)))
        found = {"number": f"{os.major(device)}:{os.minor(device)}", "size": str(size)}
        with suppress(OSError):  # since Linux 5.15
            (sequence,) = struct.unpack("Q", fcntl.ioctl(self.number, _SEQUENCE, bytes(8)))
            found["sequence"] = str(sequence)
        return found

    def write(self, block: bytes, at: int) -> None:
        """By another descriptor of the very same device, whatever has its name now."""
        again = self.writable()
        try:
            os.pwrite(again, block, at)
            os.fsync(again)
        finally:
            os.close(again)

    def writable(self) -> int:
        """Another descriptor of the very same device, for writing; to be closed by whoever asks."""
        return os.open(f"/proc/self/fd/{self.number}", os.O_RDWR | os.O_CLOEXEC)

    def reread(self) -> None:
        """Nobody but us may make the kernel look again, as nobody but us has the disk."""
        try:
            fcntl.ioctl(self.number, _REREAD)
        except OSError as error:
            if error.errno != errno.EINVAL:  # that is one which can have no partitions
                raise


@dataclass(frozen=True, slots=True)
class Here:
    """Of this host; `locks` is where everybody's are."""

    locks: Path = LOCKS

    def lock(self, identity: str, run: str) -> tuple[Descriptor | None, str]:
        """As a descriptor: whoever inherits it keeps the disk locked as long as it works on it."""
        return locked(identity, self.locks, run)

    def open(self, node: Node) -> Descriptor:
        """Alone."""
        return Descriptor(os.open(node.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))

    def who_has(self, dev: str, *, writing: bool = False) -> str:
        """As `/proc` tells."""
        return who_has(dev, writing=writing)

    def unseen(self) -> str:
        """Only root may look into everybody's."""
        return "" if os.geteuid() == 0 else "processes of other users"

    def run(self, script: str, patience: float) -> str:
        """As a child of ours that ends with us, and all that it started with it: the disk is not locked any more."""
        # Only root may have it alone, and nobody else can take anything apart.
        alone = process.ALONE if os.geteuid() == 0 else ()
        try:
            done = process.run(
                process.dies_with_parent([*alone, "bash", "-c", 'eval "$(cat)"']), stdin=script, timeout=patience
            )
        except process.TookTooLong:
            return f"it did not end within {patience:g} s"
        return (done.stderr.strip()[-500:] or f"status {done.returncode}") if done.returncode else ""

    def dismiss(self, run: str) -> None:
        """Nothing here outlives its runner."""


HERE = Here()


def plain(identity: str) -> str:
    """As the name of a file."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", identity)


def locked(identity: str, locks: Path, run: str) -> tuple[Descriptor | None, str]:
    """The lock of a disk, or None and who has it."""
    descriptor = _lock_file(locks, plain(identity))
    for left in reversed(range(GLANCES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            said = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            if left and _has_ended(said):
                time.sleep(GLANCE)
                continue
            os.close(descriptor)
            return None, said or "another run"
    with suppress(OSError):  # where there is no room for who has it, it is had all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{f'the run {run}, ' if run else ''}process {os.getpid()}\n".encode(), 0)
    return Descriptor(descriptor), ""


def _has_ended(holder: str) -> bool:
    """It was killed, and a virtual machine that inherited the lock from it is dying after it."""
    found = re.search(r"process (\d+)$", holder)
    return found is not None and not Path("/proc", found[1]).exists()


def distrusted(locks: Path | str, where: str, why: str) -> HarnessBroken:
    """No lock there would keep anybody out."""
    return HarnessBroken(
        f"the locks of disks in {locks}{where} cannot be trusted: {why}",
        details="whoever may take a lock's file away lets two runs have one disk, so nothing was used",
        resolution=f"look who made it; as root, once no run works there: `rm -r {locks} && install -d -m 1777 {locks}`",
    )


def _why_distrusted(locks: Path) -> str:
    """Why a lock in it would be none; empty if nobody but root and we can take its file away."""
    found = locks.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if found.st_uid not in {0, os.geteuid()}:
        return f"it belongs to the user {found.st_uid}"
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        return "others may take away what is in it, as it is not sticky"
    return ""


def _lock_file(locks: Path, name: str) -> int:
    """Everybody's, as the folder is: a lock that only root may take keeps out nobody else who may open the disk."""
    try:
        with suppress(FileExistsError):
            locks.mkdir(0o755, parents=True)
            locks.chmod(0o1777)
        if why := _why_distrusted(locks):
            raise distrusted(locks, "", why)
        path = locks / f"disk-{name}"
        # Not created where it exists: kernels refuse that for other users' files in such a folder.
        with suppress(FileExistsError):
            made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
            os.fchmod(made, 0o666)
            os.close(made)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise HarnessBroken(
            f"the lock of a disk cannot be taken: {error.strerror}",
            details=str(error.filename),
            resolution="without it two runs could use one disk, so nothing was used; make the folder writable",
        ) from None


def who_has(dev: str, *, writing: bool = False) -> str:
    """Who has a device open, or open for writing, as far as one may look; the kernel itself may, too."""
    major, _, minor = dev.partition(":")
    number = os.makedev(int(major), int(minor))
    folders = [folder for folder in Path("/proc").glob("[0-9]*/fd") if folder.parent.name != str(os.getpid())]
    having = [folder.parent for folder in folders if _has(folder, number, writing)]
    return ", ".join((*(f"process {one.name} ({_command(one)})" for one in having), *_exports(number)))


def users_of(file: Path) -> str:
    """Who has a device of characters open, as far as one may look, under whichever name: containers make their own."""
    try:
        number = file.stat().st_rdev
    except OSError:
        return ""
    folders = [folder for folder in Path("/proc").glob("[0-9]*/fd") if _has_characters(folder, number)]
    return ", ".join(f"process {one.parent.name} ({_command(one.parent)})" for one in folders)


def _has_characters(folder: Path, number: int) -> bool:
    def leads_there(link: Path) -> bool:
        try:
            found = link.stat()
        except OSError:
            return False  # it was closed
        return stat.S_ISCHR(found.st_mode) and found.st_rdev == number

    try:
        return any(leads_there(link) for link in folder.iterdir())
    except OSError:
        return False  # it ended, or is somebody else's


def _exports(number: int) -> Iterator[str]:
    """Targets of NVMe, which neither ask to be alone with a device nor have a descriptor of it."""
    for space in sorted(TARGETS.glob("*/namespaces/*")):
        with suppress(OSError):  # its file or device is gone
            found = Path((space / "device_path").read_text(errors="surrogateescape").strip()).stat()
            enabled = (space / "enable").read_text(encoding="ascii").strip() == "1"
            if enabled and _is_device(found, number):
                yield f"the NVMe target {space.parents[1].name}"


def _has(folder: Path, number: int, writing: bool) -> bool:
    try:
        return any(_is_open(link, number, writing) for link in folder.iterdir())
    except OSError:
        return False  # it ended, or is somebody else's


def _is_open(link: Path, number: int, writing: bool) -> bool:
    try:
        found = link.stat()
        if not _is_device(found, number):
            return False
        info = (link.parents[1] / "fdinfo" / link.name).read_text(encoding="ascii")
    except OSError:
        return False  # it was closed
    (flags,) = (int(line.split()[1], 8) for line in info.splitlines() if line.startswith("flags:"))
    return not writing or bool(flags & os.O_ACCMODE)


def _is_device(found: os.stat_result, number: int) -> bool:
    return stat.S_ISBLK(found.st_mode) and found.st_rdev == number


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "which has ended"
