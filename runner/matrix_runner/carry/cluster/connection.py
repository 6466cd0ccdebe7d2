"""A connection between a relay and a member of its cluster."""

import asyncio
import socket
from contextlib import nullcontext, suppress

from matrix_runner.base.time_limit import time_limit
from matrix_runner.carry.cluster.address import Certificates
from matrix_runner.carry.cluster.frames import LENGTHS, PULSE, BadFrame, Head, frame, lengths_of, parsed_head

_PART = 1 << 20  # bytes to wait for at a time
_BACKLOG = 512 << 20  # bytes that a peer has not taken, after which it counts as gone
_FAREWELL = 5.0  # seconds for the last messages
#: A link that is cut for 30 s ends a connection, also an idle one; a peer that is stopped does not.
_KEEPALIVE = {
    socket.SO_KEEPALIVE: (socket.SOL_SOCKET, 1),
    socket.TCP_KEEPIDLE: (socket.IPPROTO_TCP, 10),
    socket.TCP_KEEPINTVL: (socket.IPPROTO_TCP, 2),
    socket.TCP_KEEPCNT: (socket.IPPROTO_TCP, 10),
    socket.TCP_USER_TIMEOUT: (socket.IPPROTO_TCP, 30_000),
}


class Ended(Exception):
    """The connection ended, or the peer sent what no member sends."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        made: socket.socket = writer.get_extra_info("socket")
        if made.family in {socket.AF_INET, socket.AF_INET6}:
            for option, (level, value) in _KEEPALIVE.items():
                made.setsockopt(level, option, value)

    @property
    def peer(self) -> str:
        host, port = (self._writer.get_extra_info("peername") or ("gone", 0))[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def send(self, head: Head, body: bytes = b"") -> None:
        self._write(frame(head, body))

    def send_sign_of_life(self) -> None:
        self._write(PULSE)

    def _write(self, content: bytes) -> None:
        if self._writer.is_closing():
            raise Ended("the connection is closed")
        if self._writer.transport.get_write_buffer_size() > _BACKLOG:
            self.abort()
            raise Ended(f"it did not take {_BACKLOG >> 20} MiB of messages")
        self._writer.write(content)

    async def read(self, silence: float | None = None) -> tuple[Head, bytes]:
        """Return the next message. Raise Ended, also after so many seconds without a byte."""
        try:
            while True:
                head, body = lengths_of(await self._exactly(LENGTHS.size, silence))
                if head:
                    return parsed_head(await self._exactly(head, silence)), await self._exactly(body, silence)
        except (OSError, EOFError, TimeoutError, BadFrame) as error:
            self.abort()
            raise Ended("it closed the connection" if isinstance(error, EOFError) else str(error)) from error

    async def _exactly(self, count: int, silence: float | None) -> bytes:
        parts = list[bytes]()
        while count:
            async with time_limit(silence) if silence else nullcontext():
                parts.append(await self._reader.readexactly(min(count, _PART)))
            count -= len(parts[-1])
        return b"".join(parts)

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send what is not sent yet, and end."""
        try:
            with suppress(OSError, TimeoutError):
                self._writer.close()
                async with time_limit(_FAREWELL):
                    await self._writer.wait_closed()
        finally:
            self.abort()


async def open_connection(host: str, port: int, certificates: Certificates | None) -> Connection:
    context = certificates.client() if certificates else None
    return Connection(*await asyncio.open_connection(host, port, ssl=context))
