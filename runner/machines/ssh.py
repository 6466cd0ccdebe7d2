"""A host behind ssh: its own kernel, and disks of it that somebody said may be used, held over there while they are.

A script there is no child of any connection, so one that drops loses nothing: it is waited for again once there is
another. What it was given to hold outlives a runner that is killed by seconds, and one that nobody hears of by minutes.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from shlex import join
from typing import TYPE_CHECKING, ClassVar, Self

from runner.base.errors import HarnessBroken
from runner.hosts.agent.client import AgentLost
from runner.hosts.agent.connection import connection_to
from runner.machines import requirements as fitness
from runner.machines.base import Refusal, RigLost, Wishes
from runner.machines.local import unreal, unswapped
from runner.machines.shell import TAIL, ShellRig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from runner.hosts.agent.client import AgentClient
    from runner.hosts.agent.connection import Connection
    from runner.machines.base import RigSpec

#: What holds disks over there is written in it.
PROGRAMS = ("perl",)
AS_USUAL = Wishes()


class Ssh:
    """See the module."""

    name: ClassVar[str] = "ssh"
    disposable: ClassVar[bool] = False
    zeroed: ClassVar[bool] = False
    brings_disks: ClassVar[bool] = False
    made_up: ClassVar[bool] = False

    def __init__(self, wishes: Wishes = AS_USUAL) -> None:
        self.wishes = wishes

    @classmethod
    def wished(cls, wishes: Wishes) -> Self:
        """As asked for on the command line."""
        return cls(wishes)

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        """What such disks cannot do, what is not here to go there with, and what the host does not have."""
        found = unreal(spec)
        if shutil.which("ssh") is None:
            found.append(Refusal("ssh is not installed", "apt install openssh-client"))
        elif self.wishes.where:
            found += self._unfit(spec)
        return found

    def _line(self) -> Connection:
        return connection_to(self.wishes.where)

    def _unfit(self, spec: RigSpec) -> list[Refusal]:
        try:
            line = self._line()
            return list(fitness.refusals(told(line, spec.modules, spec.programs), line.name))
        except HarnessBroken as error:
            return [Refusal(": ".join(filter(None, (error.brief, error.details))), error.resolution)]

    def lacks(self, kernel: str) -> str:
        """It has one kernel, which runs."""
        return f"a host behind ssh runs its own kernel, not {kernel}"

    def room(self, spec: RigSpec) -> int:  # noqa: ARG002
        """There is one of it."""
        return 1

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[SshRig]:  # noqa: ARG002
        """It is up already. What it needs to work lies with what holds its disks, and goes with it."""
        holder = self.wishes.agent
        if holder is None:
            raise ValueError("disks over there are lent before a rig is made of them")
        if holder.lost:
            raise HarnessBroken(
                f"the disks of {holder.connection.name} are not ours any more: {holder.lost.brief}",
                details=holder.lost.details,
                resolution="what was measured is kept; the same command takes back what was left there, and goes on",
            )
        said = await asyncio.to_thread(_told_by, holder, spec)
        yield SshRig(holder, self.wishes.disks[: len(spec.disks)], fitness.facts(said), unswapped(self.wishes))


class SshRig(ShellRig):
    """Its scripts are the holder's."""

    def __init__(self, holder: AgentClient, disks: Iterable[str], facts: Mapping[str, str], before: str) -> None:
        super().__init__((), holder.folder, tuple(disks), facts, holder.connection.name, before=before)
        self._holder = holder

    async def _enact(self, script: bytes, deadline: float) -> tuple[bytes, str]:
        job = token_hex(8)
        work = asyncio.ensure_future(asyncio.to_thread(self._holder.run_script, job, script, deadline))
        try:
            done = await asyncio.shield(work)
        except asyncio.CancelledError:
            with suppress(HarnessBroken):
                await asyncio.to_thread(self._holder.stop, job)
                await work
            raise
        except AgentLost as gone:
            raise RigLost(gone.brief, tail=gone.details) from gone
        if done.over_budget:  # who looks at what is written stops the run now, as if somebody had asked for it
            await asyncio.sleep(deadline)
        if done.timed_out or done.over_budget:
            raise RigLost(
                f"{self._where} did not answer within {deadline:g} s",
                tail=(done.output or done.error_output)[-TAIL:].decode(errors="replace"),
            )
        complaint = done.error_output.decode(errors="replace")
        if done.status and not done.output:
            raise RigLost(f"no shell on {self._where}: status {done.status}", tail=complaint.strip()[-TAIL:])
        return done.output, complaint


def told(line: Connection, modules: Iterable[str], programs: Iterable[str]) -> str:
    """What a host has to say of these, and of itself. Raises HarnessBroken if it says nothing."""
    asked = join(fitness.asking(modules, (*programs, *PROGRAMS)))
    return fitness.answered(line.query(asked, fitness.PATIENCE), line.name)


def _told_by(holder: AgentClient, spec: RigSpec) -> str:
    """The same from what holds its disks, which is waited for if the line is down."""
    asked = join(fitness.asking(spec.modules, (*spec.programs, *PROGRAMS)))
    try:
        return holder.run_script(token_hex(8), asked.encode(), fitness.PATIENCE).output.decode(errors="replace")
    except AgentLost as gone:
        raise RigLost(gone.brief, tail=gone.details) from gone
