"""What a guest's shell says, heard while it says it.

It has a channel of its own: the guest agent would gather it, spell it out in base64 and hand it over when asked for it,
which takes an emulated processor longer than most of what is said.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import socket

#: Nobody means to say more.
MOST = 16 * 2**20
CHUNK = 2**16


class Words:
    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self._heard = bytearray()

    def forget(self) -> None:
        """Start anew: output still in transit belongs to a script that no caller waits for."""
        self._heard.clear()
        with suppress(OSError):
            while self._end.recv(CHUNK):
                pass

    @property
    def so_far(self) -> bytes:
        return bytes(self._heard)

    async def until(self, last: bytes) -> bytes:
        loop, start = asyncio.get_running_loop(), 0
        while (at := self._heard.find(last, start)) < 0:
            start = max(0, len(self._heard) - len(last))
            chunk = await loop.sock_recv(self._end, CHUNK)
            if not chunk:
                raise EOFError
            self._heard += chunk
            if len(self._heard) > MOST:
                raise HarnessBroken("a step wrote more than anybody would read (16 MiB)")
        return bytes(self._heard[:at])
