"""The one door through which other programs are started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class TookTooLong(HarnessBroken):
    """A program was still at it when its time was over, and was killed."""


#: Ends with its first process, and takes everything in it along.
ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--")
#: Run once the kernel was told to kill us with our parent: had that parent died before, nobody would be told any more.
UNLESS_ORPHANED = '[ "$PPID" = "$1" ] || exit; shift; exec "$@"'
#: $@: a program that hears and speaks through two of ours, which go when we do: so whoever kills us cuts both ways.
BETWEEN = """\
exec 3<&0 4< <(exec setpriv --pdeathsig KILL -- cat <&3) 3<&-
"$@" <&4 4<&- | setpriv --pdeathsig KILL -- cat 4<&-
exit "${PIPESTATUS[0]}"
"""


def run(
    argv: Sequence[str], *, stdin: str = "", timeout: float | None = 60, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and keep what it said. The caller judges the exit status."""
    try:
        return subprocess.run(
            argv, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout, check=False, env=env
        )
    except FileNotFoundError:
        raise HarnessBroken(
            f"{argv[0]} is not installed", resolution="`matrix doctor` says which package has it"
        ) from None
    except subprocess.TimeoutExpired:
        raise TookTooLong(f"{argv[0]} did not finish within {timeout:g} s", details=" ".join(argv)) from None


@contextmanager
def reading(argv: Sequence[str]) -> Iterator[IO[bytes]]:
    """What a program writes, as a stream; a program that fails is an error once its stream was read."""
    with subprocess.Popen(dies_with_parent(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None  # noqa: S101 - for the type checker; PIPE was asked for
        yield child.stdout
        child.stdout.read()
    if child.returncode:
        raise HarnessBroken(f"{argv[0]} failed with status {child.returncode}", details=" ".join(argv))


def dies_with_parent(argv: Sequence[str]) -> list[str]:
    """The same command, killed by the kernel the moment whoever started it is gone; to be started by this process.

    To the kernel the parent is the thread that starts it, so a thread must not end before the child did.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", UNLESS_ORPHANED, "sh", str(os.getpid()), *argv]


def between(argv: Sequence[str]) -> list[str]:
    """The same command behind a program of ours: what is root's we may not kill, but it sees that we are gone."""
    return ["bash", "-c", BETWEEN, "bash", *argv]


async def spawn(
    argv: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    output: int = subprocess.DEVNULL,
) -> asyncio.subprocess.Process:
    """Start a long-lived program that cannot outlive us, in a process group that Ctrl-C does not reach."""
    return await _spawn(argv, pass_fds, subprocess.DEVNULL, output, output)


async def converse(
    argv: Sequence[str], connection: int, *, pass_fds: Sequence[int] = (), complaints: int = subprocess.DEVNULL
) -> asyncio.subprocess.Process:
    """Start such a program, with one end of a connection as its standard input and output."""
    return await _spawn(argv, pass_fds, connection, connection, complaints)


async def on_a_line(argv: Sequence[str]) -> asyncio.subprocess.Process:
    """Start such a program, with what it is told, says and complains of in our hands (see `told` and `hung_up`)."""
    return await _spawn(argv, (), subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)


def on_its_line(argv: Sequence[str], complaints: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a program that ends when its standard input does, which no death of ours can prevent.

    For those that a thread starts: the kernel would kill them with that thread, not with us.
    """
    if shutil.which(argv[0]) is None:
        raise HarnessBroken(f"{argv[0]} is not installed", resolution="`matrix doctor` says which package has it")
    return subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
    )


def let_go(child: subprocess.Popen[bytes]) -> None:
    """Kill such a program, and wait until it is gone. What it said last is left to whoever reads it."""
    child.kill()
    child.wait()
    with suppress(OSError):  # what was still to be told it has nobody to be told to
        if child.stdin:
            child.stdin.close()


async def told(child: asyncio.subprocess.Process, text: bytes) -> tuple[bytes, bytes]:
    """Tell it this, and hear it to its end. Unlike `communicate`, this leaves the line open: it ends when we do."""
    assert child.stdin and child.stdout and child.stderr  # noqa: S101, PT018 - for the type checker; all were asked for
    child.stdin.write(text)
    _, output, complaint = await asyncio.gather(_drained(child.stdin), child.stdout.read(), child.stderr.read())
    await child.wait()
    return output, complaint


async def _drained(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # it ended without hearing us out; what it said tells why
        await writer.drain()


async def hung_up(child: asyncio.subprocess.Process, patience: float) -> None:
    """End the line; a program that does not end with it is killed."""
    if child.stdin:
        child.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await child.wait()
    await killed(child)


async def killed(child: asyncio.subprocess.Process) -> None:
    """Kill a program unless it is gone already, and wait until it is."""
    if child.returncode is None:
        # Not `child.kill()`: that would reap it under the event loop's hands, who then complains.
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    await child.wait()


def is_gone(child: int) -> bool:
    """Whether a child of ours ended; it is left to be reaped by whoever waits for it."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


async def _spawn(
    argv: Sequence[str], pass_fds: Sequence[int], stdin: int, stdout: int, stderr: int
) -> asyncio.subprocess.Process:
    if shutil.which(argv[0]) is None:
        raise HarnessBroken(f"{argv[0]} is not installed", resolution="`matrix doctor` says which package has it")
    return await asyncio.create_subprocess_exec(
        *dies_with_parent(argv),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,
    )
