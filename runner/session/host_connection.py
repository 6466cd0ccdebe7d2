"""A host with disks, this one or another, in the hands of a command for as long as it takes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

import click

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.hosts.agent.client import AgentClient
    from runner.hosts.agent.connection import Connection
    from runner.hosts.exclusive import LeasedDisk
    from runner.hosts.inventory import Census
    from runner.hosts.operations import DiskOperations


@dataclass(frozen=True)
class Reached:
    """One that is."""

    #: As hosts.yaml says it.
    reach: str
    ask: Callable[[], Census]
    operations: DiskOperations
    #: What does it all over there, if it is not this one.
    agent: AgentClient | None = None
    #: What was found of paths.
    known: dict[str, str] = field(default_factory=dict)

    @property
    def connection(self) -> Connection | None:
        """What leads there, if anything has to."""
        return self.agent.connection if self.agent else None

    @property
    def boot_id(self) -> str:
        """Another one after every boot."""
        from runner.session.host_facts import boot_id

        return self.agent.boot_id if self.agent else boot_id()

    def read_write_counters(self, disks: Sequence[LeasedDisk]) -> dict[str, int]:
        """What its kernel counts for each disk, by its identity; one that cannot be asked about is left out."""
        from runner.hosts.remote_operations import RemoteOperations
        from runner.hosts.write_budget import read_write_counters

        return (
            self.operations.read_write_counters(disks)
            if isinstance(self.operations, RemoteOperations)
            else read_write_counters(disks)
        )

    def limit_writes(self, disks: Sequence[LeasedDisk], most: Mapping[str, int]) -> bool:
        """Have it seen to that no more is counted for each while it cannot be asked; here it always can."""
        from runner.hosts.remote_operations import RemoteOperations

        return self.operations.limit_writes(disks, most) if isinstance(self.operations, RemoteOperations) else True

    def paths(self, disks: Sequence[LeasedDisk]) -> tuple[str, ...]:
        """What scripts there call them. Asked once: these disks do not move while they are held."""
        from runner.hosts.identity import require_lasting_identity

        if not self.known:
            self.known.update({one.declared.id: self.path(one.declared.id, one.node.path) for one in disks})
            for one in disks:
                require_lasting_identity(one.declared.id, self.known[one.declared.id], one.node)
        return tuple(self.known[one.declared.id] for one in disks)

    def path(self, name: str, kernel: str) -> str:
        """A disk's stable name there, or where there is no udev to give it one, what the kernel calls it."""
        link = f"/dev/disk/by-id/{name}"
        leads = f'[ -e {quote(link)} ] && [ "$(readlink -f -- {quote(link)})" = {quote(kernel)} ]'
        trouble = self.operations.run(leads, 60)
        if trouble not in {"", "status 1"}:
            raise HarnessBroken(f"nobody can tell whether {link} leads to {kernel}: {trouble}")
        return kernel if trouble else link


def connection_for(reach: str) -> Connection | None:
    """What leads to a host, or to root's rights on this one; None where nothing has to, or can."""
    from runner.hosts.agent import sudo
    from runner.hosts.agent.connection import connection_to

    if reach != "local":
        return connection_to(reach.removeprefix("ssh:"))
    if os.geteuid() == 0 or not sudo.is_installed():
        return None
    try:
        return sudo.sudo_connection()
    except HarnessBroken as error:
        click.echo(f"without root's rights: {error.brief}; {error.resolution}", err=True)
        return None


@contextmanager
def reached(reach: str, line: Connection | None, run: str, say: Callable[[str], None]) -> Iterator[Reached]:
    """Reach a host, for a run or something else that has a name; `say` is told when the way there breaks."""
    from runner.hosts.local_operations import LOCAL
    from runner.hosts.probe import take_census
    from runner.scripts.inventory import census_script

    ask = partial(take_census, line, census_script())
    if line is None:
        yield Reached(reach, ask, LOCAL)
        return
    from runner.hosts.agent.client import AgentClient
    from runner.hosts.remote_operations import RemoteOperations
    from runner.machines.shell import guard

    with AgentClient(line, run, guard(), say) as agent:
        yield Reached(reach, ask, RemoteOperations(agent), agent)
