"""A check of the guest's clock: a kernel that boots on a busy host may measure the rate of its TSC wrongly.

All measurements use the guest's clock. A clock that is 2.6 times too fast makes disks look 2.6 times too slow, without
other signs. Clones would inherit it from their template.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.machines.base import RigLost

if TYPE_CHECKING:
    from runner.machines.qemu.guest import Guest

#: The allowed error, beyond the uncertainty from the delay of the answers.
TOLERANCE = 0.02
#: The least seconds between two readings, and the least multiple of the time for the first one.
LEAST, PATIENCE = 0.4, 4
ANSWER_DEADLINE = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A time of the guest's clock, between two times of the runner's clock."""

    asked: float
    guest: float
    answered: float


def pace(first: Reading, second: Reading) -> tuple[float, float]:
    """Return the least and the most seconds of the guest in one second of the host."""
    gone = second.guest - first.guest
    return gone / (second.answered - first.asked), gone / (second.asked - first.answered)


def clock_error(first: Reading, second: Reading) -> str:
    """Return the error of the guest's clock; empty if two readings are consistent with the right rate."""
    least, most = pace(first, second)
    if least <= 1 + TOLERANCE and most >= 1 - TOLERANCE:
        return ""
    return f"the guest's clock is wrong: it runs {least:.2f} to {most:.2f} times as fast as the host's"


async def check_clock(guest: Guest) -> None:
    """Raise RigLost if the guest has measured a wrong rate for its clock. Another boot may measure it right."""
    first = await _read(guest)
    await asyncio.sleep(max(LEAST, PATIENCE * (first.answered - first.asked)))
    if why := clock_error(first, await _read(guest)):
        raise RigLost(f"{why} (the guest measured it at its boot, on a busy host)", tail=guest.tail())


async def _read(guest: Guest) -> Reading:
    asked = time.monotonic()
    output = await guest.shell("echo $EPOCHREALTIME\n", deadline=ANSWER_DEADLINE)
    return Reading(asked, float(output.split()[-1]), time.monotonic())
