"""Programs that run beside the event loop. And work that runs to its end if its task is cancelled."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.log import LOG, command_text
from matrix_runner.base.process import dies_with_parent, log_end, not_installed
from matrix_runner.base.time_limit import time_limit

_watches = set[asyncio.Task[None]]()


async def spawn(
    argv: Sequence[str], *, pass_fds: Sequence[int] = (), output: int = subprocess.DEVNULL
) -> asyncio.subprocess.Process:
    """Start a long-lived program that cannot outlive us, in a process group that Ctrl-C does not reach."""
    return await _spawn(argv, pass_fds, subprocess.DEVNULL, output, output)


async def spawn_on_socket(
    argv: Sequence[str], connection: int, *, pass_fds: Sequence[int] = (), complaints: int = subprocess.DEVNULL
) -> asyncio.subprocess.Process:
    return await _spawn(argv, pass_fds, connection, connection, complaints)


async def spawn_with_pipes(argv: Sequence[str]) -> asyncio.subprocess.Process:
    return await _spawn(argv, (), subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)


async def send(child: asyncio.subprocess.Process, text: bytes) -> tuple[bytes, bytes]:
    """Send the text, and return output and errors once the child ends.

    Unlike `communicate`, keep its input open: it ends when we do.
    """
    assert child.stdin and child.stdout and child.stderr  # noqa: S101, PT018 - for the type checker: all are pipes
    child.stdin.write(text)
    _, output, complaint = await asyncio.gather(_drain(child.stdin), child.stdout.read(), child.stderr.read())
    await child.wait()
    return output, complaint


async def _drain(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # it ended before it read all; its output shows why
        await writer.drain()


async def hang_up(child: asyncio.subprocess.Process, patience: float) -> None:
    """Close its input; kill it if it does not end."""
    if child.stdin:
        child.stdin.close()
    with suppress(TimeoutError):
        async with time_limit(patience):
            await child.wait()
    await kill(child)


async def kill(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        # Not `child.kill()`: that would reap the child, and the event loop would report an error.
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    await child.wait()


def kill_group(child: asyncio.subprocess.Process) -> None:
    """Kill a program of `spawn` and what it started, also if it has ended itself."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


async def _spawn(
    argv: Sequence[str], pass_fds: Sequence[int], stdin: int, stdout: int, stderr: int
) -> asyncio.subprocess.Process:
    if shutil.which(argv[0]) is None:
        raise not_installed(argv[0])
    started = time.monotonic()
    child = await asyncio.create_subprocess_exec(
        *dies_with_parent(argv), stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds, start_new_session=True
    )
    LOG.info("process %d started: %s", child.pid, command_text(argv))
    watch = asyncio.create_task(_log_end_of(child, argv, started))
    _watches.add(watch)  # the loop keeps no task alive
    watch.add_done_callback(_watches.discard)
    return child


async def _log_end_of(child: asyncio.subprocess.Process, argv: Sequence[str], started: float) -> None:
    log_end([*argv[:1], f"(process {child.pid})"], await child.wait(), started)


async def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Await the work; if cancelled meanwhile, finish it first; if cancelled twice, stop at once.

    `asyncio.shield` alone is not enough: its caller would leave, and the work would end half done with the event loop.
    """
    doing, task = asyncio.ensure_future(work), asyncio.current_task()
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        if task and task.cancelling() == 1:
            with suppress(HarnessBroken):  # the cancellation matters more
                await doing
        raise
