"""Disk operations on this host. The kernel releases locks and exclusive opens when the process is killed."""

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
#: NVMe targets of the kernel: they have devices open without a process.
TARGETS = Path("/sys/kernel/config/nvmet/subsystems")
#: Tries, and seconds between them, while a lock or device is held by a process that is exiting or cannot be seen.
OPEN_TRIES, OPEN_PAUSE = 20, 0.1
_SIZE, _SEQUENCE, _REREAD = 0x80081272, 0x80081280, 0x125F  # BLKGETSIZE64, BLKGETDISKSEQ, BLKRRPART


@dataclass(frozen=True, slots=True)
class Descriptor:
    number: int

    def close(self) -> None:
        os.close(self.number)

    def identify(self) -> Mapping[str, str]:
        device = os.fstat(self.number).st_rdev
        (size,) = struct.unpack("Q", fcntl.ioctl(self.number, _SIZE, bytes(8)))
        found = {"number": f"{os.major(device)}:{os.minor(device)}", "size": str(size)}
        with suppress(OSError):  # since Linux 5.15
            (sequence,) = struct.unpack("Q", fcntl.ioctl(self.number, _SEQUENCE, bytes(8)))
            found["sequence"] = str(sequence)
        return found

    def write(self, block: bytes, at: int) -> None:
        again = self.writable()
        try:
            os.pwrite(again, block, at)
            os.fsync(again)
        finally:
            os.close(again)

    def writable(self) -> int:
        """Return another descriptor of the same device, for writing; the caller closes it."""
        return os.open(f"/proc/self/fd/{self.number}", os.O_RDWR | os.O_CLOEXEC)

    def reread_partitions(self) -> None:
        try:
            fcntl.ioctl(self.number, _REREAD)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the device cannot have partitions
                raise


@dataclass(frozen=True, slots=True)
class LocalOperations:
    """`locks` is the folder that all runs of this host share."""

    locks: Path = LOCKS

    def lock(self, identity: str, run: str) -> tuple[Descriptor | None, str]:
        """Return the lock as a descriptor: a process that inherits it keeps the disk locked."""
        return take_lock(identity, self.locks, run)

    def open(self, node: Node) -> Descriptor:
        return Descriptor(os.open(node.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))

    def find_users(self, dev: str, *, writing: bool = False) -> str:
        return find_users(dev, writing=writing)

    def hidden_processes(self) -> str:
        return "" if os.geteuid() == 0 else "processes of other users"

    def run(self, script: str, patience: float) -> str:
        """Run the script as a child that is killed with this process, as the lock is released then."""
        # Only root can have a process namespace, and only root can take anything apart.
        alone = process.PID_NAMESPACE if os.geteuid() == 0 else ()
        try:
            done = process.run(
                process.dies_with_parent([*alone, "bash", "-c", 'eval "$(cat)"']), stdin=script, timeout=patience
            )
        except process.TimedOut:
            return f"it did not end within {patience:g} s"
        return (done.stderr.strip()[-500:] or f"status {done.returncode}") if done.returncode else ""

    def dismiss(self, run: str) -> None:
        """Do nothing: no local script outlives its runner."""


LOCAL = LocalOperations()


