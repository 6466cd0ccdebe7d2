"""The batches of a worker: it gives each request to a batch process, and sends each line to the coordinator.

Lines travel in order and while the batch runs, so that the records before a crash arrive.
"""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

from matrix_runner.base.errors import MatrixError
from matrix_runner.carry.cluster.batch_process import BatchDied, BatchProcess
from matrix_runner.carry.cluster.connection import Ended
from matrix_runner.carry.cluster.frames import MOST_REQUEST, BadFrame, Lines, in_messages, unpacked

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
