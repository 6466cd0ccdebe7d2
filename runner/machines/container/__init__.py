"""Containers of podman or docker on this host: its kernel, disks of it that may be used, and programs of ours.

A rig is one container. Its first process reads what the runner writes, which is nothing, and ends when that ends; with
it the kernel ends everything in the container. So nothing outlives a runner, however that dies.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.machines import requirements as fitness
from runner.machines.base import Refusal, RigLost, Wishes
from runner.machines.container import image
from runner.machines.container.argv import (
    FOLDER,
    MAPPER_CONTROL,
    MEMORY,
    OF_HOST,
    OF_MD,
    SWEPT,
    Box,
    Engine,
    Lent,
    entered,
    is_built,
    removed,
    started,
)
from runner.machines.container.engine import PATIENCE, Found, fitted, found, mapper_major
from runner.machines.container.leftovers import Owner
from runner.machines.local import ENTER, unreal, unswapped
from runner.machines.local import WHERE as HOST
from runner.machines.shell import LAST_BREATH, ShellRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runner.machines.base import RigSpec

WHERE = "the container"
AS_USUAL = Wishes()
#: What the kernel may be asked that has no answer in a container: whose modules it has is a matter of the host.
OF_HOST_ALONE = ("no-module ", "no-root ")


class Container:
    """See the module."""

    name: ClassVar[str] = "container"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False
    made_up: ClassVar[bool] = False

    def __init__(self, wishes: Wishes = AS_USUAL) -> None:
        self.wishes = wishes
        #: An engine that works, and what it starts; found with the first rig.
        self._ready: tuple[Engine, str] | None = None
        self._found: Found | None = None
        #: What the disks were when they were first asked for, which is right after they were lent.
        self._lent: dict[str, Lent] = {}

    @classmethod
    def wished(cls, wishes: Wishes) -> Self:
        """As asked for on the command line."""
        return cls(wishes)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """What such disks cannot do, what the host's kernel does not have, and what is the matter with the engine."""
        return [*unreal(spec), *_unfit(spec), *self._engine().refusals]

    def lacks(self, kernel: str) -> str:
        """Containers have the host's."""
        return f"containers run the kernel of the host ({os.uname().release}), not {kernel}"

    def room(self, spec: RigSpec) -> int:  # noqa: ARG002
        """There is one of each disk."""
        return 1

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        """One container with these disks, until it is no longer wanted."""
        engine, made_of = await self._prepared()
        disks = tuple(self._same(name) for name in self.wishes.disks[: len(spec.disks)])
        box = await asyncio.to_thread(boxed, made_of, disks, spec, scratch)
        first = await process.spawn_with_pipes(started(engine, box))
        try:
            await _came_up(first)
            enter = entered(engine, box.name)
            facts = await asyncio.to_thread(self._told, engine, enter, spec)
            lent_here = self.wishes.disks[: len(spec.disks)]
            yield ShellRig(enter, FOLDER, lent_here, facts, WHERE, SWEPT, before=unswapped(self.wishes))
        finally:
            await _ended(engine, box, first)

    def _same(self, name: str) -> Lent:
        """A disk by its name, which must not lead to another in the middle of a run."""
        try:
            now = lent(name)
        except OSError as error:
            raise RigLost(f"{name} is gone: {error.strerror}") from error
        if self._lent.setdefault(name, now) != now:
            was = self._lent[name]
            raise HarnessBroken(
                f"{name} is another device than the one that was lent",
                details=f"it was {was.node} ({was.major}:{was.minor}), and is {now.node} ({now.major}:{now.minor})",
                resolution="look what became of the disk; nothing was written to the other one",
            )
        return now

    def _engine(self) -> Found:
        """Asked once: it costs a moment, and does not change."""
        if self._found is None:
            self._found = found()
        return self._found

    async def _prepared(self) -> tuple[Engine, str]:
        if self._ready is None:
            have = await asyncio.to_thread(self._engine)
            if have.engine is None:
                raise HarnessBroken(
                    "no container can be started", details="; ".join(one.brief for one in have.refusals)
                )
            made_of = await image.provide(have.engine, self.wishes.progress)
            engine = await asyncio.to_thread(fitted, have.engine, made_of, self.wishes.notice)
            self._ready = engine, made_of
        return self._ready

    def _told(self, engine: Engine, enter: tuple[str, ...], spec: RigSpec) -> dict[str, str]:
        """What the container says of itself. Programs can be missing from images of others than us."""
        said = fitness.found(enter, spec, WHERE)
        lines = [line for line in said.splitlines() if not line.startswith(OF_HOST_ALONE)]
        if lacking := list(fitness.refusals("\n".join(lines), WHERE)):
            raise HarnessBroken(
                f"the image lacks what this layout needs: {'; '.join(one.brief for one in lacking)}",
                resolution=f"install it there, or leave {image.CHOSEN} out",
            )
        return {**fitness.facts("\n".join(lines)), "engine": engine.kind}


