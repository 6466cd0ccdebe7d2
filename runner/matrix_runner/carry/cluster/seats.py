"""The batches of a worker: it gives each request to a batch process, and sends each line to the coordinator.

Lines travel in order and while the batch runs, so that the records before a crash arrive.
"""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Self

from matrix_runner.base.children import hang_up, kill, run_to_end, spawn_with_pipes
from matrix_runner.base.errors import HarnessBroken, MatrixError
from matrix_runner.base.files import remove_abandoned
from matrix_runner.base.time_limit import time_limit
from matrix_runner.carry.cluster.connection import Ended
from matrix_runner.carry.cluster.frames import MOST_LINES, MOST_REQUEST, BadFrame, Lines, in_messages, unpacked

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


async def _cancel(task: asyncio.Task[str]) -> None:
    task.cancel()
    await asyncio.wait([task])


INTERVAL = 0.5  # seconds between two messages of one batch
_LONGEST = 1000  # characters of the reason why a batch process died
QUIET = 20  # intervals without a line after which an empty message shows that this worker is there


class Seats:
    """At most as many batches at a time as slots, also if several coordinators send them. Checks need no slot."""

    def __init__(self, send: Callable[[Lines, bytes], None], slots: int, hosts: Path | None = None) -> None:
        self._send, self._free, self._hosts = send, asyncio.Semaphore(slots), hosts
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle: list[BatchProcess] = []

    def begin(self, token: str, request: bytes, *, measures: bool) -> None:
        if token in self._tasks:
            return
        task = asyncio.create_task(self._carry_out(token, request, measures=measures))
        self._tasks[token] = task
        task.add_done_callback(lambda _: self._tasks.pop(token))

    def cancel(self, token: str) -> None:
        """Stop a batch: its coordinator has given it up, or is gone. A second time would cut its farewell short."""
        if (task := self._tasks.get(token)) and not task.cancelling():
            task.cancel()

    async def close(self) -> None:
        for token in self._tasks:
            self.cancel(token)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for process in self._idle:
            await process.stop()

    async def _carry_out(self, token: str, request: bytes, *, measures: bool) -> None:
        lines: list[bytes] = []

        def send(*, over: bool = False, died: str = "") -> None:
            *bodies, last = in_messages(lines)
            lines.clear()
            for body in bodies:
                self._send(Lines(token=token), body)
            self._send(Lines(token=token, over=over, died=died[:_LONGEST]), last)

        async def execute() -> str:
            async with self._free if measures else nullcontext():
                try:
                    content = unpacked(request, MOST_REQUEST)
                except BadFrame as error:
                    return f"its request is {error}"
                return await self.execute(content, lines)

        task, quiet = asyncio.create_task(execute()), 0
        try:
            while not task.done():
                await asyncio.wait([task], timeout=INTERVAL)
                quiet = 0 if lines else quiet + 1
                if (lines or quiet % QUIET == 0) and not task.done():
                    send()
            send(over=True, died=task.result())
        except Ended:
            pass  # the coordinator is gone with the connection
        finally:
            await run_to_end(_cancel(task))  # also if this worker ends meanwhile

    async def execute(self, request: bytes, lines: list[bytes]) -> str:
        """Add the lines of a request. Return why its batch process died; empty if it did not."""
        try:
            process = self._idle.pop() if self._idle else await BatchProcess.start(self._hosts)
        except (MatrixError, OSError) as error:
            return f"no batch process: {error}"
        try:
            async for line in process.execute(request):
                lines.append(line)  # noqa: PERF401 - each is sent while the next is made
        except BatchDied as died:
            await process.stop(at_once=True)
            return died.brief
        except BaseException:
            await process.stop()
            raise
        self._idle.append(process)
        return ""
