"""Does a guest's second last as long as ours? A kernel that boots on a busy host may measure its TSC wrongly, for good.

Everything is measured by the guest's clock; one that runs 2.6 times too fast makes disks 2.6 times too slow, and
nothing else looks wrong. A template would hand it on to each of its clones.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.machines.base import RigLost

if TYPE_CHECKING:
    from runner.machines.qemu.guest import Guest

#: A clock may be off by this much, beyond the uncertainty from the time of the answers.
TOLERANCE = 0.02
#: Between two readings lie this many seconds, and this many times what the first one took.
LEAST, PATIENCE = 0.4, 4
ANSWER_DEADLINE = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What the guest's clock said, and between which times of ours it must have said so."""

    asked: float
    told: float
    answered: float


def pace(first: Reading, second: Reading) -> tuple[float, float]:
    """How many seconds of the guest's one of ours is: at least and at most."""
    gone = second.told - first.told
    return gone / (second.answered - first.asked), gone / (second.asked - first.answered)


def wrong(first: Reading, second: Reading) -> str:
    """What is wrong with the guest's clock, as far as two readings can tell; empty if it may be right."""
    least, most = pace(first, second)
    if least <= 1 + TOLERANCE and most >= 1 - TOLERANCE:
        return ""
    return f"the guest's clock is wrong: its seconds are {least:.2f} to {most:.2f} of ours"


async def checked(guest: Guest) -> None:
    """Raise RigLost if the guest has found a wrong rate for its clock as it booted; another boot may do better."""
    first = await _read(guest)
    await asyncio.sleep(max(LEAST, PATIENCE * (first.answered - first.asked)))
    if why := wrong(first, await _read(guest)):
        raise RigLost(f"{why} (it was measured when it booted, beside too much other work)", tail=guest.tail())


async def _read(guest: Guest) -> Reading:
    asked = time.monotonic()
    said = await guest.shell("echo $EPOCHREALTIME\n", deadline=ANSWER_DEADLINE)
    return Reading(asked, float(said.split()[-1]), time.monotonic())
