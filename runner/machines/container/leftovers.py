"""Removal of containers of dead runs, where an engine has not removed them itself.

A container is removed only if it has the labels of this program and its owning process is gone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.process import run
from runner.machines.base import Leftover
from runner.machines.container.argv import OWNER, RUN, remove_command
from runner.machines.container.engines import PATIENCE, installed_engines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.machines.container.argv import Engine

SHOWN = "\t".join(
    ("{{.Name}}", "{{.State.Status}}", *(f'{{{{index .Config.Labels "{label}"}}}}' for label in (OWNER, RUN)))
)
#: Attempts to remove a container.
TRIES = 3
UP = frozenset({"running", "paused", "restarting"})


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, identified beyond its number, which is reused."""

    #: The boot of the host and the PID namespace.
    world: str
    pid: int
    #: Its start in ticks since the boot.
    born: int

    def __str__(self) -> str:
        return f"{self.world} {self.pid} {self.born}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        world, pid, born, *more = [*text.split(" "), "", "", ""]
        return cls(world, int(pid), int(born)) if pid.isdecimal() and born.isdecimal() and not any(more) else None

    @classmethod
    def me(cls) -> Owner:
        return cls(_world(), os.getpid(), _born(os.getpid()) or 0)

    @property
    def is_here(self) -> bool:
        """Return whether it is in the PID namespace of this process, in this boot."""
        return self.world == _world()

    @property
    def is_alive(self) -> bool:
        """Return whether it runs. Only valid if `is_here`."""
        return _born(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class LabelledContainer:
    name: str
    status: str
    owner: Owner | None
    run: str

    @property
    def is_abandoned(self) -> bool:
        """Return whether its owner is gone. If the owner cannot be checked, a container counts unless it runs."""
        if self.owner is None or not self.owner.is_here:
            return self.status not in UP
        return not self.owner.is_alive


def parse_containers(output: str) -> Iterator[LabelledContainer]:
    for line in output.splitlines():
        name, status, owner, of = [*line.split("\t"), "", "", ""][:4]
        if name and of:
            yield LabelledContainer(name.removeprefix("/"), status, Owner.parse(owner), of)


def sweep(*, dry: bool = False) -> Iterator[Leftover]:
    for engine in installed_engines():
        with suppress(HarnessBroken):  # an engine that does not answer runs no containers
            for one in find_abandoned(engine):
                title = f"{engine.kind} container {one.name} of {one.run}"
                yield Leftover(f"{title}: its process is gone") if dry else _remove(engine, one, title)


def find_abandoned(engine: Engine) -> list[LabelledContainer]:
    listed = run(engine.argv("ps", "--all", "--quiet", f"--filter=label={RUN}"), timeout=PATIENCE)
    names = listed.stdout.split() if listed.returncode == 0 else []
    if not names:
        return []
    # `inspect` reports an error for a container that is gone by now, and lists the others.
    return [
        one
        for one in parse_containers(run(engine.argv("inspect", f"--format={SHOWN}", *names), timeout=PATIENCE).stdout)
        if one.is_abandoned
    ]


def _remove(engine: Engine, one: LabelledContainer, title: str) -> Leftover:
    error = ""  # the engine may be removing it itself, and then reports an error
    for _ in range(TRIES):
        done = run(remove_command(engine, one.name), timeout=PATIENCE)
        if done.returncode == 0 or run(engine.argv("inspect", one.name), timeout=PATIENCE).returncode:
            return Leftover(f"{title}: removed")
        error = done.stderr.strip()
    return Leftover(f"{title} could not be removed: {error}", remains=True)


def _world() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"


def _born(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        # The program's name may contain anything; it ends at the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) if fields[0] not in {"Z", "X"} else None
    return None
