"""What this machine remembers of disks: to which run each was handed, and how much was written to it in which night.

It outlives runs and their folders: after a crash, this and the label on the disk are what tells ours from theirs.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.base.atomic_files import write_atomically
from runner.base.errors import HarnessBroken
from runner.hosts.own_work import Ours
from runner.hosts.wear import Ledger, grown
from runner.results.database_errors import translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date

M = TypeVar("M", bound=BaseModel)
#: What stood before a disk of another host in the ledger.
_OF_HOST = re.compile(r"^ssh:\S+ ")


class Handed(BaseModel):
    """A disk that a run was given, written down before the first byte is, and struck out when it gave it back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disk: str = Field(description="its stable name")
    identity: str = Field(description="its WWN or serial number: what it is known by for sure")
    reach: str = Field(default="local", description="how its host is reached: `local`, or `ssh:` and a name")
    size: int
    run: str
    folder: str = Field(description="of the run, in which its scripts are")
    marks: tuple[str, ...] = Field(default=(), description="UUIDs of what the run makes on it")
    inside: str = Field(default="", description="what it is called where the run's scripts run, if that is not here")
    since: str = Field(description="ISO 8601, UTC")
    written: int = Field(default=0, description="bytes: what the kernel counted up to when the ledger was last told")
    boot: str = Field(default="", description="the boot in which it counted")
    controller: str = Field(default="", description="the PCI address of its controller, if that went with it")


def state_dir() -> Path:
    """Where it is kept; `MATRIX_STATE` overrules."""
    chosen = os.environ.get("MATRIX_STATE")
    return Path(chosen).absolute() if chosen else Path(platformdirs.user_state_dir("matrix"))


def handed(state: Path, reach: str | None = None) -> tuple[Handed, ...]:
    """All disks that runs have and did not give back; `reach`: those of this host alone."""
    texts = ((path, _content(path)) for path in sorted((state / "disks").glob("*.json")))
    found = (_read(path, text, Handed) for path, text in texts if text is not None)
    return tuple(one for one in found if reach in {None, one.reach})


def hand(state: Path, one: Handed) -> None:
    """Write it down, durably: before the disk is touched."""
    path = _place(state, one.identity, one.reach)
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, one.model_dump_json(indent=1).encode())


def came_back(state: Path, identity: str) -> None:
    """Its controller is with its driver again: whoever has it from now on is somebody else."""
    for one in handed(state, "local"):
        if one.identity == identity:
            hand(state, one.model_copy(update={"controller": ""}))


def strike_out(state: Path, identity: str, reach: str = "local") -> None:
    """It was given back."""
    _place(state, identity, reach).unlink(missing_ok=True)


def ours(state: Path, run: str = "", reach: str = "local") -> Ours:
    """By what work of ours on a host is known again; `run` is the one that asks."""
    found = handed(state, reach)
    return Ours(
        run=run,
        marks=frozenset(mark for one in found if one.run == run for mark in one.marks),
        recorded=frozenset(one.identity for one in found if one.run == run),
        others=frozenset((one.identity, one.run) for one in found if one.run != run),
        away=frozenset((one.disk, one.run) for one in found if one.controller),
    )


def ledger(state: Path) -> Ledger:
    """How much was written to each disk."""
    path = state / "wear.json"
    return _by_disk(_read(path, text, Ledger)) if (text := _content(path)) is not None else Ledger()


def _by_disk(known: Ledger) -> Ledger:
    """Earlier ones tell of a disk once for each name of its host, but it wears on whatever way it is written."""
    plain = (one.model_copy(update={"disk": _OF_HOST.sub("", one.disk)}) for one in known.nights)
    return Ledger(nights=tuple(plain))


def wore(state: Path, written: Iterable[tuple[str, int]], night: date) -> Ledger:
    """Count bytes of disks, each by its identity; several runs may do so at once."""
    with _alone(state):
        known = ledger(state)
        for disk, size in written:
            known = known.with_written(disk, night, size)
        write_atomically(state / "wear.json", known.model_dump_json(indent=1).encode())
    return known


def count(state: Path, run: str, counters: Mapping[str, int], boot: str, night: date) -> None:
    """Put into the ledger what was written to the disks of a run since that was last done, by the kernel's counters.

    First the ledger, then the records: who is killed between them has written too much in it, never too little.
    """
    more = uncounted(state, run, counters, boot)
    mine = [one for one in handed(state) if one.run == run]
    if any(more.values()):
        wore(state, list(more.items()), night)
    for one in mine:
        if one.identity in more and (more[one.identity] or one.boot != boot):
            # A boot gives every controller back.
            controller = one.controller if one.boot == boot else ""
            known = {"written": counters[one.identity], "boot": boot, "controller": controller}
            hand(state, one.model_copy(update=known))


def uncounted(state: Path, run: str, counters: Mapping[str, int], boot: str) -> dict[str, int]:
    """What was written to the disks of a run and is not in the ledger yet, by their identities.

    A machine that was started anew counts from nothing, and what it counted since then was not this run.
    """
    mine = [one for one in handed(state) if one.run == run and one.identity in counters]
    return {one.identity: grown(one.written, counters[one.identity]) if one.boot == boot else 0 for one in mine}


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    with translate_errors(state):
        state.mkdir(parents=True, exist_ok=True)
        file = (state / ".wear.lock").open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _place(state: Path, identity: str, reach: str) -> Path:
    """A record is of a disk by the way on which it was lent, as that is how it is taken back."""
    name = identity if reach == "local" else f"{reach} {identity}"
    return state / "disks" / f"{re.sub(r'[^A-Za-z0-9_-]+', '_', name)}.json"


def _content(path: Path) -> bytes | None:
    """None if it is not there: another run may have struck it out since it was listed."""
    with translate_errors(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def _read(path: Path, text: bytes, model: type[M]) -> M:
    try:
        return model.model_validate_json(text)
    except ValidationError as problem:
        raise HarnessBroken(
            f"{path} is not what matrix wrote there",
            details=str(problem),
            resolution="look at it: it says which disks a run may have left work on; then move it away",
        ) from None
