"""The batches of a worker: it gives each request to a batch process, and sends each line to the coordinator.

Lines travel in order and while the batch runs, so that the records before a crash arrive.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from runner.base.errors import MatrixError
from runner.lab.batch_process import BatchDied, BatchProcess
from runner.lab.relay import CANCEL, LINES, REQUEST

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Worker

INTERVAL = 0.5  # seconds between two messages of one batch
QUIET = 20  # intervals without a line after which an empty message shows that this worker is there
MOST = 128 << 20  # bytes of the lines in one message


def packed(lines: list[bytes], *, level: int = 1) -> bytes:
    return zlib.compress(b"\n".join(lines), level) if lines else b""


def unpacked(content: bytes) -> list[bytes]:
    """Raise zlib.error for what `packed` did not write."""
    if not content:
        return []
    expander = zlib.decompressobj()
    lines = expander.decompress(content, MOST)
    if not expander.eof:
        raise zlib.error(f"it is cut off, or larger than {MOST >> 20} MiB")
    return lines.split(b"\n")


class Seats:
    """At most as many batches at a time as slots, also if several coordinators send them. Checks need no slot."""

    def __init__(self, worker: Worker, slots: int, hosts: Path | None = None) -> None:
        self._worker, self._free, self._hosts = worker, asyncio.Semaphore(slots), hosts
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle: list[BatchProcess] = []
        worker.stream_handlers |= {REQUEST: self.begin, CANCEL: self.cancel}

    def begin(self, token: str, request: bytes, *, measures: bool) -> None:
        task = asyncio.create_task(self._carry_out(token, request, measures=measures))
        self._tasks[token] = task
        task.add_done_callback(lambda _: self._tasks.pop(token))

    def cancel(self, token: str) -> None:
        """Stop a batch: its coordinator has given it up, or is gone."""
        if task := self._tasks.get(token):
            task.cancel()

    async def close(self) -> None:
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in self._idle:
            await process.stop()

    async def _carry_out(self, token: str, request: bytes, *, measures: bool) -> None:
        lines: list[bytes] = []
        level = 0 if self._worker.address.startswith("inproc:") else 1  # inside a process, compression saves nothing

        def send(**more: Any) -> None:
            content, lines[:] = packed(lines, level=level), []
            self._worker.batched_send({"op": LINES, "token": token, "lines": content, **more})

        async def execute() -> str:
            async with self._free if measures else nullcontext():
                return await self.execute(zlib.decompress(request), lines)

        task, quiet = asyncio.create_task(execute()), 0
        try:
            while not task.done():
                await asyncio.wait([task], timeout=INTERVAL)
                quiet = 0 if lines else quiet + 1
                if (lines or quiet % QUIET == 0) and not task.done():
                    send()
            send(over=True, died=task.result())
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

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
