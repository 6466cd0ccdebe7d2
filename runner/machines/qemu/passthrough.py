"""Virtual machines that inherit the checked physical disks, their locks and exclusive openings as descriptors."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from runner.base.errors import BadInput
from runner.hosts.operations import Descriptor
from runner.hosts.reasons import plain_wwn
from runner.machines.base import NO_OPTIONS
from runner.machines.local import disk_model_refusals
from runner.machines.qemu import Qemu
from runner.machines.qemu.argv import DiskProperties, PassedController
from runner.machines.qemu.disk_files import DiskFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runner.hosts.exclusive import LeasedDisk
    from runner.machines.base import MachineOptions, Refusal, RigSpec
    from runner.simdisks.disk import Disk

BLOCK_DEVICES = Path("/sys/class/block")
#: For rotating disks of unknown speed. A guest only needs to know that they rotate.
DEFAULT_ROTATION = 7200
#: Offset of the revolutions a minute (two bytes) in the VPD page of block device characteristics.
_RATE_AT = 4
_WWN = re.compile("[0-9a-f]{16}")


class Passthrough(Qemu):
    """A `Qemu` machine with physical disks. Stacks outlive it, so scripts in the guest tear them down."""

    name: ClassVar[str] = "qemu-passthrough"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        self._provide_disks = partial(provide_leased_disks, options.held)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*disk_model_refusals(spec), *super().refusals(spec)]

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 1

    def _physical_disks(self, spec: RigSpec) -> tuple[DiskProperties | PassedController, ...]:
        held = self.options.held[: len(spec.disks)]
        found = tuple(
            PassedController(one.controller, one.node.serial)
            if one.controller
            else read_properties(one, BLOCK_DEVICES / one.node.name)
            for one in held
        )
        for one, disk, looks in zip(held, spec.disks, found, strict=True):
            if isinstance(looks, DiskProperties) and disk.bus == "sata" and looks.logical != 512:
                raise BadInput(
                    f"{one.declared.id} has sectors of {looks.logical} bytes, and QEMU's sata bus only knows 512",
                    resolution="take the scsi or virtio bus: `disks: {bus: scsi}`",
                )
        return found


def read_properties(held: LeasedDisk, folder: Path) -> DiskProperties:
    wwn = plain_wwn(held.node.wwn)
    return DiskProperties(
        logical=_number(folder / "queue/logical_block_size", 512),
        physical=_number(folder / "queue/physical_block_size", 512),
        discard=_number(folder / "queue/discard_granularity", 0),
        rotation=_rotation(folder) if _number(folder / "queue/rotational", 0) else 1,
        wwn=wwn if _WWN.fullmatch(wwn) else "",
        model="".join(char for char in held.node.model if char.isascii() and char.isprintable()),
    )


def _number(file: Path, unknown: int) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return unknown


def _rotation(folder: Path) -> int:
    try:
        page = (folder / "device/vpd_pgb1").read_bytes()
    except OSError:
        return DEFAULT_ROTATION
    rate = int.from_bytes(page[_RATE_AT : _RATE_AT + 2], "big")
    return rate if 0x401 <= rate < 0xFFFF else DEFAULT_ROTATION  # the standard reserves all other values


@asynccontextmanager
async def provide_leased_disks(
    held: Sequence[LeasedDisk],
    disks: tuple[Disk, ...],
    scratch: Path,  # noqa: ARG001
    complaints: int,  # noqa: ARG001
) -> AsyncIterator[DiskFiles]:
    with ExitStack() as stack:
        used = [*zip(held, disks, strict=False)]
        opened = tuple(open_writable(one, stack) for one, _ in used if not one.controller)
        for descriptor in opened:  # from version 9.1 on, QEMU wants the flag for disks that bypass the host's cache
            fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_DIRECT)
        yield DiskFiles(opened, locks=tuple(number for one, _ in used for number in lock_descriptors(one)))


def lock_descriptors(held: LeasedDisk) -> tuple[int, ...]:
    having = (held.lock,) if held.controller else (held.lock, held.opened)
    return tuple(grip.number for grip in having if isinstance(grip, Descriptor))


def open_writable(held: LeasedDisk, stack: ExitStack) -> int:
    judged = held.opened
    assert isinstance(judged, Descriptor)  # noqa: S101 - for the type checker; disks of other hosts are not passed on
    stack.callback(os.close, descriptor := judged.writable())
    return descriptor
