"""Virtual machines with disks of this host: judged, locked and held by us, and handed on as open descriptors.

QEMU is told no path, so what was judged is what is used. It inherits the lock and the exclusive opening of each disk
with it: whoever kills us frees the descriptors of ours a moment before the kernel kills QEMU for it, and until QEMU is
really gone nobody else may have the disks, and nothing of the host (udev, mdadm, LVM) may assemble what is on them.
A disk that goes with its controller the host does not have at all meanwhile; of that one the lock is handed on.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import BadInput
from runner.hosts.local_operations import Descriptor
from runner.hosts.own_work import plain_wwn
from runner.machines.local import disk_model_refusals
from runner.machines.qemu import NO_OPTIONS, Qemu
from runner.machines.qemu.argv import Passed, Whole
from runner.machines.qemu.disk_files import Served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runner.hosts.exclusive import Held
    from runner.machines.base import MachineOptions, Refusal, RigSpec
    from runner.simdisks.disk import Disk

BLOCK_DEVICES = Path("/sys/class/block")
#: What is assumed of platters whose speed the kernel does not know: a guest only asks whether there are any.
TURNS = 7200
#: In the page of vital product data about block devices: turns a minute, in two bytes.
_RATE_AT = 4
_WWN = re.compile("[0-9a-f]{16}")


class Passthrough(Qemu):
    """A machine as `Qemu` makes them; what is on its disks outlives it, so arrays are taken apart in the guest."""

    name: ClassVar[str] = "qemu-passthrough"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._back = partial(lent, options.held)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """What such disks cannot do, and what is missing on the host."""
        return [*disk_model_refusals(spec), *super().refusals(spec)]

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        """A disk is in one machine at a time."""
        return 1

    def _passed(self, spec: RigSpec) -> tuple[Passed | Whole, ...]:
        held = self.options.held[: len(spec.disks)]
        found = tuple(
            Whole(one.controller, one.node.serial) if one.controller else seen(one, BLOCK_DEVICES / one.node.name)
            for one in held
        )
        for one, disk, looks in zip(held, spec.disks, found, strict=True):
            if isinstance(looks, Passed) and disk.bus == "sata" and looks.logical != 512:
                raise BadInput(
                    f"{one.claim.id} has sectors of {looks.logical} bytes, and QEMU's sata bus only knows those of 512",
                    resolution="take the scsi or virtio bus: `disks: {bus: scsi}`",
                )
        return found


def seen(held: Held, folder: Path) -> Passed:
    """What the kernel of the host says of a disk, in its folder of sysfs."""
    wwn = plain_wwn(held.node.wwn)
    return Passed(
        logical=_number(folder / "queue/logical_block_size", 512),
        physical=_number(folder / "queue/physical_block_size", 512),
        discard=_number(folder / "queue/discard_granularity", 0),
        rotation=_turns(folder) if _number(folder / "queue/rotational", 0) else 1,
        wwn=wwn if _WWN.fullmatch(wwn) else "",
        model="".join(char for char in held.node.model if char.isascii() and char.isprintable()),
    )


def _number(file: Path, unknown: int) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return unknown


def _turns(folder: Path) -> int:
    try:
        page = (folder / "device/vpd_pgb1").read_bytes()
    except OSError:
        return TURNS
    told = int.from_bytes(page[_RATE_AT : _RATE_AT + 2], "big")
    return told if 0x401 <= told < 0xFFFF else TURNS  # all else the standard has another meaning for


@asynccontextmanager
async def lent(
    held: Sequence[Held],
    disks: tuple[Disk, ...],
    scratch: Path,  # noqa: ARG001
    complaints: int,  # noqa: ARG001
) -> AsyncIterator[Served]:
    """These disks as they are, each opened for writing by way of the descriptor that was judged."""
    with ExitStack() as stack:
        used = [*zip(held, disks, strict=False)]
        opened = tuple(writable(one, stack) for one, _ in used if not one.controller)
        yield Served(opened, kept=tuple(number for one, _ in used for number in grips(one)))


def grips(held: Held) -> tuple[int, ...]:
    """The descriptors by which nobody else has a disk: its lock, and the device, opened exclusively, if it is here."""
    having = (held.lock,) if held.controller else (held.lock, held.alone)
    return tuple(grip.number for grip in having if isinstance(grip, Descriptor))


def writable(held: Held, stack: ExitStack) -> int:
    """A disk, opened for writing by way of what was judged, until the stack is left."""
    judged = held.alone
    assert isinstance(judged, Descriptor)  # noqa: S101 - for the type checker; disks of other hosts are not passed on
    stack.callback(os.close, descriptor := judged.writable())
    return descriptor
