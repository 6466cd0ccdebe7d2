"""The standing shell of a guest: its channels, and texts that become shell functions as they repeat."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

#: The limit of functions, because each makes every fork a little slower.
MOST_TEXTS = 64
#: The comments at the start, which differ between cells with otherwise equal scripts.
_HEAD = re.compile(r"(?:#.*\n)+")


class ScriptCache:
    def __init__(self) -> None:
        self._once: set[str] = set()
        self._names: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def words(self, text: str) -> str:
        """Return a text as one word for `eval`: the name of its function, or the quoted text."""
        return self._names.get(_bare(text)) or quote(text)

    def definitions(self, successes: Iterable[str]) -> dict[str, str]:
        """Return definitions of texts with a second success. Each prints its name after the definition."""
        found: dict[str, str] = {}
        for text in map(_bare, successes):
            if text in self._once and text not in self._names and len(self._names) + len(found) < MOST_TEXTS:
                name = f"matrix_text_{len(self._names) + len(found)}"
                found[name] = f"{name}() {{\n{text}\n}}\ndeclare -F {name}\n"
                self._texts[name] = text
            self._once.add(text)
        return found

    def add(self, name: str) -> None:
        self._names[self._texts[name]] = name


def _bare(text: str) -> str:
    return _HEAD.sub("", text, count=1) if text.startswith("#") else text


MOST = 16 * 2**20
CHUNK = 2**16
#: The status of an order whose output would be lost.
OUTPUT_LOST = 75
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
