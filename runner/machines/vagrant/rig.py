"""A running machine of Vagrant, its rig, and its disks: nameless files, each with a server at a socket."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.base.process import is_gone, kill, spawn
from runner.machines import requirements
from runner.machines.base import RigLost
from runner.machines.qemu.disk_files import open_nameless
from runner.machines.shell import ShellRig
from runner.machines.vagrant import libvirt
from runner.machines.vagrant.box import FIND, NODE, parse_names, serial, temporary_disk
from runner.simdisks.clib import Board, build_library, load_library
from runner.simdisks.disk import links_of
from runner.simdisks.server import explain_exit, plain_command, socket_command, wait_for_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from runner.machines.base import RigSpec, Step, StepResult
    from runner.machines.vagrant.box import ServedDisk
    from runner.machines.vagrant.libvirt import Record
    from runner.simdisks.clib import Library, Report
    from runner.simdisks.disk import Disk

DEADLINE = 30.0


@dataclass
class DiskServers:
    disks: tuple[Disk, ...]
    files: tuple[IO[bytes], ...]
    sockets: tuple[Path, ...]
    plan_entries: tuple[ServedDisk, ...]
    board: Board | None = None
    servers: list[asyncio.subprocess.Process] = field(default_factory=list)

    def reports(self) -> tuple[Report, ...]:
        return tuple(self.board.report(number) for number in range(len(self.disks))) if self.board else ()

    async def find_ended_server(self) -> tuple[str, str] | None:
        for number, server in enumerate(self.servers):
            if is_gone(server.pid):
                return explain_exit(number, await server.wait())
        return None

    def empty(self) -> None:
        """Make all disks read as zeros. The machine must not use them meanwhile."""
        for file, disk in zip(self.files, self.disks, strict=True):
            file.truncate(0)
            file.truncate(disk.size)


@asynccontextmanager
async def serve_disks(disks: tuple[Disk, ...], scratch: Path, folder: Path) -> AsyncIterator[DiskServers]:
    async with AsyncExitStack() as stack:
        files = tuple(stack.enter_context(open_nameless(scratch)) for _ in disks)
        sockets = socket_paths(folder, len(disks))
        made = DiskServers(disks, files, sockets, tuple(map(temporary_disk, disks, count(), sockets)))
        made.empty()
        sheet = stack.enter_context(open_nameless(scratch)).fileno()
        code = load_library(await build_library()) if any(disk.physics for disk in disks) else None
        if code:
            made.board = Board(code, sheet, tuple(link.rate for link in links_of(disks)))
            stack.callback(made.board.close)
        for number, socket in enumerate(made.sockets):
            argv, descriptors = command(made, code, number, sheet)
            made.servers.append(await start_server(socket, argv, descriptors, stack))
            socket.chmod(0o666)  # QEMU runs as another user, and the disks contain only test data
        yield made


def socket_paths(folder: Path, number: int) -> tuple[Path, ...]:
    return tuple(folder / secrets.token_hex(8) for _ in range(number))


async def start_server(
    socket: Path, argv: Sequence[str], descriptors: Sequence[int], stack: AsyncExitStack
) -> asyncio.subprocess.Process:
    server = await spawn(argv, pass_fds=descriptors)
    stack.push_async_callback(kill, server)
    await wait_for_socket(socket, server, DEADLINE)
    return server


def command(made: DiskServers, code: Library | None, number: int, sheet: int) -> tuple[list[str], tuple[int, ...]]:
    image, socket = made.files[number].fileno(), made.sockets[number]
    if code is None or made.disks[number].physics is None:
        return plain_command(socket, image), (image,)
    return socket_command(code.plugin, made.disks, number, socket, image, sheet), (image, sheet)


class DiskProvider(Protocol):
    def __call__(
        self, disks: tuple[Disk, ...], scratch: Path, folder: Path
    ) -> AbstractAsyncContextManager[DiskServers]: ...


#: The arguments are quoted, because ssh joins them and the shell in the machine splits them again. $1: ssh's
#: configuration; $2: the socket of the connection.
INTO = 'config=$1 line=$2; shift 2; exec ssh -F "$config" -S "$line" node -- "$(printf "%q " sudo -n "$@")"'
FOLDER = "/run/matrix/rig"
#: After the runner has emptied the disks, the machine's cache of them is outdated.
FORGET = 'export PATH=$PATH:/usr/sbin:/sbin; for disk do blockdev --flushbufs "$disk"; done'
PATIENCE = 120.0


def enter_command(config: Path, line: Path) -> tuple[str, ...]:
    return ("bash", "-c", INTO, "into", str(config), str(line))


def connection_command(config: Path, line: Path) -> list[str]:
    """Return the command of the connection that all scripts share. It ends with this process, and they end with it."""
    return ["ssh", "-F", str(config), "-N", "-M", "-S", str(line), "-o", "ServerAliveInterval=15", NODE]


@dataclass(frozen=True)
class RunningMachine:
    record: Record
    servers: DiskServers
    enter: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def where(self) -> str:
        return f"the machine {self.record.domain}"

    def run_script(self, script: str, *words: str) -> str:
        done = process.run([*self.enter, "bash", "-c", script, "matrix", *words], timeout=PATIENCE)
        if done.returncode:
            raise RigLost(
                f"no shell on {self.where}: status {done.returncode}",
                tail=f"{done.stderr.strip()[-2000:]}\n{libvirt.describe_state(self.record.domain)}",
            )
        return done.stdout

    def disks(self) -> tuple[str, ...]:
        count = len(self.servers.disks)
        names = parse_names(self.run_script(FIND, *map(serial, range(count))), count)
        if not all(names):
            raise HarnessBroken(
                f"{self.where} shows no disk with the serial number {serial(names.index(''))}",
                resolution="add udev and the drivers of this bus to your own box",
            )
        return names

    def empty_disks(self, disks: Sequence[str]) -> None:
        self.servers.empty()
        self.run_script(FORGET, *disks)


class VagrantRig(ShellRig):
    def __init__(self, up: RunningMachine, disks: Sequence[str], facts: Mapping[str, str]) -> None:
        super().__init__(up.enter, FOLDER, disks, facts, up.where)
        self._up = up

    def disk_reports(self) -> tuple[Report, ...]:
        return self._up.servers.reports()

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:
        try:
            results = await super().run(steps, expected=expected, deadline=deadline)
        except RigLost as lost:
            state = await asyncio.to_thread(libvirt.describe_state, self._up.record.domain)
            raise RigLost(lost.brief, tail=f"{lost.tail}\n{state}".strip(), resolution=lost.resolution) from None
        if why := await self._up.servers.find_ended_server():
            raise RigLost(why[0], resolution=why[1])
        return results


def query_facts(up: RunningMachine, spec: RigSpec) -> dict[str, str]:
    answer = requirements.query(up.enter, spec, up.where)
    lacking = [
        one for one in requirements.refusals(answer, up.where) if "has no" in one.brief and "kernel of" not in one.brief
    ]
    if lacking:
        raise HarnessBroken(
            f"{up.where} lacks programs",
            details="\n".join(f"- {one.message}" for one in lacking),
            resolution="add them to your box, or unset MATRIX_BOX and let `matrix` build one",
        )
    return {**requirements.facts(answer), "without": missing_modules(answer), **up.facts}


def missing_modules(output: str) -> str:
    return " ".join(line.split()[1] for line in output.splitlines() if line.startswith("no-module "))
