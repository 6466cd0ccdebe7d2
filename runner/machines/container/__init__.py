"""The machine `container`: podman or docker on this host, with its kernel and its physical disks.

A rig is one container. Its first process reads from the runner and ends when that input ends; with it the kernel kills
everything in the container. So no container outlives the runner.
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
from runner.machines import requirements
from runner.machines.base import MachineOptions, Refusal, RigLost
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
from runner.machines.local import ENTER, identity_script, model_refusals
from runner.machines.local import WHERE as HOST
from runner.machines.shell import LAST_BREATH, ShellRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runner.machines.base import RigSpec

WHERE = "the container"
NO_OPTIONS = MachineOptions()
#: Findings about the host's kernel and user that do not apply inside a container.
OF_HOST_ALONE = ("no-module ", "no-root ")


class Container:
    name: ClassVar[str] = "container"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False
    synthetic: ClassVar[bool] = False

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        self.options = options
        #: The working engine and its image; found with the first rig.
        self._ready: tuple[Engine, str] | None = None
        self._found: Found | None = None
        #: Identity of each disk when it was first used, right after it was leased.
        self._lent: dict[str, Lent] = {}

    @classmethod
    def from_options(cls, options: MachineOptions) -> Self:
        return cls(options)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*model_refusals(spec), *_unfit(spec), *self._engine().refusals]

    def kernel_refusal(self, kernel: str) -> str:
        return f"containers run the kernel of the host ({os.uname().release}), not {kernel}"

    def max_rigs(self, spec: RigSpec) -> int:  # noqa: ARG002
        return 1

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        engine, made_of = await self._prepared()
        disks = tuple(self._same(name) for name in self.options.disks[: len(spec.disks)])
        box = await asyncio.to_thread(boxed, made_of, disks, spec, scratch)
        first = await process.spawn_with_pipes(started(engine, box))
        try:
            await _came_up(first)
            enter = entered(engine, box.name)
            facts = await asyncio.to_thread(self._told, engine, enter, spec)
            lent_here = self.options.disks[: len(spec.disks)]
            yield ShellRig(enter, FOLDER, lent_here, facts, WHERE, SWEPT, before=identity_script(self.options))
        finally:
            await _ended(engine, box, first)

    # A name must not lead to another disk in the middle of a run.
    def _same(self, name: str) -> Lent:
        try:
            now = lent(name)
        except OSError as error:
            raise RigLost(f"{name} is gone: {error.strerror}") from error
        if self._lent.setdefault(name, now) != now:
            was = self._lent[name]
            raise HarnessBroken(
                f"{name} is not the device that was leased",
                details=f"it was {was.node} ({was.major}:{was.minor}), and is {now.node} ({now.major}:{now.minor})",
                resolution="check the disk; the other device was not written to",
            )
        return now

    def _engine(self) -> Found:
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
            made_of = await image.provide(have.engine, self.options.progress)
            engine = await asyncio.to_thread(fitted, have.engine, made_of, self.options.notice)
            self._ready = engine, made_of
        return self._ready

    def _told(self, engine: Engine, enter: tuple[str, ...], spec: RigSpec) -> dict[str, str]:
        said = requirements.query(enter, spec, WHERE)
        lines = [line for line in said.splitlines() if not line.startswith(OF_HOST_ALONE)]
        if lacking := list(requirements.refusals("\n".join(lines), WHERE)):
            raise HarnessBroken(
                f"the image does not have what this layout needs: {'; '.join(one.brief for one in lacking)}",
                resolution=f"install it in the image, or unset {image.CHOSEN}",
            )
        return {**requirements.facts("\n".join(lines)), "engine": engine.kind}


def boxed(made_of: str, disks: tuple[Lent, ...], spec: RigSpec, scratch: Path) -> Box:
    # Modules are loaded now, so that their devices have numbers.
    if is_built(spec) and spec.modules:
        with suppress(HarnessBroken):  # a host without modprobe keeps the modules it has
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
    node = os.path.realpath(name)
    number = Path(node).stat().st_rdev
    major, minor = os.major(number), os.minor(number)
    block = Path(f"/sys/dev/block/{major}:{minor}").resolve()
    # Tunables belong to the whole drive, where sysfs has one.
    drive = (block / "device").resolve()
    return Lent(name, node, major, minor, str(drive if block.is_relative_to(drive) else block))


async def _came_up(first: asyncio.subprocess.Process) -> None:
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
    await process.hang_up(first, LAST_BREATH)
    if first.returncode:
        await asyncio.to_thread(process.run, removed(engine, box.name), timeout=PATIENCE)


def _unfit(spec: RigSpec) -> list[Refusal]:
    try:
        said = requirements.query(ENTER, spec, HOST)
    except HarnessBroken as error:
        return [Refusal(error.brief, error.details or error.resolution)]
    lines = [line for line in said.splitlines() if not line.startswith("no-program ")]
    return list(requirements.refusals("\n".join(lines), HOST))