def lock_name(identity: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", identity)


def take_lock(identity: str, locks: Path, run: str) -> tuple[Descriptor | None, str]:
    descriptor = _open_lock_file(locks, lock_name(identity))
    for left in reversed(range(OPEN_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            said = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            if left and _is_dead(said):
                time.sleep(OPEN_PAUSE)
                continue
            os.close(descriptor)
            return None, said or "another run"
    with suppress(OSError):  # the lock holds even if the disk has no room for the holder's name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{f'the run {run}, ' if run else ''}process {os.getpid()}\n".encode(), 0)
    return Descriptor(descriptor), ""


def _is_dead(holder: str) -> bool:
    """The holder was killed, but a virtual machine that inherited its lock is still exiting."""
    found = re.search(r"process (\d+)$", holder)
    return found is not None and not Path("/proc", found[1]).exists()


def untrusted_locks(locks: Path | str, where: str, why: str) -> HarnessBroken:
    return HarnessBroken(
        f"the locks of disks in {locks}{where} cannot be trusted: {why}",
        details="a user who can delete a lock file could let two runs use one disk, so no disk was used",
        resolution="check who created it; then, as root and with no run active: "
        f"`rm -r {locks} && install -d -m 1777 {locks}`",
    )


def _lock_folder_flaw(locks: Path) -> str:
    """Return why locks in the folder are unsafe; empty if only root and this user can delete them."""
    found = locks.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if found.st_uid not in {0, os.geteuid()}:
        return f"it belongs to the user {found.st_uid}"
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        return "others may take away what is in it, as it is not sticky"
    return ""


def _open_lock_file(locks: Path, name: str) -> int:
    """Open a lock file that all users can lock: every user who may open the disk has to respect it."""
    try:
        with suppress(FileExistsError):
            locks.mkdir(0o755, parents=True)
            locks.chmod(0o1777)
        if why := _lock_folder_flaw(locks):
            raise untrusted_locks(locks, "", why)
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
            resolution="without the lock two runs could use one disk, so no disk was used; make it writable",
        ) from None


def find_users(dev: str, *, writing: bool = False) -> str:
    major, _, minor = dev.partition(":")
    number = os.makedev(int(major), int(minor))
    folders = [folder for folder in Path("/proc").glob("[0-9]*/fd") if folder.parent.name != str(os.getpid())]
    having = [folder.parent for folder in folders if _has_open(folder, number, writing)]
    return ", ".join((*(f"process {one.name} ({_command(one)})" for one in having), *_nvme_targets(number)))


def find_character_device_users(file: Path) -> str:
    """Return who has a character device open, under any name: containers make their own device nodes."""
    try:
        number = file.stat().st_rdev
    except OSError:
        return ""
    folders = [folder for folder in Path("/proc").glob("[0-9]*/fd") if _has_character_device_open(folder, number)]
    return ", ".join(f"process {one.parent.name} ({_command(one.parent)})" for one in folders)


def _has_character_device_open(folder: Path, number: int) -> bool:
    def leads_there(link: Path) -> bool:
        try:
            found = link.stat()
        except OSError:
            return False  # it was closed meanwhile
        return stat.S_ISCHR(found.st_mode) and found.st_rdev == number

    try:
        return any(leads_there(link) for link in folder.iterdir())
    except OSError:
        return False  # the process ended, or belongs to another user


def _nvme_targets(number: int) -> Iterator[str]:
    """Yield NVMe targets that export the device. They do not open it exclusively and have no visible descriptor."""
    for space in sorted(TARGETS.glob("*/namespaces/*")):
        with suppress(OSError):  # its file or device is gone
            found = Path((space / "device_path").read_text(errors="surrogateescape").strip()).stat()
            enabled = (space / "enable").read_text(encoding="ascii").strip() == "1"
            if enabled and _is_device(found, number):
                yield f"the NVMe target {space.parents[1].name}"


def _has_open(folder: Path, number: int, writing: bool) -> bool:
    try:
        return any(_is_open(link, number, writing) for link in folder.iterdir())
    except OSError:
        return False  # the process ended, or belongs to another user


def _is_open(link: Path, number: int, writing: bool) -> bool:
    try:
        found = link.stat()
        if not _is_device(found, number):
            return False
        info = (link.parents[1] / "fdinfo" / link.name).read_text(encoding="ascii")
    except OSError:
        return False  # it was closed meanwhile
    (flags,) = (int(line.split()[1], 8) for line in info.splitlines() if line.startswith("flags:"))
    return not writing or bool(flags & os.O_ACCMODE)


def _is_device(found: os.stat_result, number: int) -> bool:
    return stat.S_ISBLK(found.st_mode) and found.st_rdev == number


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "which has ended"
