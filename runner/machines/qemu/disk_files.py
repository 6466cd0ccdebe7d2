"""Disks of a machine: nameless files, with servers for simulated ones."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Protocol

from runner.base.process import kill, spawn_on_socket
from runner.simdisks.clib import Board, Report, build_library, load_library
from runner.simdisks.disk import links_of
from runner.simdisks.server import stdio_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from runner.simdisks.disk import Disk, Fault


@dataclass
class DiskFiles:
    #: One descriptor for each disk, which QEMU inherits: a file, or a connection to a server.
    descriptors: tuple[int, ...] = ()
    servers: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    board: Board | None = None
    own_ends: list[socket.socket] = field(default_factory=list)
    #: Descriptors of locks, which QEMU only keeps open.
    locks: tuple[int, ...] = ()

    def reports(self) -> tuple[Report, ...]:
        return tuple(self.board.report(number) for number in range(len(self.descriptors))) if self.board else ()

    def add_faults(self, faults: Iterable[Fault]) -> None:
        if self.board:
            now = self.board.clock()
            for fault in faults:
                self.board.add_fault(replace(fault, at=now + fault.at))

    async def wait_for_end(self) -> tuple[int, int]:
        waiting = {asyncio.create_task(server.wait()): number for number, server in self.servers.items()}
        try:
            if not waiting:
                await asyncio.Event().wait()
            (first, *_), _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[first], first.result()
        finally:
            for task in waiting:
                task.cancel()


class DiskProvider(Protocol):
    def __call__(
        self, disks: tuple[Disk, ...], scratch: Path, complaints: int
    ) -> AbstractAsyncContextManager[DiskFiles]:
        """`complaints`: a descriptor for the servers' errors."""


def open_nameless(scratch: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=scratch)


@asynccontextmanager
async def serve_disks(disks: tuple[Disk, ...], scratch: Path, complaints: int) -> AsyncIterator[DiskFiles]:
    async with AsyncExitStack() as stack:
        files = [stack.enter_context(open_nameless(scratch)) for _ in disks]
        for file, disk in zip(files, disks, strict=True):
            file.truncate(disk.size)
        served = DiskFiles(tuple(file.fileno() for file in files))
        if any(disk.physics for disk in disks):
            sheet = stack.enter_context(open_nameless(scratch)).fileno()
            await _serve(served, disks, sheet, complaints, stack)
        yield served


async def _serve(
    served: DiskFiles, disks: tuple[Disk, ...], sheet: int, complaints: int, stack: AsyncExitStack
) -> None:
    """Start a server for the file of each simulated disk; the sheet is their shared memory."""
    code = load_library(await build_library())
    served.board = Board(code, sheet, tuple(link.rate for link in links_of(disks)))
    stack.callback(served.board.close)
    ends = list(served.descriptors)
    for number, disk in enumerate(disks):
        if disk.physics is None:
            continue
        image, (ours, theirs) = ends[number], socket.socketpair()
        served.own_ends.append(ours)
        stack.callback(ours.close)
        ends[number] = ours.fileno()
        with theirs:
            argv = stdio_command(code.plugin, disks, number, image, sheet)
            server = await spawn_on_socket(argv, theirs.fileno(), pass_fds=(image, sheet), complaints=complaints)
        served.servers[number] = server
        stack.push_async_callback(kill, server)
    served.descriptors = tuple(ends)
