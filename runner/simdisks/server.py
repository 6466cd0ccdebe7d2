"""Commands of the server of one disk, and the meaning of its exit status."""

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
#: Programs of the host, and their packages.
TOOLS = {NBDKIT: "nbdkit nbdkit-plugin-dev", "gcc": "gcc libc6-dev"}
#: QEMU sends 16 requests at a time.
THREADS = 32
#: Plus errno: the exit status of a server whose image file failed (see plugin.c).
HOST_FAILED = 100
#: Advice if the host has no room for what is written.
ROOM = "free some disk space, or let the disks live elsewhere"


def stdio_command(plugin: Path, disks: Sequence[Disk], number: int, image: int, board: int) -> list[str]:
    """Serve one connection on standard input and output; it ends with its client."""
    return [NBDKIT, "--single", *_disk_arguments(plugin, disks, number, image, board)]


def socket_command(plugin: Path, disks: Sequence[Disk], number: int, socket: Path, image: int, board: int) -> list[str]:
    """Serve any number of connections, one after the other, on a socket."""
    return [NBDKIT, "--foreground", "--unix", str(socket), *_disk_arguments(plugin, disks, number, image, board)]


def plain_command(socket: Path, image: int) -> list[str]:
    """Serve a disk without a model, as fast as its file. (nbdkit is not used: it needs the image's name.)"""
    words = ("--persistent", "--format=raw", "--cache=unsafe", "--discard=unmap", "--socket", str(socket))
    return [QEMU_NBD, *words, f"/dev/fd/{image}"]


def device_command(socket: Path, device: int, *, discards: bool) -> list[str]:
    """Serve a device of the host, past the host's cache; flushes reach the device."""
    words = ("--persistent", "--format=raw", "--cache=none", "--aio=native")
    discard = f"--discard={'unmap' if discards else 'ignore'}"
    return [QEMU_NBD, *words, discard, "--socket", str(socket), f"/dev/fd/{device}"]


def explain_exit(disk: int, status: int) -> tuple[str, str]:
    """Return why the server of a disk ended, and what to do, as far as its status shows."""
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
    link = disks[number].link
    shared = [f"bus={links_of(disks).index(link)}"] if link else []
    return [*_model_arguments(plugin, disks[number], number, image, board), *shared]


def _model_arguments(plugin: Path, disk: Disk, number: int, image: int, board: int) -> list[str]:
    if disk.physics is None:
        raise HarnessBroken(f"disk {number} has no physics to serve")
    words = [f"{name}={value!r}" for name, value in disk.physics.fields(disk.size)]
    if disk.physics.zones:
        words.append("zones=" + ",".join(f"{end!r}:{rate!r}" for end, rate in disk.physics.zones))
    return [
        *("--threads", str(THREADS), str(plugin)),
        *(f"image={image}", f"board={board}", f"disk={number}", *words),
    ]
