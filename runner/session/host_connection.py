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

    from runner.hosts.agent.client import Holder
    from runner.hosts.agent.connection import Line
    from runner.hosts.exclusive import Held
    from runner.hosts.inventory import Census
    from runner.hosts.operations import Hands


@dataclass(frozen=True)
class Reached:
    """One that is."""

    #: As hosts.yaml says it.
    reach: str
    ask: Callable[[], Census]
    hands: Hands
    #: What does it all over there, if it is not this one.
    holder: Holder | None = None
    #: What was found of paths.
    known: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> Line | None:
        """What leads there, if anything has to."""
        return self.holder.line if self.holder else None

    @property
    def boot_id(self) -> str:
        """Another one after every boot."""
        from runner.session.host_facts import boot_id

        return self.holder.boot_id if self.holder else boot_id()

    def written(self, disks: Sequence[Held]) -> dict[str, int]:
        """What its kernel counts for each disk, by its identity; one that cannot be asked about is left out."""
        from runner.hosts.remote_operations import There
        from runner.hosts.write_budget import written_here

        return self.hands.written(disks) if isinstance(self.hands, There) else written_here(disks)

    def bound(self, disks: Sequence[Held], most: Mapping[str, int]) -> bool:
        """Have it seen to that no more is counted for each while it cannot be asked; here it always can."""
        from runner.hosts.remote_operations import There

        return self.hands.bound(disks, most) if isinstance(self.hands, There) else True

    def paths(self, disks: Sequence[Held]) -> tuple[str, ...]:
        """What scripts there call them. Asked once: these disks do not move while they are held."""
        from runner.hosts.identity import unless_telling

        if not self.known:
            self.known.update({one.claim.id: self.path(one.claim.id, one.node.path) for one in disks})
            for one in disks:
                unless_telling(one.claim.id, self.known[one.claim.id], one.node)
        return tuple(self.known[one.claim.id] for one in disks)

    def path(self, name: str, kernel: str) -> str:
        """A disk's stable name there, or where there is no udev to give it one, what the kernel calls it."""
        link = f"/dev/disk/by-id/{name}"
        leads = f'[ -e {quote(link)} ] && [ "$(readlink -f -- {quote(link)})" = {quote(kernel)} ]'
        trouble = self.hands.run(leads, 60)
        if trouble not in {"", "status 1"}:
            raise HarnessBroken(f"nobody can tell whether {link} leads to {kernel}: {trouble}")
        return kernel if trouble else link


def line_of(reach: str) -> Line | None:
    """What leads to a host, or to root's rights on this one; None where nothing has to, or can."""
    from runner.hosts.agent import sudo
    from runner.hosts.agent.connection import line_to

    if reach != "local":
        return line_to(reach.removeprefix("ssh:"))
    if os.geteuid() == 0 or not sudo.installed():
        return None
    try:
        return sudo.by_sudo()
    except HarnessBroken as error:
        click.echo(f"without root's rights: {error.brief}; {error.resolution}", err=True)
        return None


@contextmanager
def reached(reach: str, line: Line | None, run: str, say: Callable[[str], None]) -> Iterator[Reached]:
    """Reach a host, for a run or something else that has a name; `say` is told when the way there breaks."""
    from runner.hosts.local_operations import HERE
    from runner.hosts.probe import asked
    from runner.scripts.inventory import census_script

    ask = partial(asked, line, census_script())
    if line is None:
        yield Reached(reach, ask, HERE)
        return
    from runner.hosts.agent.client import Holder
    from runner.hosts.remote_operations import There
    from runner.machines.shell import guard

    with Holder(line, run, guard(), say) as holder:
        yield Reached(reach, ask, There(holder), holder)
