"""The disks of a machine: nameless files, and before each a server at a socket. All of it ends with us."""

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
        """What puts disks behind a machine."""

        def __call__(self, disks: tuple[Disk, ...], scratch: Path, folder: Path) -> AbstractAsyncContextManager[Bay]:
            """At sockets in `folder`; let go of when the block is left."""


DEADLINE = 30.0


@dataclass
class Bay:
    """The disks of one machine."""

    disks: tuple[Disk, ...]
    files: tuple[IO[bytes], ...]
    sockets: tuple[Path, ...]
    #: As the machine is told of them.
    shown: tuple[Served, ...]
    board: Board | None = None
    servers: list[asyncio.subprocess.Process] = field(default_factory=list)

    def reports(self) -> tuple[Report, ...]:
        """What each has done, if any is modelled; of the others nothing is known."""
        return tuple(self.board.report(number) for number in range(len(self.disks))) if self.board else ()

    async def lacks_one(self) -> tuple[str, str] | None:
        """Why a server ended, if one did, and what to do about it."""
        gone = (at for at, server in enumerate(self.servers) if is_gone(server.pid))
        first = next(gone, None)
        return None if first is None else explain_exit(first, await self.servers[first].wait())

    def emptied(self) -> None:
        """Let all of them read as zeros. Nobody may be at work on them."""
        for file, disk in zip(self.files, self.disks, strict=True):
            file.truncate(0)
            file.truncate(disk.size)


@asynccontextmanager
async def bay(disks: tuple[Disk, ...], scratch: Path, folder: Path) -> AsyncIterator[Bay]:
    """Fresh disks, at sockets in `folder`; what is written is nowhere when the block is left."""
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
            socket.chmod(0o666)  # QEMU is another user, and what is behind it is ours to lose
        yield made


def sockets_in(folder: Path, number: int) -> tuple[Path, ...]:
    """Where servers are to answer; not to be guessed."""
    return tuple(folder / secrets.token_hex(8) for _ in range(number))


async def answering(
    socket: Path, argv: Sequence[str], descriptors: Sequence[int], stack: AsyncExitStack
) -> asyncio.subprocess.Process:
    """A server that answers at a socket, as yet only to ourselves, until the stack is left."""
    server = await spawn(argv, pass_fds=descriptors)
    stack.push_async_callback(kill, server)
    await _there(socket, server)
    return server


def command(made: Bay, code: Library | None, number: int, sheet: int) -> tuple[list[str], tuple[int, ...]]:
    """The server of a disk, and what it inherits."""
    image, socket = made.files[number].fileno(), made.sockets[number]
    if code is None or made.disks[number].physics is None:
        return plain_command(socket, image), (image,)
    return socket_command(code.plugin, made.disks, number, socket, image, sheet), (image, sheet)


async def _there(socket: Path, server: asyncio.subprocess.Process) -> None:
    """Wait for a socket."""
    async with asyncio.timeout(DEADLINE):
        while not socket.exists():  # noqa: ASYNC240 - nothing tells when it is there, and looking is quick
            if server.returncode is not None:
                raise HarnessBroken(f"the disk's server ended with status {server.returncode}")
            await asyncio.sleep(0.01)
