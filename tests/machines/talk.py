"""Stand-ins that speak what QEMU and its guest agent speak, at the other end of a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from matrix_runner.machines.qemu.guest import DiskFiles, Guest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []}}
#: Far more turns of the event loop than an answer takes to arrive.
TURNS = 200


class Inside:
    """A guest: its standing shell says something after a while, whatever it is told to run; its agent, if it is asked."""

    def __init__(self, bell: socket.socket, orders: socket.socket, words: socket.socket, says: bytes) -> None:
        self.bell, self.orders, self.words = bell, orders, words
        #: What the shell was told to run, and what the agent was asked.
        self.told: list[str] = []
        self.asked: list[str] = []
        self.says = says
        #: How the shell ends what it was told.
        self.status = 0
        #: Whether it comes to the end of a script.
        self.is_through = True
        #: What the agent has to say of a shell that it started.
        self.gathered: dict[str, object] = {}

    def answer(self, name: str) -> object:
        """What the agent says."""
        self.asked.append(name)
        return {"pid": 1} if name == "guest-exec" else {"exited": True, **self.gathered}

    async def obey(self) -> None:
        """Run one order after the other."""
        reader, writer = await asyncio.open_unix_connection(sock=self.orders)
        try:
            while line := await reader.readline():
                number, length = line.split()
                script = (await reader.readexactly(int(length))).decode()
                self.told.append(script)
                await self.work(script)
                if self.status < 0:  # as by a signal
                    writer.write(b"gone\n")
                    break
                writer.write(b"%b %d\n" % (number, self.status))
        finally:
            writer.close()

    async def work(self, script: str) -> None:
        """What was to be run."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        last = f"\n{script.split()[-1]}\n" if self.is_through else ""
        self.words.send(self.says + last.encode())


async def requests(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """What is asked; nothing but the closing brace tells where a request ends."""
    text = ""
    while chunk := await reader.read(2**16):
        text += chunk.decode()
        with suppress(ValueError):
            asked = json.loads(text)
            text = ""
            yield asked


async def serve(inside: Inside, end: socket.socket) -> None:
    """Answer one request after the other."""
    reader, writer = await asyncio.open_unix_connection(sock=end)
    async for asked in requests(reader):
        said = {"return": inside.answer(asked["execute"]), "id": asked.get("id")}
        writer.write(json.dumps(said).encode() + b"\n")
    writer.close()


async def mumble(end: socket.socket) -> None:
    """A QEMU that greets, and then hears but never answers."""
    reader, writer = await asyncio.open_unix_connection(sock=end)
    writer.write(json.dumps(GREETING).encode() + b"\n")
    async for asked in requests(reader):
        if asked["execute"] == "qmp_capabilities":
            writer.write(json.dumps({"return": {}, "id": asked.get("id")}).encode() + b"\n")
    writer.close()


@asynccontextmanager
async def talking(says: bytes = b"") -> AsyncIterator[tuple[Guest, Inside]]:
    """A guest without a machine: all its conversations are with us."""
    pairs = [socket.socketpair() for _ in range(5)]
    (qmp, mumbles), (agent, serves), (bell, rings), (orders, obeys), (words, speaks) = pairs
    inside = Inside(rings, obeys, speaks, says)
    servers = [asyncio.create_task(one) for one in (mumble(mumbles), serve(inside, serves))]
    obeying = asyncio.create_task(inside.obey())
    with tempfile.TemporaryFile() as console:
        guest = Guest(cast("Any", None), console, bell, orders, words, DiskFiles())
        try:
            await guest.connect(qmp, agent)
            yield guest, inside
        finally:
            obeying.cancel()
            await asyncio.gather(obeying, return_exceptions=True)
            await guest.orders.forget()
            await guest.hang_up()
            await asyncio.gather(*servers)
            for pair in pairs:
                for end in pair:
                    end.close()
