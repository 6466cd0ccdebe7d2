"""Start of other programs; only this module and children.py do it."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.log import LOG, command_text


class TimedOut(HarnessBroken):
    """A program was killed because it did not end in time."""


#: A process namespace: when its first process ends, the kernel kills the others.
PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--")
#: Runs after the kernel was set to kill us with our parent: exits if that parent had died before.
UNLESS_ORPHANED = '[ "$PPID" = "$1" ] || exit; shift; exec "$@"'
#: $@: a program whose input and output pass through two `cat` processes, which are killed with us.
RELAY = """\
exec 3<&0 4< <(exec setpriv --pdeathsig KILL -- cat <&3) 3<&-
"$@" <&4 4<&- | setpriv --pdeathsig KILL -- cat 4<&-
exit "${PIPESTATUS[0]}"
"""
#: A kind of clock of another process, in the lowest bits of its number: see clock_getcpuclockid(3).
_PROCESSOR_TIME = 2


def not_installed(program: str) -> HarnessBroken:
    return HarnessBroken(f"{program} is not installed", resolution="`matrix doctor` shows which package has it")


def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    timeout: float | None = 60,
    env: Mapping[str, str] | None = None,
    takes_ctrl_c: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program that cannot outlive us to its end, and return its output. The caller checks the exit status.

    Without `takes_ctrl_c`, Ctrl-C stops only us. Otherwise it kills the program, which then looks like a broken one.
    """
    if shutil.which(argv[0], path=env.get("PATH") if env else None) is None:
        raise not_installed(argv[0])
    child = dies_with_parent(argv) if shutil.which("setpriv") else argv
    started = time.monotonic()
    try:
        done = subprocess.run(
            child, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout, check=False, env=env,
            process_group=None if takes_ctrl_c else 0,
        )  # fmt: skip
        log_end(argv, done.returncode, started)
        return done  # noqa: TRY300 - its only error is a program that does not end
    except subprocess.TimeoutExpired:
        log_end(argv, None, started)
        raise TimedOut(f"{argv[0]} did not finish within {timeout:g} s", details=" ".join(argv)) from None


@contextmanager
def open_output(argv: Sequence[str]) -> Iterator[IO[bytes]]:
    """Yield the output of a program as a stream; raise HarnessBroken at the end if it failed."""
    started = time.monotonic()
    with subprocess.Popen(dies_with_parent(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        yield child.stdout
        child.stdout.read()
    log_end(argv, child.returncode, started)
    if child.returncode:
        raise HarnessBroken(f"{argv[0]} failed with status {child.returncode}", details=" ".join(argv))


def dies_with_parent(argv: Sequence[str]) -> list[str]:
    """Return a command that the kernel kills when this process ends.

    The kernel's parent is the thread that starts it, so that thread must not end before the child.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", UNLESS_ORPHANED, "sh", str(os.getpid()), *argv]


def relayed(argv: Sequence[str]) -> list[str]:
    """Return the command behind a relay. We cannot kill a root process, but its input ends when we do."""
    return ["bash", "-c", RELAY, "bash", *argv]


def start_with_pipes(argv: Sequence[str], complaints: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a program that ends with its standard input, so also when we are killed.

    For programs that a thread starts: the kernel would kill those of `dies_with_parent` with the thread.
    """
    if shutil.which(argv[0]) is None:
        raise not_installed(argv[0])
    child = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
    )
    LOG.info("process %d started: %s", child.pid, command_text(argv))
    return child


def stop_child(child: subprocess.Popen[bytes]) -> None:
    """Kill such a program and wait for it. Its last output stays readable."""
    child.kill()
    LOG.info("process %d ended with %s", child.pid, child.wait())
    with suppress(OSError):  # unsent input is lost
        if child.stdin:
            child.stdin.close()


def is_gone(child: int) -> bool:
    """Return whether a child has ended, without reaping it."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def log_end(argv: Sequence[str], status: int | None, started: float) -> None:
    end = "killed, as it did not end in time" if status is None else f"ended with {status}"
    LOG.info("%s after %.3f s: %s", end, time.monotonic() - started, command_text(argv))


def processor_seconds(children: Sequence[int]) -> float | None:
    """Return the processor time of children, with all their threads; None if one of them has ended."""
    try:
        used = sum(time.clock_gettime(~child << 3 | _PROCESSOR_TIME) for child in children)
    except OSError:
        return None
    return None if any(map(is_gone, children)) else used
