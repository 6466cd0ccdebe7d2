"""Commands of the server of one disk, the meaning of its exit status, and a host that cannot keep up with it."""

import asyncio
import errno
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.time_limit import time_limit
from matrix_runner.simdisks.clib import ANSWERS, Report
from matrix_runner.simdisks.disk import Disk, links_of

NBDKIT = "nbdkit"
QEMU_NBD = "qemu-nbd"
TOOLS = {NBDKIT: "nbdkit nbdkit-plugin-dev", "gcc": "gcc libc6-dev"}
#: QEMU sends 16 requests at a time.
THREADS = 32
#: Plus errno: the exit status of a server whose image file failed (see plugin.c).
HOST_FAILED = 100
ROOM = "free some disk space, or let the disks live elsewhere"


def stdio_command(plugin: Path, disks: Sequence[Disk], number: int, image: int, board: int) -> list[str]:
    """Serve one connection on standard input and output; it ends with its client."""
    return [*_nbdkit(plugin), "--single", *_disk_arguments(plugin, disks, number, image, board)]


def socket_command(plugin: Path, disks: Sequence[Disk], number: int, socket: Path, image: int, board: int) -> list[str]:
    """Serve any number of connections, one after the other, on a socket."""
    words = (*_nbdkit(plugin), "--foreground", "--unix", str(socket))
    return [*words, *_disk_arguments(plugin, disks, number, image, board)]


def _nbdkit(plugin: Path) -> tuple[str, ...]:
    """QEMU gets answers in time only with `answers.c`. The linker takes spaces and colons for the end of a name."""
    answers = str(plugin.with_name(ANSWERS))
    if re.search(r"[\s:]", answers) or shutil.which(NBDKIT) is None:  # the caller names a missing program
        return (NBDKIT,)
    return "env", f"LD_PRELOAD={answers}", NBDKIT


def plain_command(socket: Path, image: int) -> list[str]:
    """Serve a disk without a model, as fast as its file. (nbdkit is not used: it needs the image's name.)"""
    words = ("--persistent", "--format=raw", "--cache=unsafe", "--discard=unmap", "--socket", str(socket))
    return [QEMU_NBD, *words, f"/dev/fd/{image}"]


def device_command(socket: Path, device: int, *, discards: bool) -> list[str]:
    """Serve a device of the host, past the host's cache; flushes reach the device."""
    words = ("--persistent", "--format=raw", "--cache=none", "--aio=native")
    discard = f"--discard={'unmap' if discards else 'ignore'}"
    return [QEMU_NBD, *words, discard, "--socket", str(socket), f"/dev/fd/{device}"]


_LISTENS = "00010000"  # the flags in /proc/net/unix


async def wait_for_socket(socket: Path, server: asyncio.subprocess.Process, deadline: float) -> None:
    try:
        async with time_limit(deadline):
            while not is_listening(socket):  # no event reports it, and the check is quick
                if server.returncode is not None:
                    raise HarnessBroken(f"the disk's server ended with status {server.returncode}")
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise HarnessBroken(f"the disk's server did not start within {deadline:g} s") from None


def is_listening(socket: Path) -> bool:
    """Return whether a program listens on a socket. Its file is there earlier, while connections are still refused."""
    lines = os.fsdecode(Path("/proc/net/unix").read_bytes()).split("\n")  # a path may have other ends of lines
    sockets = (line.split(maxsplit=7) for line in lines)
    paths = {str(socket), str(socket.absolute())}
    return any(len(words) > 7 and words[7] in paths and words[3] == _LISTENS for words in sockets)


def explain_exit(disk: int, status: int) -> tuple[str, str]:
    wrong = status - HOST_FAILED
    if status < 0:
        return f"the server of disk {disk} was killed by signal {-status}", ""
    if wrong in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full_message(f"disk{disk}"), ROOM
    if wrong in errno.errorcode:
        return f"the host's file behind disk {disk} failed: {os.strerror(wrong)}", "`dmesg` of the host may say why"
    return f"the server of disk {disk} ended with status {status}", ""


def disk_full_message(node: str) -> str:
    return f"the host's disk is full: {node} cannot grow"


def _disk_arguments(plugin: Path, disks: Sequence[Disk], number: int, image: int, board: int) -> list[str]:
    disk = disks[number]
    if disk.physics is None:
        raise HarnessBroken(f"disk {number} has no physics to serve")
    words = [f"{name}={value!r}" for name, value in disk.physics.fields(disk.size)]
    if disk.physics.zones:
        words.append("zones=" + ",".join(f"{end!r}:{rate!r}" for end, rate in disk.physics.zones))
    if disk.link:
        words.append(f"bus={links_of(disks).index(disk.link)}")
    return [*("--threads", str(THREADS), str(plugin)), *(f"image={image}", f"board={board}", f"disk={number}", *words)]


#: Threads of a machine also wait for each other, on a quiet host of two processors up to 28 % of the time of its
#: requests. Up to 30 %, random reads of hard disks lost no rate; from 36 to 50 % they lost 10 to 20 %.
CROWDED = 1 / 3


@dataclass(frozen=True, slots=True)
class Overload:
    """A trial's loss to its host, as shares of the time in which I/O was wanted."""

    late: float  # answers were later than the model's time
    #: Disks were idle because requests came late, and that delayed answers. A mean over disks, by their time at work.
    starved: float
    #: The machine waited for a processor. This is a bound of the loss, because its disks may have had other requests.
    crowded: float = 0.0
    transit: float = 0.0  # of work with pauses: requests and answers were under way between the kernel and the disks

    @property
    def share(self) -> float:
        """The total. Late answers count only in the time that was not lost by starved disks."""
        lost = max(1 - (1 - self.late) * (1 - self.starved), self.transit)
        return max(lost, self.crowded) if self.crowded > CROWDED else lost

    def exceeds(self, bound: float) -> bool:
        return self.share > bound

    @property
    def causes(self) -> dict[str, float]:
        found = {"late": self.late * (1 - self.starved)}
        found |= {"transit": self.transit} if self.transit else {"idle": self.starved}
        return found | ({"crowded": self.crowded} if self.crowded > CROWDED else {})


def counters_between(before: Sequence[Report], after: Sequence[Report]) -> tuple[Report, ...]:
    return tuple(
        Report(**{one.name: getattr(late, one.name) - getattr(early, one.name) for one in fields(Report)})
        for early, late in zip(before, after, strict=True)
    )


def overload_of(done: Sequence[Report]) -> Overload | None:
    answered = sum(one.owed + one.late for one in done)
    busy = max((one.occupied for one in done), default=0.0)
    if not answered or not busy:
        return None
    idle, waited = done[0].idle, done[0].waited  # the same in each report
    at_work = [one for one in done if one.occupied]
    starved = sum(one.occupied * one.starved / (one.occupied + one.starved) for one in at_work)
    # Waits while no request is in flight, as at the start of fio, must not count more than their share of the time.
    crowded = min(waited / (waited + answered), waited / (busy + idle))
    late = sum(one.late for one in done) / answered
    return Overload(late, starved / sum(one.occupied for one in at_work), crowded)
