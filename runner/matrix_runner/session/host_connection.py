"""The connection to a host with physical disks, local or over SSH."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from shlex import quote

import click

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.text import printable
from matrix_runner.hosts.agent import connection
from matrix_runner.hosts.agent.client import AgentClient
from matrix_runner.hosts.agent.connection import Connection, connection_to
from matrix_runner.hosts.checks import take_census
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.identity import require_lasting_identity
from matrix_runner.hosts.inventory import Census
from matrix_runner.hosts.operations import LOCAL, DiskOperations, RemoteOperations
from matrix_runner.machines.shell import guard
from matrix_runner.scripts.jinja import census_script
from matrix_runner.session.host_facts import boot_id


@dataclass(frozen=True)
class HostConnection:
    #: `reach:` of hosts.yaml.
    reach: str
    take_census: Callable[[], Census]
    operations: DiskOperations
    #: The agent on the host; None if this process works on the host itself.
    agent: AgentClient | None = None
    path_cache: dict[str, str] = field(default_factory=dict)

    @property
    def connection(self) -> Connection | None:
        return self.agent.connection if self.agent else None

    @property
    def boot_id(self) -> str:
        return self.agent.boot_id if self.agent else boot_id()

    def paths(self, disks: Sequence[LeasedDisk]) -> tuple[str, ...]:
        """Return the paths of disks for scripts. Paths are cached: a leased disk keeps its path."""
        if not self.path_cache:
            paths = {one.declared.id: self.path(one.declared.id, one.node.path) for one in disks}
            for one in disks:
                require_lasting_identity(one.declared.id, paths[one.declared.id], one.node)
            self.path_cache.update(paths)
        return tuple(self.path_cache[one.declared.id] for one in disks)

    def path(self, name: str, kernel: str) -> str:
        """Return the stable path of a disk; its kernel path on a host without udev."""
        link = f"/dev/disk/by-id/{name}"
        leads = f'[ -e {quote(link)} ] && [ "$(readlink -f -- {quote(link)})" = {quote(kernel)} ]'
        trouble = self.operations.run(leads, 60)
        if trouble not in {"", "status 1"}:
            raise HarnessBroken(f"cannot check that {link} is {kernel}: {trouble}")
        return kernel if trouble else link


def open_connection(reach: str) -> Connection | None:
    """Return the connection to an ssh host, or to root by sudo; None if this process is root or sudo is missing."""
    if reach != "local":
        return connection_to(reach.removeprefix("ssh:"))
    if os.geteuid() == 0 or not connection.is_installed():
        return None
    try:
        return connection.sudo_connection()
    except HarnessBroken as error:
        click.echo(printable(f"continuing without root: {error.brief}; {error.resolution}"), err=True)
        return None


@contextmanager
def connect_host(
    reach: str, connection: Connection | None, run: str, notice: Callable[[str], None]
) -> Iterator[HostConnection]:
    census = partial(take_census, connection, census_script())
    if connection is None:
        yield HostConnection(reach, census, LOCAL)
        return

    with AgentClient(connection, run, guard(), notice) as agent:
        yield HostConnection(reach, census, RemoteOperations(agent), agent)
