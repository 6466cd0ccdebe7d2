"""Containers of dead runs. They end with their owner; this removes those that an engine has forgotten.

Containers of this program have two labels: the folder of their run, and the owning process. Only these are considered,
and only those whose process is gone are removed.
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
from runner.machines.container.argv import OWNER, RUN, removed
from runner.machines.container.engine import PATIENCE, installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.machines.container.argv import Engine

SHOWN = "\t".join(
    ("{{.Name}}", "{{.State.Status}}", *(f'{{{{index .Config.Labels "{label}"}}}}' for label in (OWNER, RUN)))
)
#: How often removal is tried before the container counts as one that stays.
TRIES = 3
UP = frozenset({"running", "paused", "restarting"})


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, identified so that no other is taken for it."""

    #: This boot of this host and the PID namespace: other namespaces use other numbers.
    world: str
    pid: int
    #: Start in ticks since the boot: process numbers are used again.
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
        """Whether this process could see it if it were alive."""
        return self.world == _world()

    @property
    def is_alive(self) -> bool:
        """Whether it runs; only valid if `is_here`."""
        return _born(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class Left:
    name: str
    status: str
    owner: Owner | None
    run: str

    @property
    def is_left(self) -> bool:
        """Whether its owner is gone. An owner in another PID namespace cannot be checked: there a container that is not
        up counts as left.
        """
        if self.owner is None or not self.owner.is_here:
            return self.status not in UP
        return not self.owner.is_alive


def parsed(said: str) -> Iterator[Left]:
    for line in said.splitlines():
        name, status, owner, of = [*line.split("\t"), "", "", ""][:4]
        if name and of:
            yield Left(name.removeprefix("/"), status, Owner.parse(owner), of)


def sweep(*, dry: bool = False) -> Iterator[Leftover]:
    for engine in installed():
        with suppress(HarnessBroken):  # an engine that does not answer runs no containers
            for one in left_over(engine):
                told = f"{engine.kind} container {one.name} of {one.run}"
                yield Leftover(f"{told}: its process is gone") if dry else _taken_away(engine, one, told)


def left_over(engine: Engine) -> list[Left]:
    listed = run(engine.argv("ps", "--all", "--quiet", f"--filter=label={RUN}"), timeout=PATIENCE)
    names = listed.stdout.split() if listed.returncode == 0 else []
    if not names:
        return []
    # `inspect` complains about a container that is gone by now, and lists the others.
    return [
        one
        for one in parsed(run(engine.argv("inspect", f"--format={SHOWN}", *names), timeout=PATIENCE).stdout)
        if one.is_left
    ]


def _taken_away(engine: Engine, one: Left, told: str) -> Leftover:
    said = ""  # the engine may be removing it itself, and then reports an error
    for _ in range(TRIES):
        done = run(removed(engine, one.name), timeout=PATIENCE)
        if done.returncode == 0 or run(engine.argv("inspect", one.name), timeout=PATIENCE).returncode:
            return Leftover(f"{told}: taken away")
        said = done.stderr.strip()
    return Leftover(f"{told} could not be taken away: {said}", remains=True)


def _world() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"


def _born(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        # The program's name may contain anything; it ends at the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) if fields[0] not in {"Z", "X"} else None
    return None
