"""Disks that are ours alone while we use them: locked, opened exclusively, and looked at a second time once they are.

What was judged may have changed before it was opened. So nothing is written before the opened device has been asked
what it is, and everything about it judged again: from then on nobody who asks the kernel for it gets it.
The kernel takes locks and descriptors back from whoever is killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.disks.real.claims import NOTHING
from runner.disks.real.refusals import Judged, judged_all
from runner.disks.real.why import ADVICE, Refused, Why
from runner.errors import BadInput, HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.disks.real.census import Census, Node
    from runner.disks.real.claims import Claim, Ours

LOCKS = Path("/run/lock/matrix")
#: How often, and after how many seconds each, a disk is tried once more that is held by nobody who can be seen.
GLANCES, GLANCE = 20, 0.1
_SIZE, _SEQUENCE = 0x80081272, 0x80081280  # BLKGETSIZE64, BLKGETDISKSEQ


class DisksRefused(BadInput):
    """At least one of the disks is not used; nothing was written on any."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self.judged = tuple(judged)
        self.refusals = tuple(refused for one in judged for refused in one.refusals)
        refused = [one for one in judged if one.refusals]
        of = f"{len(judged)} disk{'s' if len(judged) != 1 else ''}"
        super().__init__(
            f"{len(refused)} of {of} cannot be used; nothing was written",
            details="\n".join(f"  {one.claim.id}: {why}" for one in refused for why in one.refusals),
            resolution="; ".join(dict.fromkeys(ADVICE[why.why] for why in self.refusals)),
        )


@dataclass
class Held:
    """A disk that is ours alone."""

    claim: Claim
    node: Node
    #: Whoever inherits it keeps the disk locked as long as it works on it.
    lock: int
    #: Opened for reading, exclusively; None once it was let go.
    exclusive: int | None = None

    def let_go(self) -> None:
        """Let the kernel's own drivers and mkfs have it, which want it exclusively themselves; the lock stays."""
        if self.exclusive is not None:
            os.close(self.exclusive)
            self.exclusive = None

    def take_again(self) -> None:
        """Have it exclusively once more, once nothing stands on it any more; DisksRefused if something does."""
        if self.exclusive is not None:
            return
        try:
            self.exclusive = _opened(self.node)
            changes = tuple(_another(self.node, self.exclusive))
        except OSError as error:
            changes = (_not_opened(self.node, error),)
        if changes:
            self.let_go()
            raise DisksRefused([Judged(self.claim, self.node, changes)])

    def writable(self) -> int:
        """Another descriptor of the very same device, for writing; to be closed by whoever asks."""
        if self.exclusive is None:
            raise ValueError(f"{self.claim.id} was let go: who knows who has it now")
        return os.open(f"/proc/self/fd/{self.exclusive}", os.O_RDWR | os.O_CLOEXEC)


@contextmanager
def held(
    claims: Sequence[Claim],
    ask: Callable[[], Census],
    *,
    ours: Ours = NOTHING,
    purpose: str | None = None,
    locks: Path = LOCKS,
) -> Iterator[tuple[Held, ...]]:
    """Have these disks, all of them, or raise DisksRefused with everything that speaks against any. Writes on none."""
    first = _unless_refused(judged_all(ask(), tuple(claims), ours, purpose))
    with ExitStack() as stack:
        taken = [_taken(one, locks, stack, ours.run) for one in first]
        _unless_refused([Judged(one.claim, one.node, why) for one, (_, why) in zip(first, taken, strict=True)])
        second = judged_all(ask(), tuple(claims), ours, purpose)
        _unless_refused([_unchanged(*pair) for pair in zip(first, second, strict=True)])
        yield tuple(have for have, _ in taken if have)


def _unless_refused(judged: Sequence[Judged]) -> Sequence[Judged]:
    if any(one.refusals for one in judged):
        raise DisksRefused(judged)
    return judged


def _taken(one: Judged, locks: Path, stack: ExitStack, run: str) -> tuple[Held | None, tuple[Refused, ...]]:
    """Locked, and opened as what was judged; or why not."""
    node = one.node
    if node is None:
        raise ValueError(f"{one.claim.id} was not found, and is to be opened")
    lock, holder = locked(node.identity, locks, run)
    if lock is None:
        return None, (Refused(Why.LOCKED, f"{node.path} is used by {holder}"),)
    stack.callback(os.close, lock)
    have = Held(one.claim, node, lock)
    stack.callback(have.let_go)
    try:
        have.exclusive = _opened(node)
    except OSError as error:
        return None, (_not_opened(node, error),)
    return have, (*_another(node, have.exclusive), *_written_by_others(node))


