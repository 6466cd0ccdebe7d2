"""One virtual machine for all tests of a file, one after the other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from matrix_runner.machines.base import Step
from matrix_runner.machines.qemu import Qemu
from matrix_runner.machines.qemu.recipe import TEMPLATE_MODULES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from pathlib import Path

    from matrix_runner.machines.base import Rig, RigSpec

#: Discard all disks, whose files then read as zeros. It fails if anything has one of them, or if one has partitions.
EMPTY = """\
for part in /sys/class/block/[sv]d[a-z][0-9]*; do if [[ -e $part ]]; then echo "$part"; exit 1; fi; done
perl -e 'for (@ARGV) { sysopen D, $_, 0202 or die "$_: $!"; $size = sysseek D, 0, 2;
  ioctl D, 0x1277, pack "QQ", 0, $size or die "$_: $!" }' """  # O_RDWR with O_EXCL, and BLKDISCARD
Result = TypeVar("Result")


class SharedRig:
    """A rig that tests share. To clone one for each takes 0.6 s, and QEMU translates all code again in another second.

    Each test finds empty disks. If a test fails or leaves something on the rig, the next test gets a new one.
    """

    def __init__(self, scratch: Path, loop: asyncio.Runner) -> None:
        self._scratch, self._loop = scratch, loop
        self._stack = AsyncExitStack()
        self._up: tuple[RigSpec, Rig] | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the work of a test, in the event loop that the rig is part of."""
        return self._loop.run(work)

    @asynccontextmanager
    async def use(self, spec: RigSpec) -> AsyncIterator[Rig]:
        modules = tuple(sorted({*spec.modules} - {*TEMPLATE_MODULES}))
        rig = await self._rig(replace(spec, modules=modules, programs=(), powers=()))  # each has all of these
        disks = " ".join(rig.disks)
        try:
            yield rig
            (emptied,) = await rig.run([Step("empty", EMPTY + disks)], expected=0, deadline=60)
        except BaseException:
            await self.close()
            raise
        if emptied.status:
            await self.close()

    async def _rig(self, spec: RigSpec) -> Rig:
        if self._up and self._up[0] == spec:
            return self._up[1]
        await self.close()
        rig = await self._stack.enter_async_context(Qemu().rig(spec, self._scratch))
        self._up = spec, rig
        return rig

    async def close(self) -> None:
        self._up = None
        await self._stack.aclose()


def run_at(place: Path | SharedRig, work: Coroutine[Any, Any, Result]) -> Result:
    """Run the work of a test on a rig of its own, in a folder, or on a shared one."""
    return place.run(work) if isinstance(place, SharedRig) else asyncio.run(work)


@pytest.fixture(scope="module")
def shared_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedRig]:
    with asyncio.Runner() as loop:
        made = SharedRig(tmp_path_factory.mktemp("rig"), loop)
        yield made
        loop.run(made.close())
