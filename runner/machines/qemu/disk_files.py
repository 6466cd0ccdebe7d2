"""What stands behind a machine's disks: nameless files, and before them the servers of those that are modelled."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Protocol

from runner.base.process import is_gone, kill, spawn_on_socket
from runner.simdisks.clib import Board, Report, build_library, load_library
from runner.simdisks.disk import links_of
from runner.simdisks.server import stdio_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from runner.simdisks.disk import Disk
    from runner.simdisks.faults import Fault


@dataclass
class Served:
    """The disks of one machine, as whoever starts it sees them."""

    #: One for each disk, for QEMU to inherit: a file, or a connection to a server.
    descriptors: tuple[int, ...] = ()
    servers: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    board: Board | None = None
    ours: list[socket.socket] = field(default_factory=list)
    #: What QEMU holds with them as long as it lives.
    kept: tuple[int, ...] = ()

    def handed_over(self) -> None:
        """QEMU has its ends: with ours closed, a server ends as soon as QEMU does."""
        for end in self.ours:
            end.close()

    def reports(self) -> tuple[Report, ...]:
        """What each disk has done, in their order, if any is modelled; of the others nothing is known."""
        return tuple(self.board.report(number) for number in range(len(self.descriptors))) if self.board else ()

    def add_fault(self, faults: Iterable[Fault]) -> None:
        """Let this go wrong, counted from now."""
        if self.board:
            now = self.board.clock()
            for fault in faults:
                self.board.add_fault(replace(fault, at=now + fault.at))

    def lacks_one(self) -> bool:
        """Whether a server ended, even if nobody was told yet."""
        return any(is_gone(server.pid) for server in self.servers.values())

    async def first_to_end(self) -> tuple[int, int]:
        """Wait until a server ends: its disk, and its exit status."""
        waiting = {asyncio.create_task(server.wait()): number for number, server in self.servers.items()}
        try:
            if not waiting:
                await asyncio.Event().wait()
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            first = next(iter(done))
            return waiting[first], first.result()
        finally:
            for task in waiting:
                task.cancel()


class Backing(Protocol):
    """What puts disks behind a machine; gone, or let go of, when the block is left."""

    def __call__(self, disks: tuple[Disk, ...], scratch: Path, complaints: int) -> AbstractAsyncContextManager[Served]:
        """`complaints`: where servers may write what is wrong."""


def nameless(scratch: Path) -> IO[bytes]:
    """A file without a name: when the last who has it open is gone, so is the file."""
    return tempfile.TemporaryFile(dir=scratch)


@asynccontextmanager
async def backed(disks: tuple[Disk, ...], scratch: Path, complaints: int) -> AsyncIterator[Served]:
    """Fresh, empty disks; all of it is gone when the block is left, however that happens."""
    async with AsyncExitStack() as stack:
        files = [stack.enter_context(nameless(scratch)) for _ in disks]
        for file, disk in zip(files, disks, strict=True):
            file.truncate(disk.size)
        served = Served(tuple(file.fileno() for file in files))
        if any(disk.physics for disk in disks):
            sheet = stack.enter_context(nameless(scratch)).fileno()
            await _serve(served, disks, sheet, complaints, stack)
        yield served


async def _serve(served: Served, disks: tuple[Disk, ...], sheet: int, complaints: int, stack: AsyncExitStack) -> None:
    """A server for each modelled disk, before its file; what they share is on the sheet."""
    code = load_library(await build_library())
    served.board = Board(code, sheet, tuple(link.rate for link in links_of(disks)))
    stack.callback(served.board.close)
    ends = list(served.descriptors)
    for number, disk in enumerate(disks):
        if disk.physics is None:
            continue
        image, (ours, theirs) = ends[number], socket.socketpair()
        served.ours.append(ours)
        stack.callback(ours.close)
        ends[number] = ours.fileno()
        with theirs:
            argv = stdio_command(code.plugin, disks, number, image, sheet)
            server = await spawn_on_socket(argv, theirs.fileno(), pass_fds=(image, sheet), complaints=complaints)
        served.servers[number] = server
        stack.push_async_callback(kill, server)
    served.descriptors = tuple(ends)