def _opened(node: Node) -> int:
    """For reading, and alone. After every change udev's programs look at a disk, alone too, but only for a moment."""
    for left in reversed(range(GLANCES)):
        try:
            return os.open(node.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise
            time.sleep(GLANCE)
    raise AssertionError("unreachable")


def _not_opened(node: Node, error: OSError) -> Refused:
    if error.errno == errno.EBUSY:
        return Refused(Why.BUSY, f"{node.path} is held exclusively by {who_has(node.dev) or 'the kernel'}")
    why = Why.CHANGED if error.errno in {errno.ENOENT, errno.ENXIO, errno.ENODEV} else Why.UNREADABLE
    return Refused(why, f"{node.path} cannot be opened: {error.strerror}")


def _another(node: Node, descriptor: int) -> Iterator[Refused]:
    """Is what was opened what was judged? Numbers and names are given anew; the sequence never is."""
    number = os.fstat(descriptor).st_rdev
    (size,) = struct.unpack("Q", fcntl.ioctl(descriptor, _SIZE, bytes(8)))
    found = {"number": f"{os.major(number)}:{os.minor(number)}", "size": str(size)}
    meant = {"number": node.dev, "size": str(node.size)}
    if node.sequence:
        (sequence,) = struct.unpack("Q", fcntl.ioctl(descriptor, _SEQUENCE, bytes(8)))
        found["sequence"], meant["sequence"] = str(sequence), node.sequence
    for what, value in meant.items():
        if found[what] != value:
            yield Refused(Why.CHANGED, f"{node.path} had the {what} {value} when it was judged, now {found[what]}")


def _written_by_others(node: Node) -> Iterator[Refused]:
    """Not everybody who writes on a disk asks to be alone with it: virtual machines do not."""
    if writers := who_has(node.dev, writing=True):
        yield Refused(Why.BUSY, f"{node.path} is open for writing by {writers}")


def _unchanged(before: Judged, after: Judged) -> Judged:
    """What is judged again is the device that was opened, or it is refused."""
    was, now, name = before.node, after.node, before.claim.id
    if was is None or now is None:
        return Judged(before.claim, was, (Refused(Why.CHANGED, f"{name} leads to nothing any more"), *after.refusals))
    if was.dev != now.dev:
        moved = f"{name} led to {was.path} ({was.dev}), and now leads to {now.path} ({now.dev})"
        return Judged(before.claim, was, (Refused(Why.CHANGED, moved), *after.refusals))
    if after.refusals:
        return Judged(before.claim, was, (Refused(Why.CHANGED, f"{name} was free a moment ago"), *after.refusals))
    return after


def locked(identity: str, locks: Path, run: str) -> tuple[int | None, str]:
    """The lock of a disk as a descriptor, or None and who has it. By what the disk is, whatever it is called."""
    descriptor = _lock_file(locks, re.sub(r"[^A-Za-z0-9_-]+", "_", identity))
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
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{f'the run {run}, ' if run else ''}process {os.getpid()}\n".encode(), 0)
    return descriptor, ""


def _has_ended(holder: str) -> bool:
    """It was killed, and a virtual machine that inherited the lock from it is dying after it."""
    found = re.search(r"process (\d+)$", holder)
    return found is not None and not Path("/proc", found[1]).exists()


def _lock_file(locks: Path, name: str) -> int:
    """Everybody's, as the folder is: a lock that only root may take keeps out nobody else who may open the disk."""
    try:
        with suppress(FileExistsError):
            locks.mkdir(parents=True)
            locks.chmod(0o1777)
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
    """The processes that have a device open, or open for writing, as far as one may look."""
    major, _, minor = dev.partition(":")
    number = os.makedev(int(major), int(minor))
    folders = [folder for folder in Path("/proc").glob("[0-9]*/fd") if folder.parent.name != str(os.getpid())]
    having = [folder.parent for folder in folders if _has(folder, number, writing)]
    return ", ".join(f"process {one.name} ({_command(one)})" for one in having)


def _has(folder: Path, number: int, writing: bool) -> bool:
    try:
        return any(_is_open(link, number, writing) for link in folder.iterdir())
    except OSError:
        return False  # it ended, or is somebody else's


def _is_open(link: Path, number: int, writing: bool) -> bool:
    try:
        found = link.stat()
        if not (stat.S_ISBLK(found.st_mode) and found.st_rdev == number):
            return False
        info = (link.parents[1] / "fdinfo" / link.name).read_text(encoding="ascii")
    except OSError:
        return False  # it was closed
    (flags,) = (int(line.split()[1], 8) for line in info.splitlines() if line.startswith("flags:"))
    return not writing or bool(flags & os.O_ACCMODE)


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "which has ended"
