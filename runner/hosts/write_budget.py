"""The nightly write budget of a run's disks, by the kernel's counters: checked before each trial, and during it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from runner.hosts import SECTOR
from runner.hosts.agent.agent import BLOCK_DEVICES, count_sectors_written
from runner.hosts.disk_ledger import count_written, night_of, read_ledger, remaining_bytes, uncounted_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from runner.hosts.exclusive import LeasedDisk
    from runner.language.hosts import DeclaredDisk

#: Seconds between two polls of the counters.
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
    #: Why the run has to stop for tonight; empty if it need not.
    stop_reason: str = ""
    #: The worst observed ratio of bytes written to one disk to bytes written to its array.
    amplification: float = 1.0
    _at_start: Mapping[str, int] = field(default_factory=dict)
    #: By identity: the counter when last polled, and the number of that poll.
    _last_seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    _polls: int = 0
    _limits: Mapping[str, int] = field(default_factory=dict)

    def remaining(self) -> dict[str, int]:
        """Return the bytes that may still be written tonight, by identity, uncounted writes included."""
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
        counters = self.read()
        grown, balance = self._growth(counters), self._balance(counters)
        # Disks that are only read do not stop the run.
        full = [disk for disk, size in balance.items() if 0 < grown.get(disk, 0) >= size]
        for disk in full:
            left = f"{balance[disk]} bytes are left, less than {POLL:g} s of writing"
            self.stop_reason = self._stop_message(disk, left if balance[disk] > 0 else "no bytes are left")
        if counters:
            self._set_limits({disk: counters[disk] + size for disk, size in balance.items() if disk in counters})
        self._last_seen |= {disk: (now, self._polls) for disk, now in counters.items()}
        if self._polls % POLLS_PER_SAVE == 0:
            self.save()
        return bool(full)

    def lift_limits(self) -> None:
        """Let teardown write."""
        self._set_limits({})

    def _set_limits(self, bounds: Mapping[str, int]) -> None:
        """Send limits only if they changed, as at noon or after writes by others."""
        if bounds != self._limits and self.limit(bounds):
            self._limits = bounds

    def _growth(self, counters: Mapping[str, int]) -> dict[str, int]:
        found = {}
        for disk, now in counters.items():
            before, when = self._last_seen.get(disk, (now, 0))
            found[disk] = ceil((now - before) / (self._polls - when))
        return found

    def _stop_message(self, disk: str, what: str) -> str:
        declared = self.disks[disk]
        return (
            f"stopped for tonight, to limit the wear of {declared.id}: {what}, of {declared.wear} a night; "
            "the same command continues after noon"
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
        write_budget.lift_limits()
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