def boxed(made_of: str, disks: tuple[Lent, ...], spec: RigSpec, scratch: Path) -> Box:
    """A container for these disks of this host. What its kernel loads on demand is loaded, so that it has numbers."""
    if is_built(spec) and spec.modules:
        with suppress(HarnessBroken):  # a host without modprobe has what it has
            process.run(["modprobe", "--all", "--quiet", "--", *spec.modules], timeout=PATIENCE)
    memory = os.environ.get("MATRIX_MEMORY", MEMORY)
    Path(memory).mkdir(parents=True, exist_ok=True)
    return Box(
        name=f"matrix-{secrets.token_hex(6)}",
        image=made_of,
        disks=disks,
        spec=spec,
        run=str(scratch.absolute()),
        owner=str(Owner.me()),
        memory=str(Path(memory).absolute()),
        mapper=mapper_major(Path("/proc/devices").read_text()) if Path(MAPPER_CONTROL).exists() else None,
        there=tuple(one for one in (*OF_HOST, *OF_MD) if Path(one).exists()),
    )


def lent(name: str) -> Lent:
    """A disk by its name. What is written to its knobs is of the drive, where sysfs knows one."""
    node = os.path.realpath(name)
    number = Path(node).stat().st_rdev
    major, minor = os.major(number), os.minor(number)
    block = Path(f"/sys/dev/block/{major}:{minor}").resolve()
    drive = (block / "device").resolve()
    return Lent(name, node, major, minor, str(drive if block.is_relative_to(drive) else block))


async def _came_up(first: asyncio.subprocess.Process) -> None:
    """Wait until it says so."""
    assert first.stdout  # noqa: S101 - for the type checker; it was asked for
    assert first.stderr  # noqa: S101
    try:
        async with asyncio.timeout(PATIENCE):
            said = (await first.stdout.readline()).decode(errors="replace").strip()
            if said == "up":
                return
            complaint = (await first.stderr.read()).decode(errors="replace").strip()
    except TimeoutError:
        raise RigLost(f"no container came up within {PATIENCE:g} s") from None
    raise RigLost(said or "no container came up", tail=complaint[-4000:])


async def _ended(engine: Engine, box: Box, first: asyncio.subprocess.Process) -> None:
    """End it. Whatever an engine makes of that, it is gone afterwards."""
    await process.hang_up(first, LAST_BREATH)
    if first.returncode:
        await asyncio.to_thread(process.run, removed(engine, box.name), timeout=PATIENCE)


def _unfit(spec: RigSpec) -> list[Refusal]:
    """What the kernel, which is the host's, does not have."""
    try:
        said = fitness.found(ENTER, spec, HOST)
    except HarnessBroken as error:
        return [Refusal(error.brief, error.details or error.resolution)]
    lines = [line for line in said.splitlines() if not line.startswith("no-program ")]
    return list(fitness.refusals("\n".join(lines), HOST))
