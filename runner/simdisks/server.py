"""The command line of the server that is one disk, and what its end means."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.simdisks.disk import links_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.simdisks.disk import Disk

NBDKIT = "nbdkit"
QEMU_NBD = "qemu-nbd"
#: Programs of the host, and the packages they are in.
TOOLS = {NBDKIT: "nbdkit nbdkit-plugin-dev", "gcc": "gcc libc6-dev"}
#: QEMU asks for sixteen things at a time.
THREADS = 32
#: A server whose own file fails ends with this and the number of the host's error: see plugin.c.
HOST_FAILED = 100
#: What it takes to go on where a host cannot hold what is written.
ROOM = "free some disk space, or let the disks live elsewhere"


def command(plugin: Path, disks: Sequence[Disk], number: int, image: int, board: int) -> list[str]:
    """One connection, on standard input and output; it ends when whoever is on the other side does."""
    return [NBDKIT, "--single", *_linked(plugin, disks, number, image, board)]


def listening(plugin: Path, disks: Sequence[Disk], number: int, socket: Path, image: int, board: int) -> list[str]:
    """Any number of connections, one after the other, to a socket."""
    return [NBDKIT, "--foreground", "--unix", str(socket), *_linked(plugin, disks, number, image, board)]


def plain(socket: Path, image: int) -> list[str]:
    """The same for a disk without a model: as fast as its file is. (nbdkit looks for the name of a nameless one.)"""
    words = ("--persistent", "--format=raw", "--cache=unsafe", "--discard=unmap", "--socket", str(socket))
    return [QEMU_NBD, *words, f"/dev/fd/{image}"]


def whole(socket: Path, device: int, *, discards: bool) -> list[str]:
    """The same for a device of the host: past the host's memory, and what is flushed is flushed there."""
    words = ("--persistent", "--format=raw", "--cache=none", "--aio=native")
    discard = f"--discard={'unmap' if discards else 'ignore'}"
    return [QEMU_NBD, *words, discard, "--socket", str(socket), f"/dev/fd/{device}"]


def ended(disk: int, status: int) -> tuple[str, str]:
    """Why the server of a disk is gone, and what to do about that, as far as its status tells."""
    wrong = status - HOST_FAILED
    if status < 0:
        return f"the server of disk {disk} was killed by signal {-status}", ""
    if wrong in {errno.ENOSPC, errno.EDQUOT}:
        return full(f"disk{disk}"), ROOM
    if wrong in errno.errorcode:
        return f"the host's file behind disk {disk} failed: {os.strerror(wrong)}", "`dmesg` of the host may say why"
    return f"the server of disk {disk} ended with status {status}", ""


def full(node: str) -> str:
    """What a host is told whose own file system has no room for what is written to one of its disks."""
    return f"the host's disk is full: {node} cannot grow"


def _linked(plugin: Path, disks: Sequence[Disk], number: int, image: int, board: int) -> list[str]:
    link = disks[number].link
    shared = [f"bus={links_of(disks).index(link)}"] if link else []
    return [*_disk(plugin, disks[number], number, image, board), *shared]


def _disk(plugin: Path, disk: Disk, number: int, image: int, board: int) -> list[str]:
    if disk.physics is None:
        raise HarnessBroken(f"disk {number} has no physics to serve")
    words = [f"{name}={value!r}" for name, value in disk.physics.fields(disk.size)]
    if disk.physics.zones:
        words.append("zones=" + ",".join(f"{end!r}:{rate!r}" for end, rate in disk.physics.zones))
    return [
        *("--threads", str(THREADS), str(plugin)),
        *(f"image={image}", f"board={board}", f"disk={number}", *words),
    ]
