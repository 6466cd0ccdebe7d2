"""What is written on a disk that is held: our label when a run gets it, and again when it gives it back.

Everything here takes a disk that is held, so nothing here can be done to one that was not judged.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from runner import process
from runner.disks.real import label
from runner.disks.real.content import marked
from runner.disks.real.label import Label
from runner.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.disks.real.census import Signature
    from runner.disks.real.claims import Ours
    from runner.disks.real.hold import Held
    from runner.disks.real.label import State

_REREAD = 0x125F  # BLKRRPART


def label_of(held: Held, run: str, state: State) -> Label:
    """The label of this very disk."""
    return Label(run, held.claim.id, held.node.wwn or held.node.serial, state)


def prepare(held: Held, run: str) -> None:
    """Make a disk that was judged ready for a run: what may be wiped is, and then it says whose it is."""
    if held.node.signatures:
        _wipe(held)
    _write(held, label.written(label_of(held, run, "held")))


def give_back(held: Held, run: str) -> None:
    """Label it as ours and free, so that the next run may have it whatever fio left on it."""
    _write(held, label.written(label_of(held, run, "free")))


def wipe_marked(held: Held, found: Iterable[Signature], ours: Ours) -> None:
    """Of what is written on it only what carries a mark of ours, place by place; anything else stays as it is."""
    mine = [one for one in found if one.offset and marked(one, ours)]
    for one in mine:
        done = process.run(["wipefs", "--force", "--quiet", f"--offset={one.offset}", held.node.path])
        if done.returncode:
            raise HarnessBroken(f"{one} on {held.node.path} could not be wiped", details=done.stderr.strip())
    if mine and held.exclusive is not None and any(Path("/sys/class/block", held.node.name).glob("*/partition")):
        fcntl.ioctl(held.exclusive, _REREAD)


def _wipe(held: Held) -> None:
    """Every signature on the disk and on its parts; held as it is by us, only --force is allowed to."""
    parts = sorted(Path("/sys/class/block", held.node.name).glob("*/partition"))
    for name in [*(part.parent.name for part in parts), held.node.name]:
        done = process.run(["wipefs", "--all", "--force", "--quiet", f"/dev/{name.replace('!', '/')}"])
        if done.returncode:
            raise HarnessBroken(
                f"what is written on /dev/{name} could not be wiped",
                details=done.stderr.strip(),
                resolution=f"`matrix disks` shows how {held.claim.id} stands now",
            )
    if parts and held.exclusive is not None:
        # Nobody but us may make the kernel look again, as nobody but us has the disk.
        fcntl.ioctl(held.exclusive, _REREAD)


def _write(held: Held, block: bytes) -> None:
    descriptor = held.writable()
    try:
        os.pwrite(descriptor, block, label.BLOCK * label.BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
