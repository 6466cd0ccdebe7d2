"""Rigs that a shell command reaches: this host, a container, a host behind ssh.

A script must end with the runner. So it is a child of a keeper, the first process of a new PID namespace. The keeper
ends when its standard input or the script ends, and the kernel then kills the whole namespace. The death of the runner
closes the input.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.base.process import PID_NAMESPACE
from runner.hosts import identity as same
from runner.machines import script_bundle
from runner.machines.base import RigLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.machines.base import Step, StepResult
    from runner.simdisks.clib import Report
    from runner.simdisks.disk import Fault

#: $1: a script. The guard ends when standard input or the script does. bash gives background jobs an empty standard
#: input, so the real one is descriptor 3. `wait` names the script, as `wait -n` overlooks a job that has already ended.
GUARD = """\
exec 3<&0 </dev/null
bash "$1" 3<&- &
work=$!
{ cat <&3 >/dev/null; kill -KILL "$work"; } &
wait "$work"
"""
#: $1: the folder of the rig; $2: the length of the script on standard input, which stays open until the end.
KEEPER = f"""\
umask 077
mkdir -p -- "$1" && head -c "$2" >"$1/envelope" || exit
set -- "$1/envelope"
{GUARD}"""
#: Seconds for a shell to end after its input is closed.
LAST_BREATH = 10.0
#: Bytes of error output that are kept.
TAIL = 4000


def keeper(folder: str, length: int, alone: Sequence[str] = PID_NAMESPACE) -> list[str]:
    """Return the command that reads a script of `length` bytes from standard input and runs it in a folder."""
    return [*alone, "bash", "-c", KEEPER, "keeper", folder, str(length)]


def guard() -> list[str]:
    """Return the command that runs a script file; the caller appends its path."""
    return [*PID_NAMESPACE, "bash", "-c", GUARD, "guard"]


class ShellRig:
    """A rig that runs each call in a new shell; the command prefix `enter` leads there.

    `alone` is the prefix that kills all children with the keeper. `before` precedes every script and checks that the
    disks are the leased ones.
    """

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
        self.disks, self.facts, self._before = tuple(disks), facts, before

    def disk_reports(self) -> tuple[Report, ...]:
        return ()

    def arm(self, faults: Sequence[Fault]) -> None:
        if faults:
            raise HarnessBroken("physical disks cannot fail on demand", resolution="run this matrix on qemu")

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        mark = secrets.token_hex(16)
        enter = script_bundle.enter_empty_folder(f"{self._folder}/rooms")
        script = f"matrix_mark={mark}\n{self._before}{script_bundle.pack(steps, mark, enter)}"
        output, complaint = await self._enact(script.encode(), deadline)
        self._check_disks(*same.parse_report(output, mark))
        try:
            results = script_bundle.unpack(steps, mark, output, complaint)
        except HarnessBroken as error:
            raise RigLost(error.brief, tail=error.details) from error
        return results

    def _check_disks(self, found: str, disk: str) -> None:
        if found == "gone":
            raise RigLost(f"{disk} is gone")
        if found:
            raise same.DiskSwapped(disk, self._where)

    async def _enact(self, script: bytes, deadline: float) -> tuple[bytes, str]:
        child = await process.spawn_with_pipes([*self._enter, *keeper(self._folder, len(script), self._alone)])
        try:
            async with asyncio.timeout(deadline):
                output, complaint = await process.send(child, script)
        except TimeoutError:
            raise RigLost(f"{self._where} did not answer within {deadline:g} s") from None
        finally:
            await process.hang_up(child, LAST_BREATH)
        if child.returncode and not output:
            error = complaint.decode(errors="replace").strip()
            raise RigLost(f"no shell on {self._where}: status {child.returncode}", tail=error[-TAIL:])
        return output, complaint.decode(errors="replace")
