"""One bash script of several steps, the rigs that a shell command reaches, and the standing shell of a guest."""

import asyncio
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from shlex import quote

from matrix_runner.base import children
from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.process import PID_NAMESPACE
from matrix_runner.base.time_limit import time_limit
from matrix_runner.hosts.inventory import DiskSwapped, parse_report
from matrix_runner.machines.base import RigLost, Step, StepResult
from matrix_runner.simdisks.clib import Report
from matrix_runner.simdisks.disk import Fault

WORK_FOLDERS = 32
#: Steps run by `eval` in a subshell, which starts faster than a new bash and also contains syntax errors, `exit` and
#: `set -e`. Descriptor 3 of this shell carries orders and is closed for steps. Lines with an unguessable word separate
#: the outputs. The line at the end is printed outside of the subshell, because a step may call `exit`.
PRELUDE = Path(__file__).with_name("prelude.sh").read_text(encoding="utf-8")
_BEGIN = re.compile(rb" begin (?P<n>\d+) (?P<us>\d+)\n")
_END = re.compile(rb" end (?P<status>\d+) (?P<us>\d+)\n")


def pack(steps: Sequence[Step], mark: str, enter: str) -> str:
    """Return the script that runs the steps after the command `enter`."""
    shells = list[str]()
    for number, step in enumerate(steps):
        body = f"{_write_files(step)}matrix_begins {number}\nset --\neval {quote(step.text)}\n"
        if shells and step.continues_shell:
            shells[-1] += f"matrix_goes_on\n{body}"
        else:
            shells.append(body)
    bodies = "".join(map(_SUBSHELL.format, shells))
    return f"matrix_mark={quote(mark)}\neval {quote(PRELUDE)}\nmatrix_go=\n{enter} &&\nmatrix_go=1\n{bodies}"


def enter_work_folder(folder: str, number: int, tools: str = "") -> str:
    """Return shell text that enters an unused folder. Several are made at a time, as that costs two processes.

    `tools`: the program that has rm and mkdir.
    """
    where = quote(folder)
    to_it = f"cd -- {where}/{number % WORK_FOLDERS}"
    rooms = f"{where}/{{0..{WORK_FOLDERS - 1}}}"
    made = " && ".join((f"{tools} rm -rf -- {where}", f"{tools} mkdir -p -- {rooms}", to_it))
    # A simulated restart may have emptied all of /run.
    return f"{{ {to_it} 2>/dev/null || {{ {made}; }}; }}" if number % WORK_FOLDERS else made


def _write_files(step: Step) -> str:
    if any("\0" in text for text in (step.text, *step.files, *step.files.values())):
        raise HarnessBroken(f"step {step.name} contains a null byte, which a shell cannot read")
    lines = []
    for name, text in step.files.items():
        parent = f"mkdir -p -- {quote(name.rpartition('/')[0])} && " if "/" in name else ""
        # The prefix ./ protects names that begin with a dash.
        lines.append(f"{parent}printf %s {quote(text)} >{quote('./' + name)} || exit\n")
    return "".join(lines)


#: One subshell. A step without a begin line could not write its files.
_SUBSHELL = """\
if [ -n "$matrix_go" ]; then
(
{}) </dev/null 2>&1 3>&-
matrix_status=$?
matrix_ends "$matrix_status"
[ "$matrix_status" = 0 ] || matrix_go=
fi
"""


def unpack(steps: Sequence[Step], mark: str, output: bytes, complaint: str = "") -> list[StepResult]:
    """Parse the output of the script. Raise HarnessBroken if a step has no end line although no earlier step failed."""
    results = [
        StepResult(
            name=steps[int(opening["n"])].name,
            status=int(ending["status"]),
            output=began[opening.end() :].removesuffix(b"\n").decode(errors="replace"),
            seconds=max(0, int(ending["us"]) - int(opening["us"])) / 1e6,
            began=int(opening["us"]) / 1e6,
        )
        for began, ended in pairwise(output.split(mark.encode()))
        if (opening := _BEGIN.match(began)) and (ending := _END.match(ended))
    ]
    if len(results) < len(steps) and not (results and results[-1].status):
        tail = (output[-2000:].decode(errors="replace") + complaint[-2000:]).strip()
        raise HarnessBroken(f"step {steps[len(results)].name} was cut short", details=tail)
    return results


#: $1: a script. The guard ends when standard input or the script does. bash gives background jobs an empty standard
#: input, so the real one is descriptor 3. `wait` names the script, as `wait -n` overlooks a job that has already ended.
GUARD = Path(__file__).with_name("guard.sh").read_text(encoding="utf-8")
#: $1: the folder of the rig; $2: the length of the script on standard input, which stays open until the end.
KEEPER = f"""\
umask 077
mkdir -p -- "$1" && head -c "$2" >"$1/envelope" || exit
set -- "$1/envelope"
{GUARD}"""
LAST_BREATH = 10.0
TAIL = 4000


def keeper(folder: str, length: int, alone: Sequence[str] = PID_NAMESPACE) -> list[str]:
    """Return the command that reads a script of `length` bytes from standard input and runs it in a folder."""
    return [*alone, "bash", "-c", KEEPER, "keeper", folder, str(length)]


def guard() -> list[str]:
    return [*PID_NAMESPACE, "bash", "-c", GUARD, "guard"]


class ShellRig:
    """A rig of new shells, entered by `enter` and killed by `alone`; the script `before` checks the leased disks."""

    def __init__(
        self,
        enter: Sequence[str],
        folder: str,
        disks: Sequence[str],
        facts: Mapping[str, str],
        where: str,
        alone: Sequence[str] = PID_NAMESPACE,
        before: str = "",
    ) -> None:
        self._enter, self._folder, self._where, self._alone = tuple(enter), folder, where, tuple(alone)
        self.disks, self.facts, self._before, self._scripts = tuple(disks), facts, before, 0

    def disk_reports(self) -> tuple[Report, ...]:
        return ()

    def arm(self, faults: Sequence[Fault]) -> None:
        if faults:
            raise HarnessBroken("physical disks cannot fail on demand", resolution="run this matrix on qemu")

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        mark = secrets.token_hex(16)
        enter = enter_work_folder(f"{self._folder}/rooms", self._scripts)
        self._scripts += 1
        script = f"matrix_mark={mark}\n{self._before}{pack(steps, mark, enter)}"
        output, complaint = await self._enact(script.encode(), deadline)
        found, disk = parse_report(output, mark)
        if found == "gone":
            raise RigLost(f"{disk} is gone")
        if found:
            raise DiskSwapped(disk, self._where)
        try:
            return unpack(steps, mark, output, complaint)
        except HarnessBroken as error:
            raise RigLost(error.brief, tail=error.details) from error

    async def _enact(self, script: bytes, deadline: float) -> tuple[bytes, str]:
        child = await children.spawn_with_pipes([*self._enter, *keeper(self._folder, len(script), self._alone)])
        try:
            async with time_limit(deadline):
                output, complaint = await children.send(child, script)
        except TimeoutError:
            raise RigLost(f"{self._where} did not answer within {deadline:g} s") from None
        finally:
            await children.hang_up(child, LAST_BREATH)
        if child.returncode and not output:
            error = complaint.decode(errors="replace").strip()
            raise RigLost(f"no shell on {self._where}: status {child.returncode}", tail=error[-TAIL:])
        return output, complaint.decode(errors="replace")


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
