"""Virtual machines for tests, cloned from few templates."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from matrix_runner.machines.base import Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.rig_specs import rig_spec
from tests.support.shared_rig import SharedRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from matrix_runner.machines.base import Rig, RigSpec
    from matrix_runner.machines.qemu.rig import QemuRig
    from matrix_runner.space.space import Space

#: A machine with another number or size of disks is another template, and a template has to boot. Those of the first
#: size are small enough to be compared byte by byte; file systems need larger ones, as many as in the README's matrix.
SMALL = 64 * 2**20
DISKS, LARGE_DISKS = 6, 4


def spec_of(found: Space, kernel: str | None = None) -> RigSpec:
    """Return a rig on which every stack can be built."""
    specs = [rig_spec(found.matrix, stack, kernel) for stack in found.stacks]
    return replace(specs[0], modules=tuple(sorted({name for spec in specs for name in spec.modules})))


@asynccontextmanager
async def rig_of(spec: RigSpec, place: Path | SharedRig, machine: Qemu | None = None) -> AsyncIterator[Rig]:
    """Yield a rig of which the test sees only the disks that it asked for: the shared one, or its own in a folder."""
    count, last = len(spec.disks), spec.disks[-1]
    more = (replace(last, physics=None),) * ((DISKS if last.size == SMALL else LARGE_DISKS) - count)
    padded = replace(spec, disks=(*spec.disks, *more))
    rigs = place.use(padded) if isinstance(place, SharedRig) else (machine or Qemu()).rig(padded, place)  # noqa: ASYNC240
    async with rigs as rig:
        up = cast("QemuRig", rig)
        every, up.disks = up.disks, up.disks[:count]
        try:
            yield up
        finally:
            up.disks = every


async def content_of(rig: Rig, number: int) -> bytes:
    """Return all bytes of a disk, as its file has them. Hashing them in an emulated guest takes half a second."""
    (synced,) = await rig.run([Step("sync", "sync")], expected=0, deadline=60)
    assert synced.status == 0, synced.output
    descriptor = cast("QemuRig", rig).guest.served.descriptors[number]
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
