"""What requests reach a disk: the kernel's own trace of a loop device, while something works on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIZE = 64 << 20
_BLOCK = 4096
_TRACED = re.compile(r" block_\w+: \d+,\d+ (\w+) (?:\d+ \(.*?\) )?(\d+) \+ (\d+) ")


@dataclass
class Seen:
    """Requests for data, in the order in which they came: where, and how many bytes."""

    reads: list[tuple[int, int]] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)


def total(requests: list[tuple[int, int]]) -> int:
    return sum(size for _, size in requests)


def covered(requests: list[tuple[int, int]]) -> int:
    """Bytes that are in any of them, each counted once."""
    return _BLOCK * len({at // _BLOCK + n for at, size in requests for n in range(size // _BLOCK)})


def forward(requests: list[tuple[int, int]]) -> float:
    """The share that begins where the one before ended, or a little behind."""
    steps = [later - (at + size) for (at, size), (later, _) in pairwise(requests)]
    return sum(0 <= step <= 2 << 20 for step in steps) / len(steps) if steps else 1.0


def usual(requests: list[tuple[int, int]]) -> float:
    """How large one is, as bytes go."""
    return sum(size * size for _, size in requests) / total(requests)


def why_not() -> str:
    """Why this host cannot look; empty if it can."""
    if os.geteuid():
        return "only root may trace the block layer and make loop devices"
    for tool in ("losetup", "mkfs.ext4", "fio", "dd"):
        if not shutil.which(tool):
            return f"without {tool} on this host"
    found = subprocess.run(["losetup", "--find"], capture_output=True, text=True)
    if found.returncode:
        return f"this host gives no loop device: {found.stderr.strip()}"
    if "nodev\ttracefs\n" not in Path("/proc/filesystems").read_text():
        return "the kernel of this host has no tracefs"
    return ""


@dataclass(frozen=True)
class Disk:
    """A loop device, a file system on it, and the kernel's trace of it."""

    path: str
    directory: Path
    tracing: Path

    @contextmanager
    def watched(self) -> Iterator[Seen]:
        """What is asked of it within, until all of it is on the disk. Nothing is in memory at the beginning."""
        self.forget()
        with self.traced() as seen:
            yield seen
            self.forget()

    @contextmanager
    def traced(self) -> Iterator[Seen]:
        """What is asked of it within, whatever is in memory.

        Others read here, too: whoever asks a host for all of its disks, as tests beside this one do, by dd among other
        things. So reads are those that were queued by us; what is written is written back by anybody, and the kernel may
        queue all of it at once.
        """
        reading = self._events("block_bio_queue", "R", family(os.getpid()))
        with reading as reads, self._events("block_rq_issue", "W") as writes:
            yield Seen(reads, writes)

    @contextmanager
    def _events(self, name: str, direction: str, whose: Sequence[int] = ()) -> Iterator[list[tuple[int, int]]]:
        """In one direction, by these processes and whatever they start; or by anybody."""
        instance, found = self.tracing / "instances" / f"matrix-{os.getpid()}-{direction}", list[tuple[int, int]]()
        instance.mkdir()
        try:
            device = Path(self.path).stat().st_rdev
            event = instance / "events/block" / name
            (instance / "buffer_size_kb").write_text("4096")
            if whose:
                (instance / "options/event-fork").write_text("1")
                (instance / "set_event_pid").write_text(" ".join(map(str, whose)))
            where = f"dev == {os.major(device) << 20 | os.minor(device)}"
            (event / "filter").write_text(f'{where} && rwbs ~ "{direction}*"')
            (event / "enable").write_text("1")
            yield found
            (event / "enable").write_text("0")
            for kind, at, sectors in _TRACED.findall((instance / "trace").read_text()):
                if "M" not in kind:  # the file system's own: inodes, bitmaps
                    found.append((int(at) * 512, int(sectors) * 512))
        finally:
            instance.rmdir()

    def forget(self) -> None:
        """Write out what is dirty, and keep nothing of files or the device in memory."""
        if self.directory.is_mount():
            _run("sync", "--file-system", self.directory)
        for path in [*filter(Path.is_file, self.directory.rglob("*")), Path(self.path)]:
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def family(process: int) -> list[int]:
    """The threads of a process, and of all that it started."""
    threads = list(Path(f"/proc/{process}/task").iterdir())
    children = [int(one) for thread in threads for one in (thread / "children").read_text().split()]
    return [*(int(thread.name) for thread in threads), *(one for child in children for one in family(child))]


def _run(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """One that reads ahead as far as disks do."""
    image, directory, tracing = folder / "image", folder / "mounted", folder / "tracing"
    directory.mkdir()
    tracing.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    with ExitStack() as after:
        loop = _run("losetup", "--find", "--show", image)
        after.callback(_run, "losetup", "--detach", loop)
        _run("mount", "-t", "tracefs", "none", tracing)
        after.callback(_run, "umount", tracing)
        _run("blockdev", "--setra", "256", loop)
        yield Disk(loop, directory, tracing)


@contextmanager
def mounted(found: Disk) -> Iterator[Disk]:
    """With a file system on it that keeps no journal."""
    _run("mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", "-E", "lazy_itable_init=0", found.path)
    _run("mount", "-o", "noatime", found.path, found.directory)
    try:
        yield found
    finally:
        _run("umount", found.directory)
