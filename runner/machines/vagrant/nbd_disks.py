"""Disks of a machine: nameless files, each with a server at a socket. All end with this process."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.process import is_gone, kill, spawn
from runner.machines.qemu.disk_files import open_nameless
from runner.machines.vagrant.vagrantfile_settings import temporary_disk
from runner.simdisks.clib import Board, build_library, load_library
from runner.simdisks.disk import links_of
from runner.simdisks.server import explain_exit, plain_command, socket_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Protocol

    from runner.machines.vagrant.vagrantfile_settings import ServedDisk
    from runner.simdisks.clib import Library, Report
    from runner.simdisks.disk import Disk

    class DiskProvider(Protocol):
        def __call__(
            self, disks: tuple[Disk, ...], scratch: Path, folder: Path
        ) -> AbstractAsyncContextManager[DiskServers]: ...


DEADLINE = 30.0


@dataclass
class DiskServers:
    disks: tuple[Disk, ...]
    files: tuple[IO[bytes], ...]
    sockets: tuple[Path, ...]
    #: Their entries in the plan for the Vagrantfile.
    plan_entries: tuple[ServedDisk, ...]
    board: Board | None = None
    servers: list[asyncio.subprocess.Process] = field(default_factory=list)

    def reports(self) -> tuple[Report, ...]:
        return tuple(self.board.report(number) for number in range(len(self.disks))) if self.board else ()

    async def find_ended_server(self) -> tuple[str, str] | None:
        """Return the reason and the remedy if a server has ended."""
        gone = (at for at, server in enumerate(self.servers) if is_gone(server.pid))
        first = next(gone, None)
        return None if first is None else explain_exit(first, await self.servers[first].wait())

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
    """Return socket paths that cannot be guessed."""
    return tuple(folder / secrets.token_hex(8) for _ in range(number))


async def start_server(
    socket: Path, argv: Sequence[str], descriptors: Sequence[int], stack: AsyncExitStack
) -> asyncio.subprocess.Process:
    server = await spawn(argv, pass_fds=descriptors)
    stack.push_async_callback(kill, server)
    await _wait_for_socket(socket, server)
    return server


def command(made: DiskServers, code: Library | None, number: int, sheet: int) -> tuple[list[str], tuple[int, ...]]:
    image, socket = made.files[number].fileno(), made.sockets[number]
    if code is None or made.disks[number].physics is None:
        return plain_command(socket, image), (image,)
    return socket_command(code.plugin, made.disks, number, socket, image, sheet), (image, sheet)


async def _wait_for_socket(socket: Path, server: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(DEADLINE):
        while not socket.exists():  # noqa: ASYNC240 - the socket's creation cannot be awaited, and looking is quick
            if server.returncode is not None:
                raise HarnessBroken(f"the disk's server ended with status {server.returncode}")
            await asyncio.sleep(0.01)
