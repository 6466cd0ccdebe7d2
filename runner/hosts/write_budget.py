"""Keeps a run within what its disks may be written in one night: asked before a trial writes, watched while it does.

What is written is what the kernel counted, whoever wrote it; so parity, mirrors and journals are in it. It goes to the
ledger while the run is at it, and the record of each disk says up to which count: who is killed has written that, too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from runner.hosts.disk_ledger import count, ledger, uncounted
from runner.hosts.wear import night_of, room

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from runner.hosts.exclusive import Held
    from runner.language.hosts import DeclaredDisk

#: Seconds between two looks at the counters.
LOOK = 2.0
#: How many of them until what they saw is written down: not more often, as somebody measures meanwhile.
NOTED = 5
SECTOR = 512
BLOCK_DEVICES = Path("/sys/class/block")


def written_here(disks: Sequence[Held], devices: Path = BLOCK_DEVICES) -> dict[str, int]:
    """What the kernel of this machine counts for each disk, by its identity; one that is gone is left out.

    So is one that went with its controller: what has its name meanwhile is another one.
    """
    found = {}
    for one in (one for one in disks if not one.controller):
        with suppress(OSError, ValueError, IndexError):
            found[one.node.identity] = int((devices / one.node.name / "stat").read_text().split()[6]) * SECTOR
    return found


@dataclass
class Gauge:
    """What is left of tonight for the disks of a run."""

    run: str
    state: Path
    #: By identity.
    claims: Mapping[str, DeclaredDisk]
    read: Callable[[], Mapping[str, int]]
    now: Callable[[], datetime]
    boot: str
    #: Has it seen to that no more is counted for each, by whoever can look when we cannot; whether that was heard.
    bound: Callable[[Mapping[str, int]], bool] = lambda _: True
    #: Why the run has to stop for tonight, or leaves something out; empty as long as it need not.
    full: str = ""
    #: How much more than was asked of an array went to one of its disks, at worst so far.
    factor: float = 1.0
    _begun: Mapping[str, int] = field(default_factory=dict)
    #: By identity what was counted when it was last looked, and which look that was.
    _looked: dict[str, tuple[int, int]] = field(default_factory=dict)
    _looks: int = 0
    #: What was heard of that last.
    _bounds: Mapping[str, int] = field(default_factory=dict)

    def left(self) -> dict[str, int]:
        """Bytes that may be written yet tonight, by identity, after what is in the ledger and what is not there yet."""
        return {disk: max(0, size) for disk, size in self._balance(self.read()).items()}

    def _balance(self, counters: Mapping[str, int]) -> dict[str, int]:
        """The same; below 0 where it was too much already."""
        night, known = night_of(self.now()), ledger(self.state)
        since = uncounted(self.state, self.run, counters, self.boot)
        rooms = {disk: room(known, claim, disk, night) for disk, claim in self.claims.items()}
        return {disk: size - since.get(disk, 0) for disk, size in rooms.items() if size is not None}

    def note(self) -> None:
        """Put what was written so far into the ledger."""
        count(self.state, self.run, self.read(), self.boot, night_of(self.now()))

    def affords(self, asked: float) -> bool:
        """Whether so much may be asked of an array, whichever of its disks it goes to."""
        ahead = int(asked * self.factor)
        for disk, left in self.left().items() if ahead else ():
            if ahead > left:
                self.full = self._said(disk, f"{left} bytes more may be, and the next trial can write {ahead}")
                return False
        return True

    def begins(self) -> None:
        """A trial is about to write."""
        self._begun = self.read()

    def ends(self, asked: float) -> None:
        """A trial is over: what it asked to be written, beside what was."""
        after = self.read()
        grown = max((after[disk] - before for disk, before in self._begun.items() if disk in after), default=0)
        if asked and self._begun:
            self.factor = max(self.factor, grown / asked)
        self._begun = {}
        self.note()

    def is_full(self) -> bool:
        """Whether a disk would have had too much by the next look, if all goes on as since the last one.

        Who could not look for a while (the line to its host was down) then sees at once all that was written meanwhile.
        """
        self._looks += 1
        counters = self.read()
        grown, balance = self._since_last(counters), self._balance(counters)
        # What is only read goes on, however little may be written.
        full = [disk for disk, size in balance.items() if 0 < grown.get(disk, 0) >= size]
        for disk in full:
            self.full = self._said(disk, _too_much(balance[disk]))
        if counters:
            self._bind({disk: counters[disk] + size for disk, size in balance.items() if disk in counters})
        self._looked |= {disk: (now, self._looks) for disk, now in counters.items()}
        if self._looks % NOTED == 0:
            self.note()
        return bool(full)

    def ended(self) -> None:
        """What is taken apart now may be taken apart."""
        self._bind({})

    def _bind(self, bounds: Mapping[str, int]) -> None:
        """Said again only where it changed, as at noon, or by what somebody else wrote."""
        if bounds != self._bounds and self.bound(bounds):
            self._bounds = bounds

    def _since_last(self, counters: Mapping[str, int]) -> dict[str, int]:
        """What was written to each disk from one look to the next, on average since it was last seen."""
        found = {}
        for disk, now in counters.items():
            before, when = self._looked.get(disk, (now, 0))
            found[disk] = ceil((now - before) / (self._looks - when))
        return found

    def _said(self, disk: str, what: str) -> str:
        claim = self.claims[disk]
        return (
            f"stopped for tonight, so that {claim.id} does not wear out: {what}, of {claim.wear} a night; "
            "the same command goes on from noon on"
        )


def _too_much(left: int) -> str:
    if left > 0:
        return f"{left} bytes more may be, which is less than {LOOK:g} s take"
    return "all that may be has been"


async def kept_within(work: Coroutine[Any, Any, None], gauge: Gauge | None, look: float = LOOK) -> None:
    """Do this, but stop it as soon as a disk has had enough for tonight: as if somebody had pressed Ctrl-C."""
    if gauge is None:
        await work
        return
    gauge.is_full()  # from here on is counted, even if nobody can look for the next minutes
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=look))[0]:
            if gauge.is_full():
                break
        else:
            await task
    finally:
        gauge.ended()
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()
