"""Containers of runs that are gone. They end by themselves with whoever holds them; this is for when an engine forgot.

Ours carry two labels: the folder of their run, and the process that holds them. Only those are looked at, and only
those whose process is gone are taken away.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import HarnessBroken
from runner.base.process import run
from runner.machines.base import Swept
from runner.machines.container.argv import OWNER, RUN, removed
from runner.machines.container.engine import PATIENCE, installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.machines.container.argv import Engine

SHOWN = "\t".join(
    ("{{.Name}}", "{{.State.Status}}", *(f'{{{{index .Config.Labels "{label}"}}}}' for label in (OWNER, RUN)))
)
#: How often a container is told to go before it counts as one that stays.
TRIES = 3
UP = frozenset({"running", "paused", "restarting"})


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, such that no other is ever taken for it."""

    #: This boot of this host, and whom it can see: in another PID namespace numbers are others'.
    world: str
    pid: int
    #: In ticks since the boot: numbers are used again.
    born: int

    def __str__(self) -> str:
        return f"{self.world} {self.pid} {self.born}"

    @classmethod
    def told(cls, text: str) -> Owner | None:
        """The owner that a label names."""
        world, pid, born, *more = [*text.split(" "), "", "", ""]
        return cls(world, int(pid), int(born)) if pid.isdecimal() and born.isdecimal() and not any(more) else None

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        return cls(_world(), os.getpid(), _born(os.getpid()) or 0)

    @property
    def is_here(self) -> bool:
        """Whether we could see it, if it were alive."""
        return self.world == _world()

    @property
    def is_alive(self) -> bool:
        """Whether it is; only for one that is here."""
        return _born(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class Left:
    """A container of ours."""

    name: str
    status: str
    owner: Owner | None
    run: str

    @property
    def is_left(self) -> bool:
        """Whether nobody holds it. Of whom we cannot see we only know that they do not hold one that is not up."""
        if self.owner is None or not self.owner.is_here:
            return self.status not in UP
        return not self.owner.is_alive


def parsed(said: str) -> Iterator[Left]:
    """What `inspect` said."""
    for line in said.splitlines():
        name, status, owner, of = [*line.split("\t"), "", "", ""][:4]
        if name and of:
            yield Left(name.removeprefix("/"), status, Owner.told(owner), of)


def swept(*, dry: bool = False) -> Iterator[Swept]:
    """Take away what nobody holds any more, and say of each."""
    for engine in installed():
        with suppress(HarnessBroken):  # an engine that does not answer runs nothing that we could end
            for one in left_over(engine):
                told = f"{engine.kind} container {one.name} of {one.run}"
                yield Swept(f"{told}: its process is gone") if dry else _taken_away(engine, one, told)


def left_over(engine: Engine) -> list[Left]:
    """Those of an engine that nobody holds."""
    listed = run(engine.argv("ps", "--all", "--quiet", f"--filter=label={RUN}"), timeout=PATIENCE)
    names = listed.stdout.split() if listed.returncode == 0 else []
    if not names:
        return []
    # One that went by itself in the meantime is complained of; the others are told.
    return [
        one
        for one in parsed(run(engine.argv("inspect", f"--format={SHOWN}", *names), timeout=PATIENCE).stdout)
        if one.is_left
    ]


def _taken_away(engine: Engine, one: Left, told: str) -> Swept:
    """An engine may be at it itself, and then complains of us."""
    said = ""
    for _ in range(TRIES):
        done = run(removed(engine, one.name), timeout=PATIENCE)
        if done.returncode == 0 or run(engine.argv("inspect", one.name), timeout=PATIENCE).returncode:
            return Swept(f"{told}: taken away")
        said = done.stderr.strip()
    return Swept(f"{told} could not be taken away: {said}", stays=True)


def _world() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"


def _born(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        # The name of the program, which may be anything, ends with the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[19]) if fields[0] not in {"Z", "X"} else None
    return None
