"""Lease records; the bytes written to each disk per night; and the limit that refuses a disk or stops a run."""

import asyncio
import fcntl
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.base.files import open_lock_file, write_atomically
from matrix_runner.hosts import SECTOR
from matrix_runner.hosts.agent.agent import BLOCK_DEVICES, count_sectors_written
from matrix_runner.hosts.exclusive import LeasedDisk
from matrix_runner.hosts.reasons import OwnMarks
from matrix_runner.language.hosts import DeclaredDisk
from matrix_runner.records.files import recorded_file_errors

KEPT = timedelta(days=400)


class Night(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    disk: str = Field(description="by what it is known for sure: its WWN, or its serial number")
    night: str = Field(description="the day on which it began")
    written: int = Field(ge=0, description="bytes")


class Ledger(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    nights: tuple[Night, ...] = ()

    def written_in(self, disk: str, night: date) -> int:
        return sum(one.written for one in self.nights if (one.disk, one.night) == (disk, night.isoformat()))

    def with_written(self, disk: str, night: date, written: int) -> "Ledger":
        now = Night(disk=disk, night=night.isoformat(), written=self.written_in(disk, night) + written)
        others = (one for one in self.nights if (one.disk, one.night) != (disk, now.night))
        return Ledger(nights=(*(one for one in others if one.night >= (night - KEPT).isoformat()), now))


def night_of(moment: datetime) -> date:
    """Return the night of a moment. Nights last from noon to noon, so that midnight does not split one."""
    return (moment - timedelta(hours=12)).date()


def counter_increase(before: int, after: int) -> int:
    """Return what was written between two values of a kernel counter, which restarts at 0 with the machine or disk."""
    return after - before if after >= before else after


def remaining_bytes(ledger: Ledger, declared: DeclaredDisk, disk: str, night: date) -> int | None:
    return None if declared.wear is None else max(0, declared.wear - ledger.written_in(disk, night))


def wear_refusal(ledger: Ledger, declared: DeclaredDisk, disk: str, night: date) -> str:
    left = remaining_bytes(ledger, declared, disk, night)
    if left is None or left > 0:
        return ""
    return (
        f"{declared.id}: {ledger.written_in(disk, night)} of {declared.wear} bytes were written in the night of "
        f"{night.isoformat()}"
    )


M = TypeVar("M", bound=BaseModel)


class LeaseRecord(BaseModel):
    """A leased disk. Written before the disk is, and deleted when the run releases it."""

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
    written: int = Field(default=0, description="bytes: the kernel's counter at the last update of the ledger")
    boot: str = Field(default="", description="the boot in which it counted")
    controller: str = Field(default="", description="the PCI address of its controller, if that went with it")
    only_read: bool = Field(default=False, description="the run writes nothing to it, so nothing is left to remove")


def state_dir() -> Path:
    chosen = os.environ.get("MATRIX_STATE")
    return Path(chosen).absolute() if chosen else Path(platformdirs.user_state_dir("matrix"))


def lease_records(state: Path, reach: str | None = None) -> tuple[LeaseRecord, ...]:
    texts = ((path, _read_bytes(path)) for path in sorted((state / "disks").glob("*.json")))
    found = (_parse(path, text, LeaseRecord) for path, text in texts if text is not None)
    return tuple(one for one in found if reach in {None, one.reach})


def write_record(state: Path, one: LeaseRecord) -> None:
    path = _record_path(state, one.identity, one.reach)
    with recorded_file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, one.model_dump_json(indent=1).encode())


def clear_controller(state: Path, identity: str) -> None:
    """Record that the host's driver has the controller again: from now on any other use of it is not the run's."""
    for one in lease_records(state, "local"):
        if one.identity == identity:
            write_record(state, one.model_copy(update={"controller": ""}))


def delete_record(state: Path, identity: str, reach: str = "local") -> None:
    _record_path(state, identity, reach).unlink(missing_ok=True)


def own_marks(state: Path, run: str = "", reach: str = "local") -> OwnMarks:
    found = lease_records(state, reach)
    return OwnMarks(
        run=run,
        marks=frozenset(mark for one in found if one.run == run for mark in one.marks),
        recorded=frozenset(one.identity for one in found if one.run == run and not one.only_read),
        others=frozenset((one.identity, one.run) for one in found if one.run != run and not one.only_read),
        detached=frozenset((one.disk, one.run) for one in found if one.controller),
    )


def read_ledger(state: Path) -> Ledger:
    text = _read_bytes(state / "wear.json")
    return _parse(state / "wear.json", text, Ledger) if text is not None else Ledger()


def add_written(state: Path, written: Iterable[tuple[str, int]], night: date) -> Ledger:
    with ExitStack() as stack:
        with recorded_file_errors(state):
            state.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open_lock_file(state / ".wear.lock"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read_ledger(state)
        for disk, size in written:
            known = known.with_written(disk, night, size)
        write_atomically(state / "wear.json", known.model_dump_json(indent=1).encode())
    return known


def count_written(state: Path, run: str, counters: Mapping[str, int], boot: str, night: date) -> None:
    """Add uncounted writes to the ledger, then to the records: a kill between counts too much, never too little."""
    more = uncounted_bytes(state, run, counters, boot)
    mine = [one for one in lease_records(state) if one.run == run]
    if any(more.values()):
        add_written(state, list(more.items()), night)
    for one in mine:
        if one.identity in more and (more[one.identity] or one.boot != boot):
            # A reboot returns every controller to its driver.
            controller = one.controller if one.boot == boot else ""
            known = {"written": counters[one.identity], "boot": boot, "controller": controller}
            write_record(state, one.model_copy(update=known))


def uncounted_bytes(state: Path, run: str, counters: Mapping[str, int], boot: str) -> dict[str, int]:
    """Return bytes that are not in the ledger yet, by identity. After a reboot the counters are not this run's."""
    mine = [one for one in lease_records(state) if one.run == run and one.identity in counters]
    return {
        one.identity: counter_increase(one.written, counters[one.identity]) if one.boot == boot else 0 for one in mine
    }


def _record_path(state: Path, identity: str, reach: str) -> Path:
    """Return the path of a record. It depends on how the host is reached, as the disk is returned in the same way."""
    name = identity if reach == "local" else f"{reach} {identity}"
    return state / "disks" / f"{re.sub(r'[^A-Za-z0-9_-]+', '_', name)}.json"


def _read_bytes(path: Path) -> bytes | None:
    """Return None if the file is gone: another run may have deleted it since it was listed."""
    with recorded_file_errors(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def _parse(path: Path, text: bytes, model: type[M]) -> M:
    try:
        return model.model_validate_json(text)
    except ValidationError as problem:
        raise HarnessBroken(
            f"{path} is a record that `matrix` cannot read",
            details=str(problem),
            resolution="read it yourself: it names disks on which a run may have left something; "
            "then move the file to another folder",
        ) from None


POLL = 2.0
#: Polls between two updates of the ledger: few, as a measurement is running.
POLLS_PER_SAVE = 5


def read_write_counters(disks: Sequence[LeasedDisk], devices: Path = Path(BLOCK_DEVICES)) -> dict[str, int]:
    """Return the bytes counted for each disk. Skip those that went with their controller: the name may be another's."""
    found = {}
    for one in (one for one in disks if not one.controller):
        sectors = count_sectors_written(one.node.name, str(devices))
        if sectors >= 0:
            found[one.node.identity] = sectors * SECTOR
    return found


@dataclass
class WriteBudget:
    run: str
    state: Path
    disks: Mapping[str, DeclaredDisk]
    read: Callable[[], Mapping[str, int]]
    now: Callable[[], datetime]
    boot: str
    #: Makes the agent enforce the limits while we cannot poll; returns whether it received them.
    limit: Callable[[Mapping[str, int]], bool] = lambda _: True
    stop_reason: str = ""  # why the run has to stop for tonight; empty if it need not
    amplification: float = 1.0  # the worst observed ratio of bytes written to one disk to bytes written to its array
    _at_start: Mapping[str, int] = field(default_factory=dict)
    #: By identity: the counter when last polled, and the number of that poll.
    _last_seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    _polls: int = 0
    _limits: Mapping[str, int] = field(default_factory=dict)

    def remaining(self) -> dict[str, int]:
        return {disk: max(0, size) for disk, size in self._balance(self.read()).items()}

    def _balance(self, counters: Mapping[str, int]) -> dict[str, int]:
        """Return the same; negative where the budget is exceeded."""
        night, known = night_of(self.now()), read_ledger(self.state)
        since = uncounted_bytes(self.state, self.run, counters, self.boot)
        rooms = {disk: remaining_bytes(known, declared, disk, night) for disk, declared in self.disks.items()}
        return {disk: size - since.get(disk, 0) for disk, size in rooms.items() if size is not None}

    def save(self) -> None:
        count_written(self.state, self.run, self.read(), self.boot, night_of(self.now()))

    def can_afford(self, asked: float) -> bool:
        """Return whether an array may write this much, possibly all to one disk; set `stop_reason` if not."""
        ahead = int(asked * self.amplification)
        for disk, left in self.remaining().items() if ahead else ():
            if ahead > left:
                self.stop_reason = self._stop_message(
                    disk, f"{left} bytes are left, and the next trial can write {ahead}"
                )
                return False
        return True

    def begin_trial(self) -> None:
        self._at_start = self.read()

    def end_trial(self, asked: float) -> None:
        after = self.read()
        grown = max((after[disk] - before for disk, before in self._at_start.items() if disk in after), default=0)
        if asked and self._at_start:
            self.amplification = max(self.amplification, grown / asked)
        self._at_start = {}
        self.save()

    def check_counters(self) -> bool:
        """Poll the counters; return whether a disk would exceed its budget by the next poll at the current rate."""
        self._polls += 1
        counters, grown = self.read(), {}
        for disk, now in counters.items():  # per poll, on average since it was last seen
            before, when = self._last_seen.get(disk, (now, 0))
            grown[disk] = ceil((now - before) / (self._polls - when))
        balance = self._balance(counters)
        # Disks that are only read do not stop the run.
        full = [disk for disk, size in balance.items() if 0 < grown.get(disk, 0) >= size]
        for disk in full:
            left = f"{balance[disk]} bytes are left, less than {POLL:g} s of writing"
            self.stop_reason = self._stop_message(disk, left if balance[disk] > 0 else "no bytes are left")
        if counters:
            self.set_limits({disk: counters[disk] + size for disk, size in balance.items() if disk in counters})
        self._last_seen |= {disk: (now, self._polls) for disk, now in counters.items()}
        if self._polls % POLLS_PER_SAVE == 0:
            self.save()
        return bool(full)

    def set_limits(self, bounds: Mapping[str, int]) -> None:
        """Send limits only if they changed, as at noon or after writes by others."""
        if bounds != self._limits and self.limit(bounds):
            self._limits = bounds

    def _stop_message(self, disk: str, what: str) -> str:
        declared = self.disks[disk]
        return (
            f"stopped for tonight, to limit the wear of {declared.id}: {what}, of {declared.wear} a night; "
            "the same command continues after 12:00 UTC"
        )


async def run_within_budget(
    work: Coroutine[Any, Any, None], write_budget: WriteBudget | None, look: float = POLL
) -> None:
    """Await the work, but cancel it like Ctrl-C as soon as a disk has used its budget."""
    if write_budget is None:
        await work
        return
    write_budget.check_counters()  # the first poll: growth counts from here, even if the next polls fail
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=look))[0]:
            if write_budget.check_counters():
                break
        else:
            await task
    finally:
        write_budget.set_limits({})  # teardown has to write
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
