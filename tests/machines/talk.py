"""Stand-ins that speak what QEMU and its guest agent speak, at the other end of a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from runner.machines.qemu.backing import Served
from runner.machines.qemu.guest import Guest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []}}
#: Far more turns of the event loop than an answer takes to arrive.
TURNS = 200


class Agent:
    """A guest agent: whatever it is told to run says something after a while, and has ended then."""

    def __init__(self, bell: socket.socket, words: socket.socket, says: bytes) -> None:
        self.bell, self.words = bell, words
        self.asked: list[str] = []
        self.says = says
        #: What it has to say of a shell besides.
        self.status: dict[str, object] = {}
        #: Whether a shell comes to the end of its script.
        self.is_through = True
        self.ended = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    def answer(self, name: str, arguments: dict[str, Any]) -> object:
        """What it says."""
        self.asked.append(name)
        if name == "guest-exec":
            self._work = asyncio.create_task(self.work(arguments["arg"][1]))
            return {"pid": 1}
        return {"exited": self.ended.is_set(), **self.status}

    async def work(self, script: str) -> None:
        """What was to be run."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        last = f"\n{script.split()[-1]}\n" if self.is_through else ""
        self.words.send(self.says + last.encode())
        self.ended.set()

    def stop(self) -> None:
        """Leave undone what is left to do."""
        if self._work:
            self._work.cancel()


async def requests(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """What is asked; nothing but the closing brace tells where a request ends."""
    text = ""
    while chunk := await reader.read(2**16):
        text += chunk.decode()
        with suppress(ValueError):
            asked = json.loads(text)
            text = ""
            yield asked


async def serve(agent: Agent, end: socket.socket) -> None:
    """Answer one request after the other."""
    reader, writer = await asyncio.open_unix_connection(sock=end)
    async for asked in requests(reader):
        said = {"return": agent.answer(asked["execute"], asked.get("arguments", {})), "id": asked.get("id")}
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
async def talking(says: bytes = b"") -> AsyncIterator[tuple[Guest, Agent]]:
    """A guest without a machine: both its conversations are with us."""
    pairs = [socket.socketpair() for _ in range(4)]
    (qmp, _), (agent, _), (bell, rings), (words, speaks) = pairs
    other = Agent(rings, speaks, says)
    servers = [asyncio.create_task(mumble(pairs[0][1])), asyncio.create_task(serve(other, pairs[1][1]))]
    with tempfile.TemporaryFile() as console:
        guest = Guest(cast("Any", None), console, bell, words, Served())
        try:
            await guest.connect(qmp, agent)
            yield guest, other
        finally:
            other.stop()
            await guest.hang_up()
            await asyncio.gather(*servers)
            for pair in pairs:
                for end in pair:
                    end.close()
