"""The command line of the server that is one disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.disks import links_of
from runner.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.disks import Disk

NBDKIT = "nbdkit"
QEMU_NBD = "qemu-nbd"
#: Programs of the host, and the packages they are in.
TOOLS = {NBDKIT: "nbdkit nbdkit-plugin-dev", "gcc": "gcc libc6-dev"}
#: QEMU asks for sixteen things at a time.
THREADS = 32


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
