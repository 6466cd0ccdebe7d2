"""A `matrix batch` process of a worker: it executes one request after the other, and a crash or a hang stays in it."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import remove_abandoned
from matrix_runner.base.process import hang_up, kill, spawn_with_pipes
from matrix_runner.base.time_limit import time_limit
from matrix_runner.carry.cluster.frames import MOST_LINES

SCRATCH = "matrix-batch"  # the kind of its temporary folder
COMMAND = (sys.executable, "-m", "matrix_runner.cli", "batch")
SILENCE = 120.0  # seconds without a line after which the process counts as hung; it writes one every 10 s
_FAREWELL = 120.0  # seconds that it has to take its rig down, and to return physical disks
_CHUNK, _TAIL = 1 << 16, 20


class BatchDied(HarnessBroken):
    pass


class BatchProcess:
    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self._rest = b""
        self._complaints = deque[bytes](maxlen=_TAIL)
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, hosts: Path | None = None) -> Self:
        """`hosts`: the hosts.yaml with the disks that it may use."""
        return cls(await spawn_with_pipes([*COMMAND, *(("--hosts", str(hosts)) if hosts else ())]))

    async def execute(self, request: bytes) -> AsyncIterator[bytes]:
        """Yield the lines of a request, up to its end. Raise BatchDied if the process ends or hangs before."""
        assert self._child.stdin  # noqa: S101 - for the type checker: it is a pipe
        with suppress(ConnectionError):  # the missing answer tells
            self._child.stdin.write(request + b"\n")
            await self._child.stdin.drain()
        while True:
            line = await self._line()
            if line:
                yield line
            if line.startswith(b'{"event":"end"'):
                return

    async def _line(self) -> bytes:
        assert self._child.stdout  # noqa: S101 - for the type checker: it is a pipe
        parts, size = [self._rest], len(self._rest)
        while b"\n" not in parts[-1]:
            try:
                async with time_limit(SILENCE):
                    part = await self._child.stdout.read(_CHUNK)
            except TimeoutError:
                raise BatchDied(f"the batch process wrote nothing for {SILENCE:.0f} s") from None
            if not part:
                raise BatchDied(await self._reason())
            parts.append(part)
            if (size := size + len(part)) > MOST_LINES:
                raise BatchDied(f"the files of a trial are too large for a message: more than {MOST_LINES >> 20} MiB")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    async def _reason(self) -> str:
        status = await self._child.wait()
        await self._listener
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        complaint = b" ".join(self._complaints).decode("utf-8", "replace").strip()
        return f"the batch process {ended}" + (f": {complaint[-300:]}" if complaint else "")

    async def _listen(self) -> None:
        assert self._child.stderr  # noqa: S101 - for the type checker: it is a pipe
        while part := await self._child.stderr.read(_CHUNK):
            self._complaints.extend(part.splitlines())

    async def stop(self, *, at_once: bool = False) -> None:
        """End it; a batch under way takes its rig down first."""
        if at_once:
            await kill(self._child)
        else:
            await hang_up(self._child, _FAREWELL)
        await self._listener
        remove_abandoned(SCRATCH)
