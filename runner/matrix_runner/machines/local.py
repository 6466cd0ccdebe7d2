"""The machines `local` and `ssh`: this host, with root by sudo if needed, or another one, with physical disks."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shlex import join
from typing import ClassVar

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.hosts.agent.client import AgentClient, AgentLost
from matrix_runner.hosts.agent.connection import Connection, connection_to, sudo_connection
from matrix_runner.hosts.inventory import identity_check
from matrix_runner.machines import requirements
from matrix_runner.machines.base import Machine, MachineOptions, Refusal, RigLost, RigSpec
from matrix_runner.machines.shell import TAIL, ShellRig

WHERE = requirements.THIS_HOST


class Local(Machine):
    name: ClassVar[str] = "local"
    keeps_kernel: ClassVar[bool] = True

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        return [*model_refusals(spec), *host_refusals(spec)]

    def known(self, spec: RigSpec) -> Mapping[str, str]:
        return requirements.facts(requirements.query((), spec, WHERE))

    def kernel_refusal(self, kernel: str) -> str:
        return f"{WHERE} runs its own kernel ({os.uname().release}), not {kernel}"

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> AsyncIterator[ShellRig]:
        folder, disks = (scratch / "rig").absolute(), self.options.disks[: len(spec.disks)]
        try:
            yield ShellRig((), str(folder), disks, self.known(spec), WHERE, before=identity_script(self.options))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def host_refusals(spec: RigSpec, ignored: tuple[str, ...] = ()) -> list[Refusal]:
    try:
        answer = requirements.query((), spec, WHERE)
    except HarnessBroken as error:
        return [Refusal(error.brief, error.details or error.resolution)]
    lines = [line for line in answer.splitlines() if not line.startswith(ignored)]
    return list(requirements.refusals("\n".join(lines), WHERE))


# Run before each script, so that none works on a disk that took the place of a leased one.
def identity_script(options: MachineOptions) -> str:
    return identity_check(zip(options.disks, (one.node for one in options.held), strict=False))


def model_refusals(spec: RigSpec) -> Iterator[Refusal]:
    yield from disk_model_refusals(spec)
    if spec.kernel:
        yield Refusal(f"a running host cannot boot {spec.kernel}", "run this matrix on qemu, or remove `kernel`")
    if spec.cmdline:
        yield Refusal(f"a running host cannot boot with {spec.cmdline}", "run this matrix on qemu, or remove `cmdline`")


def disk_model_refusals(spec: RigSpec) -> Iterator[Refusal]:
    if any(disk.physics for disk in spec.disks):
        yield Refusal("physical disks have no model", "remove `model:` from `disks:`, or run this matrix on qemu")
    if any(disk.link for disk in spec.disks):
        yield Refusal("physical disks have no simulated bus limit", "remove `bus_limit:` from the matrix")


PROGRAMS = ("python3",)


class Ssh(Machine):
    name: ClassVar[str] = "ssh"
    keeps_kernel: ClassVar[bool] = True

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        found = [*model_refusals(spec)]
        if shutil.which("ssh") is None:
            found.append(Refusal("ssh is not installed", "apt install openssh-client"))
        elif self.options.where:
            found += self._host_refusals(spec)
        return found

    def _connection(self) -> Connection:
        return connection_to(self.options.where)

    def _host_refusals(self, spec: RigSpec) -> list[Refusal]:
        try:
            host = self._connection()
            return list(requirements.refusals(query_host(host, spec.modules, spec.programs), host.name))
        except HarnessBroken as error:
            return [Refusal(": ".join(filter(None, (error.brief, error.details))), error.resolution)]

    def kernel_refusal(self, kernel: str) -> str:
        return f"a host behind ssh runs its own kernel, not {kernel}"

    @asynccontextmanager
    async def rig(self, spec: RigSpec, scratch: Path) -> "AsyncIterator[SshRig]":  # noqa: ARG002
        agent = self.options.agent
        if agent is None:
            raise ValueError("disks of another host must be leased before a rig is made of them")
        if agent.lost:
            raise HarnessBroken(
                f"the lease of the disks of {agent.connection.name} is lost: {agent.lost.brief}",
                details=agent.lost.details,
                resolution="results are kept; run the same command again to clean up that host and resume",
            )
        # The agent waits while the connection is down.
        query = join(requirements.query_command(spec.modules, (*spec.programs, *PROGRAMS), spec.options)).encode()
        try:
            done = await asyncio.to_thread(agent.run_script, token_hex(8), query, requirements.PATIENCE)
        except AgentLost as gone:
            raise RigLost(gone.brief, tail=gone.details) from gone
        facts = requirements.facts(done.output.decode(errors="replace"))
        yield SshRig(agent, self.options.disks[: len(spec.disks)], facts, identity_script(self.options))


class SshRig(ShellRig):
    def __init__(self, agent: AgentClient, disks: Iterable[str], facts: Mapping[str, str], before: str) -> None:
        super().__init__((), agent.folder, tuple(disks), facts, agent.connection.name, before=before)
        self._agent = agent

    async def _enact(self, script: bytes, deadline: float) -> tuple[bytes, str]:
        job = token_hex(8)
        work = asyncio.ensure_future(asyncio.to_thread(self._agent.run_script, job, script, deadline))
        try:
            done = await asyncio.shield(work)
        except asyncio.CancelledError:
            with suppress(HarnessBroken):
                await asyncio.to_thread(self._agent.stop, job)
                await work
            raise
        except AgentLost as gone:
            raise RigLost(gone.brief, tail=gone.details) from gone
        if done.over_budget:  # a disk near its write budget: the observer of the journal stops the run now
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


def query_host(host: Connection, modules: Iterable[str], programs: Iterable[str]) -> str:
    query = join(requirements.query_command(modules, (*programs, *PROGRAMS)))
    return requirements.check_answer(host.query(query, requirements.PATIENCE), host.name)


class Sudo(Ssh):
    name: ClassVar[str] = Local.name

    def refusals(self, spec: RigSpec) -> list[Refusal]:
        try:
            sudo_connection()
        except HarnessBroken as error:
            return [*Local().refusals(spec), Refusal(error.brief, error.resolution)]
        return [*model_refusals(spec), *self._host_refusals(spec)]

    def known(self, spec: RigSpec) -> Mapping[str, str]:
        return Local().known(spec)

    def kernel_refusal(self, kernel: str) -> str:
        return Local().kernel_refusal(kernel)

    def _connection(self) -> Connection:
        return sudo_connection()
