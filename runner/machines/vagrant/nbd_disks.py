"""The disks of a machine: nameless files, each with a server at a socket. All end with this process."""

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
from runner.machines.qemu.disk_files import nameless
from runner.machines.vagrant.vagrantfile_settings import served
from runner.simdisks.clib import Board, build_library, load_library
from runner.simdisks.disk import links_of
from runner.simdisks.server import explain_exit, plain_command, socket_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Protocol

    from runner.machines.vagrant.vagrantfile_settings import Served
    from runner.simdisks.clib import Library, Report
    from runner.simdisks.disk import Disk

    class Bays(Protocol):
        def __call__(
            self, disks: tuple[Disk, ...], scratch: Path, folder: Path
        ) -> AbstractAsyncContextManager[Bay]: ...


DEADLINE = 30.0


@dataclass
class Bay:
    disks: tuple[Disk, ...]
    files: tuple[IO[bytes], ...]
    sockets: tuple[Path, ...]
    #: As the Vagrantfile describes them.
    shown: tuple[Served, ...]
    board: Board | None = None
    servers: list[asyncio.subprocess.Process] = field(default_factory=list)

    def reports(self) -> tuple[Report, ...]:
        return tuple(self.board.report(number) for number in range(len(self.disks))) if self.board else ()

    async def lacks_one(self) -> tuple[str, str] | None:
        """Return why a server ended, if one did, and what to do."""
        gone = (at for at, server in enumerate(self.servers) if is_gone(server.pid))
        first = next(gone, None)
        return None if first is None else explain_exit(first, await self.servers[first].wait())

    def emptied(self) -> None:
        """Make all disks read as zeros. They must not be in use."""
        for file, disk in zip(self.files, self.disks, strict=True):
            file.truncate(0)
            file.truncate(disk.size)


@asynccontextmanager
async def bay(disks: tuple[Disk, ...], scratch: Path, folder: Path) -> AsyncIterator[Bay]:
    async with AsyncExitStack() as stack:
        files = tuple(stack.enter_context(nameless(scratch)) for _ in disks)
        sockets = sockets_in(folder, len(disks))
        made = Bay(disks, files, sockets, tuple(map(served, disks, count(), sockets)))
        made.emptied()
        sheet = stack.enter_context(nameless(scratch)).fileno()
        code = load_library(await build_library()) if any(disk.physics for disk in disks) else None
        if code:
            made.board = Board(code, sheet, tuple(link.rate for link in links_of(disks)))
            stack.callback(made.board.close)
        for number, socket in enumerate(made.sockets):
            argv, descriptors = command(made, code, number, sheet)
            made.servers.append(await answering(socket, argv, descriptors, stack))
            socket.chmod(0o666)  # QEMU is another user, and these disks hold only test data
        yield made


def sockets_in(folder: Path, number: int) -> tuple[Path, ...]:
    """Return socket paths that cannot be guessed."""
    return tuple(folder / secrets.token_hex(8) for _ in range(number))


async def answering(
    socket: Path, argv: Sequence[str], descriptors: Sequence[int], stack: AsyncExitStack
) -> asyncio.subprocess.Process:
    server = await spawn(argv, pass_fds=descriptors)
    stack.push_async_callback(kill, server)
    await _there(socket, server)
    return server


def command(made: Bay, code: Library | None, number: int, sheet: int) -> tuple[list[str], tuple[int, ...]]:
    image, socket = made.files[number].fileno(), made.sockets[number]
    if code is None or made.disks[number].physics is None:
        return plain_command(socket, image), (image,)
    return socket_command(code.plugin, made.disks, number, socket, image, sheet), (image, sheet)


async def _there(socket: Path, server: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(DEADLINE):
        while not socket.exists():  # noqa: ASYNC240 - the socket's creation cannot be awaited, and looking is quick
            if server.returncode is not None:
                raise HarnessBroken(f"the disk's server ended with status {server.returncode}")
            await asyncio.sleep(0.01)
