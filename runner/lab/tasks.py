"""The task that Dask runs on a worker: it gives a request to a batch process, and sends each line to the coordinator.

Lines travel as events of Dask, in order and before the end of the task, so that the records before a crash arrive.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from distributed import get_worker

from runner.lab.batch_process import BatchDied, BatchProcess

if TYPE_CHECKING:
    from distributed import Worker

INTERVAL = 0.5  # seconds between two messages of one batch, and between two looks whether it is still wanted
_IDLE: dict[Worker, list[BatchProcess]] = {}


def key_of(token: str) -> str:
    return f"batch-{token}"


def packed(lines: list[bytes]) -> bytes:
    return zlib.compress(b"\n".join(lines), 1)


def unpacked(content: bytes) -> list[bytes]:
    return zlib.decompress(content).split(b"\n") if content else []


async def carry_out(request: bytes, token: str, topic: str) -> None:
    worker = get_worker()
    lines: list[bytes] = []

    def send(**more: Any) -> None:
        content, lines[:] = packed(lines) if lines else b"", []
        worker.log_event(topic, {"token": token, "lines": content, **more})

    task = asyncio.create_task(_execute(worker, zlib.decompress(request), lines))
    try:
        while not task.done():
            await asyncio.wait([task], timeout=INTERVAL)
            if not _wanted(worker, token):
                return
            if lines and not task.done():
                send()
        send(over=True, died=task.result())
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _wanted(worker: Worker, token: str) -> bool:
    """Return whether the coordinator still waits for it. If it was killed, Dask has cancelled the task."""
    state = worker.state.tasks.get(key_of(token))
    return state is not None and state.state in {"executing", "long-running"}


async def _execute(worker: Worker, request: bytes, lines: list[bytes]) -> str:
    """Return why the batch process died; empty if it did not."""
    idle = _IDLE.setdefault(worker, [])
    process = idle.pop() if idle else await BatchProcess.start()
    try:
        async for line in process.execute(request):
            lines.append(line)  # noqa: PERF401 - each is sent while the next is made
    except BatchDied as died:
        await process.stop(at_once=True)
        return died.brief
    except BaseException:
        await process.stop()
        raise
    idle.append(process)
    return ""


async def stop_idle(worker: Worker) -> None:
    for process in _IDLE.pop(worker, []):
        await process.stop()
