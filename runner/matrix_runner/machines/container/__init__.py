"""The machine `container`: Podman or Docker, physical disks, and removal of what a killed run left."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from matrix_runner.base import children, process
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import run
from matrix_runner.base.time_limit import time_limit
from matrix_runner.machines import requirements
from matrix_runner.machines.base import NO_OPTIONS, Leftover, Machine, MachineOptions, Refusal, RigLost, RigSpec
from matrix_runner.machines.container import engines
from matrix_runner.machines.local import host_refusals, identity_script, model_refusals
from matrix_runner.machines.shell import LAST_BREATH, ShellRig

SHOWN = "\t".join(
    (
        "{{.Name}}",
        "{{.State.Status}}",
        *(f'{{{{index .Config.Labels "{label}"}}}}' for label in (engines.OWNER, engines.RUN)),
    )
)
TRIES = 3
UP = frozenset({"running", "paused", "restarting"})


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, identified beyond its number, which is reused."""

    world: str
    pid: int
    born: int

    def __str__(self) -> str:
        return f"{self.world} {self.pid} {self.born}"

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        world, pid, born, *more = [*text.split(" "), "", "", ""]
        return cls(world, int(pid), int(born)) if pid.isdecimal() and born.isdecimal() and not any(more) else None

    @classmethod
    def me(cls) -> "Owner":
        return cls(_world(), os.getpid(), _born(os.getpid()) or 0)

    @property
    def is_here(self) -> bool:
        return self.world == _world()

    @property
    def is_alive(self) -> bool:
        """Return whether it runs. Only valid if `is_here`."""
        return _born(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class LabelledContainer:
    name: str
    status: str
    owner: Owner | None
    run: str

    @property
    def is_abandoned(self) -> bool:
        """Return whether its owner is gone. If the owner cannot be checked, a container counts unless it runs."""
        if self.owner is None or not self.owner.is_here:
            return self.status not in UP
        return not self.owner.is_alive


def parse_containers(output: str) -> Iterator[LabelledContainer]:
    for line in output.splitlines():
        name, status, owner, of = [*line.split("\t"), "", "", ""][:4]
        if name and of:
            yield LabelledContainer(name.removeprefix("/"), status, Owner.parse(owner), of)


def sweep(*, dry: bool = False, everything: bool = False) -> Iterator[Leftover]:
    for engine in engines.installed_engines():
        with suppress(HarnessBroken):  # an engine that does not answer runs no containers
            for one in find_abandoned(engine):
                title = f"{engine.kind} container {one.name} of {one.run}"
                yield Leftover(f"{title}: its process is gone") if dry else _remove(engine, one, title)
            if everything:
                yield from _remove_images(engine, dry=dry)


def _remove_images(engine: engines.Engine, *, dry: bool) -> Iterator[Leftover]:
    listed = run(engine.argv("images", "--quiet", f"--filter=label={engines.LABEL}"), timeout=engines.PATIENCE)
    for image in dict.fromkeys(listed.stdout.split()):
        done = run(engine.argv("rmi", image), timeout=engines.PATIENCE) if not dry else listed
        refused = f" could not be removed: {done.stderr.strip()}" if done.returncode else ""
        yield Leftover(f"{engine.kind} image {image}{refused or ('' if dry else ': removed')}", bool(refused))


def find_abandoned(engine: engines.Engine) -> list[LabelledContainer]:
    listed = run(engine.argv("ps", "--all", "--quiet", f"--filter=label={engines.RUN}"), timeout=engines.PATIENCE)
    names = listed.stdout.split() if listed.returncode == 0 else []
    if not names:
        return []
    # `inspect` reports an error for a container that is gone by now, and lists the others.
    return [
        one
        for one in parse_containers(
            run(engine.argv("inspect", f"--format={SHOWN}", *names), timeout=engines.PATIENCE).stdout
        )
        if one.is_abandoned
    ]


def _remove(engine: engines.Engine, one: LabelledContainer, title: str) -> Leftover:
    error = ""  # the engine may be removing it itself, and then reports an error
    for _ in range(TRIES):
        done = run(engines.remove_command(engine, one.name), timeout=engines.PATIENCE)
        if done.returncode == 0 or run(engine.argv("inspect", one.name), timeout=engines.PATIENCE).returncode:
            return Leftover(f"{title}: removed")
        error = done.stderr.strip()
    return Leftover(f"{title} could not be removed: {error}", remains=True)


def _world() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"


def _born(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        # The program's name may contain anything; it ends at the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) if fields[0] not in {"Z", "X"} else None
    return None


WHERE = "the container"
#: Prefixes of findings about the host's kernel and user that do not apply inside a container.
HOST_ONLY = ("no-module ", "no-root ")


class Container(Machine):
    name: ClassVar[str] = "container"
    shares_kernel: ClassVar[bool] = True
    keeps_kernel: ClassVar[bool] = True

    def __init__(self, options: MachineOptions = NO_OPTIONS) -> None:
        super().__init__(options)
        #: The working engine and its image, from the first rig on.
        self._ready: tuple[engines.Engine, str] | None = None
        self._found: engines.EngineSearch | None = None
        #: Identity of each disk when it was first used, right after it was leased.
        self._nodes: dict[str, engines.DiskNode] = {}

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*model_refusals(spec), *host_refusals(spec, ignored=("no-program ",)), *self._engine().refusals]

    def kernel_refusal(self, kernel: str) -> str:
        return f"containers run the kernel of the host ({os.uname().release}), not {kernel}"

    def known(self, spec: RigSpec) -> Mapping[str, str]:  # noqa: ARG002 - its programs are those of the image
        return {"kernel": os.uname().release}

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        engine, image_tag = await self._prepare()
        disks = tuple(self._check_identity(name) for name in self.options.disks[: len(spec.disks)])
        box = await asyncio.to_thread(make_box, image_tag, disks, spec, scratch)
        first = await children.spawn_with_pipes(engines.start_command(engine, box))
        try:
            await _wait_until_up(first)
            enter = engines.enter_command(engine, box.name)
            facts = await asyncio.to_thread(self._query_facts, engine, enter, spec)
            names = self.options.disks[: len(spec.disks)]
            yield ShellRig(
                enter, engines.FOLDER, names, facts, WHERE, engines.SWEEP, before=identity_script(self.options)
            )
        finally:
            await _stop(engine, box, first)

    # A name must not lead to another disk in the middle of a run.
    def _check_identity(self, name: str) -> engines.DiskNode:
        try:
            now = disk_node(name)
        except OSError as error:
            raise RigLost(f"{name} is gone: {error.strerror}") from error
        if self._nodes.setdefault(name, now) != now:
            was = self._nodes[name]
            raise HarnessBroken(
                f"{name} is not the device that was leased",
                details=f"it was {was.node} ({was.major}:{was.minor}), and is {now.node} ({now.major}:{now.minor})",
                resolution="check the disk; the other device was not written to",
            )
        return now

    def _engine(self) -> engines.EngineSearch:
        if self._found is None:
            self._found = engines.find_engine()
        return self._found

    async def _prepare(self) -> tuple[engines.Engine, str]:
        if self._ready is None:
            have = await asyncio.to_thread(self._engine)
            if have.engine is None:
                raise HarnessBroken(
                    "no container can be started",
                    details="\n".join(one.message for one in have.refusals),
                    resolution="`matrix doctor --on container` shows what is missing",
                )
            image_tag = await engines.provide(have.engine, self.options.progress, self.options.notice)
            engine = await asyncio.to_thread(engines.find_working, have.engine, image_tag, self.options.notice)
            self._ready = engine, image_tag
        return self._ready

    def _query_facts(self, engine: engines.Engine, enter: tuple[str, ...], spec: RigSpec) -> dict[str, str]:
        answer = requirements.query(enter, spec, WHERE)
        lines = [line for line in answer.splitlines() if not line.startswith(HOST_ONLY)]
        if lacking := list(requirements.refusals("\n".join(lines), WHERE)):
            raise HarnessBroken(
                f"the image lacks requirements of this layout: {'; '.join(one.brief for one in lacking)}",
                resolution=f"install them in the image, or unset {engines.IMAGE_VARIABLE}",
            )
        return {**requirements.facts("\n".join(lines)), "engine": engine.kind}


def make_box(image_tag: str, disks: tuple[engines.DiskNode, ...], spec: RigSpec, scratch: Path) -> engines.Box:
    # Modules are loaded now, so that their devices have numbers.
    if spec.modules:
        with suppress(HarnessBroken):  # a host without modprobe keeps the modules it has
            process.run(["modprobe", "--all", "--quiet", "--", *spec.modules], timeout=engines.PATIENCE)
    memory = os.environ.get("MATRIX_MEMORY", engines.MEMORY)
    Path(memory).mkdir(parents=True, exist_ok=True)
    return engines.Box(
        name=f"matrix-{secrets.token_hex(6)}",
        image=image_tag,
        disks=disks,
        spec=spec,
        run=str(scratch.absolute()),
        owner=str(Owner.me()),
        memory=str(Path(memory).absolute()),
        mapper=engines.mapper_major(Path("/proc/devices").read_text())
        if Path(engines.MAPPER_CONTROL).exists()
        else None,
        host_paths=tuple(one for one in (*engines.HOST_FOLDERS, *engines.MD_FOLDERS) if Path(one).exists()),
    )


def disk_node(name: str) -> engines.DiskNode:
    node = os.path.realpath(name)
    number = Path(node).stat().st_rdev
    major, minor = os.major(number), os.minor(number)
    block = Path(f"/sys/dev/block/{major}:{minor}").resolve()
    # Tunables belong to the whole drive, where sysfs has one.
    drive = (block / "device").resolve()
    return engines.DiskNode(name, node, major, minor, str(drive if block.is_relative_to(drive) else block))


async def _wait_until_up(first: asyncio.subprocess.Process) -> None:
    assert first.stdout  # noqa: S101 - for the type checker; it was asked for
    assert first.stderr  # noqa: S101
    try:
        async with time_limit(engines.PATIENCE):
            line = (await first.stdout.readline()).decode(errors="replace").strip()
            if line == "up":
                return
            complaint = (await first.stderr.read()).decode(errors="replace").strip()
    except TimeoutError:
        raise RigLost(f"the container did not start within {engines.PATIENCE:g} s") from None
    raise RigLost(line or "the container did not start", tail=complaint[-4000:])


async def _stop(engine: engines.Engine, box: engines.Box, first: asyncio.subprocess.Process) -> None:
    await children.hang_up(first, LAST_BREATH)
    if first.returncode:
        await asyncio.to_thread(process.run, engines.remove_command(engine, box.name), timeout=engines.PATIENCE)
