"""The channels of a guest's standing shell: orders to it, and its output.

The guest agent could start a shell for each script and return the output in base64. On an emulated processor both take
longer than most scripts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import socket

#: The limit for the output of a script.
MOST = 16 * 2**20
CHUNK = 2**16
#: The status of an order whose output would be lost.
OUTPUT_LOST = 75
#: The answer to an order when the shell is dead.
GONE = b"gone"


class ShellGone(Exception):
    pass


class OutputChannel:
    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self._received = bytearray()

    def forget(self) -> None:
        """Discard old output. Output in transit belongs to a script without a waiting caller."""
        self._received.clear()
        with suppress(OSError):
            while self._end.recv(CHUNK):
                pass

    @property
    def received(self) -> bytes:
        return bytes(self._received)

    async def read_until(self, last: bytes) -> bytes:
        loop, start = asyncio.get_running_loop(), 0
        while (at := self._received.find(last, start)) < 0:
            start = max(0, len(self._received) - len(last))
            chunk = await loop.sock_recv(self._end, CHUNK)
            if not chunk:
                raise EOFError
            self._received += chunk
            if len(self._received) > MOST:
                raise HarnessBroken("a step wrote more than 16 MiB of output")
        return bytes(self._received[:at])


class OrderChannel:
    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self._received = b""
        self._number = 0
        #: The last order; its result is its exit status.
        self._last: asyncio.Task[int] | None = None

    async def is_free(self, patience: float) -> bool:
        """Return whether the shell finishes the last order within `patience` seconds. Raise ShellGone if it is dead."""
        if self._last is None:
            return True
        await asyncio.wait({self._last}, timeout=patience)
        if not self._last.done():
            return False
        self._last.result()
        return True

    def send(self, script: str) -> asyncio.Task[int]:
        """Run a script after the end of the last order. Cancelling the task does not stop the script."""
        self._number += 1
        self._last = asyncio.create_task(self._run(self._number, script.encode()))
        return self._last

    async def forget(self) -> None:
        """Forget the last order, because its shell no longer exists."""
        if self._last:
            self._last.cancel()
            await asyncio.gather(self._last, return_exceptions=True)
        self._last, self._received = None, b""

    async def _run(self, number: int, script: bytes) -> int:
        order = b"%d %d\n%b" % (number, len(script), script)
        await asyncio.get_running_loop().sock_sendall(self._end, order)
        while (line := await self._line()) != GONE:
            which, status = line.split()
            if int(which) == number:
                return int(status)
        raise ShellGone

    async def _line(self) -> bytes:
        while b"\n" not in self._received:
            chunk = await asyncio.get_running_loop().sock_recv(self._end, CHUNK)
            if not chunk:
                raise EOFError
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line
