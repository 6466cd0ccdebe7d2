"""The wear ledger: bytes written to each disk per night, and the remaining budget."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from datetime import date, datetime

    from runner.language.hosts import DeclaredDisk

#: Older nights are dropped.
KEPT = timedelta(days=400)


class Night(BaseModel):
    """The bytes written to one disk in one night."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disk: str = Field(description="by what it is known for sure: its WWN, or its serial number")
    night: str = Field(description="the day on which it began")
    written: int = Field(ge=0, description="bytes")


class Ledger(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    nights: tuple[Night, ...] = ()

    def written_in(self, disk: str, night: date) -> int:
        return sum(one.written for one in self.nights if (one.disk, one.night) == (disk, night.isoformat()))

    def with_written(self, disk: str, night: date, written: int) -> Ledger:
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
    """Return bytes that may still be written in this night; None if unlimited."""
    return None if declared.wear is None else max(0, declared.wear - ledger.written_in(disk, night))


def wear_refusal(ledger: Ledger, declared: DeclaredDisk, disk: str, night: date, ahead: int) -> str:
    """Return why `ahead` more bytes exceed the budget of this night; empty if they do not."""
    left = remaining_bytes(ledger, declared, disk, night)
    if left is None or max(ahead, 1) <= left:
        return ""
    return (
        f"{declared.id}: {ledger.written_in(disk, night)} of {declared.wear} bytes were written in the night of "
        f"{night.isoformat()}; {left} are left, and the run needs {max(ahead, 1)}"
    )
