"""What a guest's standing shell is told to run, and how that ended.

A shell of its own for each script would be the guest agent's to start, which takes an emulated processor longer than
most of what scripts have to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

CHUNK = 2**12
#: The status of an order whose output would be lost.
UNHEARD = 75
#: The error of an order to a dead shell.
GONE = b"gone"


class ShellGone(Exception):
    pass


class Orders:
    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self._heard = b""
        self._number = 0
        #: The last order; its result is the status that it ended with.
        self._last: asyncio.Task[int] | None = None

    async def free(self, patience: float) -> bool:
        """Return whether the shell finishes the last order before long. Raise ShellGone if it is dead."""
        if self._last is None:
            return True
        await asyncio.wait({self._last}, timeout=patience)
        if not self._last.done():
            return False
        self._last.result()
        return True

    def give(self, script: str) -> asyncio.Task[int]:
        """Run a script. Cancelling the wait does not stop it. The last order must have ended."""
        self._number += 1
        self._last = asyncio.create_task(self._obeyed(self._number, script.encode()))
        return self._last

    async def forget(self) -> None:
        """Forget the last order: its shell no longer exists."""
        if self._last:
            self._last.cancel()
            await asyncio.gather(self._last, return_exceptions=True)
        self._last, self._heard = None, b""

    async def _obeyed(self, number: int, script: bytes) -> int:
        order = b"%d %d\n%b" % (number, len(script), script)
        await asyncio.get_running_loop().sock_sendall(self._end, order)
        while (line := await self._line()) != GONE:
            which, status = line.split()
            if int(which) == number:
                return int(status)
        raise ShellGone

    async def _line(self) -> bytes:
        while b"\n" not in self._heard:
            chunk = await asyncio.get_running_loop().sock_recv(self._end, CHUNK)
            if not chunk:
                raise EOFError
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        return line
