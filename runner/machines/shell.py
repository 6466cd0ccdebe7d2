"""Rigs that are a shell away: this host, a container, a host behind SSH. They are up; a command opens the shell.

Whatever runs there must end when we do. So every script is the child of a keeper, the first process of a PID namespace
of its own. When its standard input ends, which no death of ours can prevent, or when the script does, the keeper ends,
and with it the kernel ends everything in that namespace.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from runner.base import process
from runner.base.errors import HarnessBroken
from runner.base.process import PID_NAMESPACE
from runner.hosts import identity as same
from runner.machines import script_bundle as envelope
from runner.machines.base import RigLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.machines.base import Step, StepResult
    from runner.simdisks.clib import Report
    from runner.simdisks.faults import Fault

#: $1: a script. It ends when standard input does, or the script. bash gives what works in the background an empty
#: standard input, so ours gets a number. Only the script is waited for: `wait -n` overlooks one that has ended before.
GUARD = """\
exec 3<&0 </dev/null
bash "$1" 3<&- &
work=$!
{ cat <&3 >/dev/null; kill -KILL "$work"; } &
wait "$work"
"""
#: $1: a folder that is the rig's own; $2: the length of the script, which comes first on standard input. After it
#: nothing comes but the end.
KEEPER = f"""\
umask 077
mkdir -p -- "$1" && head -c "$2" >"$1/envelope" || exit
set -- "$1/envelope"
{GUARD}"""
#: How long a shell that was told to end may take to do so.
LAST_BREATH = 10.0
#: How much of what went wrong is kept.
TAIL = 4000


def keeper(folder: str, length: int, alone: Sequence[str] = PID_NAMESPACE) -> list[str]:
    """The command that runs a script of so many bytes in a folder of its own."""
    return [*alone, "bash", "-c", KEEPER, "keeper", folder, str(length)]


def guard() -> list[str]:
    """The command that runs a script that is there already, whose path comes after it."""
    return [*PID_NAMESPACE, "bash", "-c", GUARD, "guard"]


class ShellRig:
    """Steps go through one shell each time; `enter` is the command that leads to where it runs.

    `alone` is what ends there with the keeper all that it started, where that is not a PID namespace; `before` what
    comes before every script, to see that its disks are those that were lent.
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
        """Disks that exist keep their own counsel."""
        return ()

    def arm(self, faults: Sequence[Fault]) -> None:
        """Nobody can make a disk fail that is not modelled."""
        if faults:
            raise HarnessBroken("only modelled disks can fail on demand", resolution="run this matrix on qemu")

    async def run(self, steps: Sequence[Step], *, expected: float, deadline: float) -> list[StepResult]:  # noqa: ARG002
        """Run the steps as one script."""
        mark = secrets.token_hex(16)
        enter = envelope.fresh(f"{self._folder}/rooms")
        script = f"matrix_mark={mark}\n{self._before}{envelope.pack(steps, mark, enter)}"
        output, complaint = await self._enact(script.encode(), deadline)
        self._unless_swapped(*same.parse_report(output, mark))
        try:
            results = envelope.unpack(steps, mark, output, complaint)
        except HarnessBroken as error:
            raise RigLost(error.brief, tail=error.details) from error
        return results

    def _unless_swapped(self, found: str, said: str) -> None:
        if found == "gone":
            raise RigLost(f"{said} is gone")
        if found:
            raise same.DiskSwapped(said, self._where)

    async def _enact(self, script: bytes, deadline: float) -> tuple[bytes, str]:
        """Run a script to its end: what it wrote, and its complaints."""
        child = await process.spawn_with_pipes([*self._enter, *keeper(self._folder, len(script), self._alone)])
        try:
            async with asyncio.timeout(deadline):
                output, complaint = await process.send(child, script)
        except TimeoutError:
            raise RigLost(f"{self._where} did not answer within {deadline:g} s") from None
        finally:
            await process.hang_up(child, LAST_BREATH)
        if child.returncode and not output:
            said = complaint.decode(errors="replace").strip()
            raise RigLost(f"no shell on {self._where}: status {child.returncode}", tail=said[-TAIL:])
        return output, complaint.decode(errors="replace")
