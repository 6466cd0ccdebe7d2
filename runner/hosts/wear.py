"""How much was written to each disk in which night, and whether there is room for more; `store/lab.py` keeps it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from datetime import date, datetime

    from runner.language.hosts import DeclaredDisk

#: What is older is nobody's budget any more.
KEPT = timedelta(days=400)


class Night(BaseModel):
    """What one disk was given in one night."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disk: str = Field(description="by what it is known for sure: its WWN, or its serial number")
    night: str = Field(description="the day on which it began")
    written: int = Field(ge=0, description="bytes")


class Ledger(BaseModel):
    """All nights of all disks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nights: tuple[Night, ...] = ()

    def of(self, disk: str, night: date) -> int:
        """What was written to it in that night so far."""
        return sum(one.written for one in self.nights if (one.disk, one.night) == (disk, night.isoformat()))

    def with_written(self, disk: str, night: date, written: int) -> Ledger:
        """With so many bytes more."""
        now = Night(disk=disk, night=night.isoformat(), written=self.of(disk, night) + written)
        others = (one for one in self.nights if (one.disk, one.night) != (disk, now.night))
        return Ledger(nights=(*(one for one in others if one.night >= (night - KEPT).isoformat()), now))


def night_of(moment: datetime) -> date:
    """Nights go from noon to noon, so that none is cut in two at midnight."""
    return (moment - timedelta(hours=12)).date()


def grown(before: int, after: int) -> int:
    """What a counter of the kernel says was written; it begins at nothing when machine or disk are started anew."""
    return after - before if after >= before else after


def room(ledger: Ledger, claim: DeclaredDisk, disk: str, night: date) -> int | None:
    """Bytes that may still be written in this night; None: no matter how many."""
    return None if claim.wear is None else max(0, claim.wear - ledger.of(disk, night))


def worn_out(ledger: Ledger, claim: DeclaredDisk, disk: str, night: date, ahead: int) -> str:
    """Why so many bytes more are too many for tonight, asked before they are written; empty if they are not."""
    left = room(ledger, claim, disk, night)
    if left is None or max(ahead, 1) <= left:
        return ""
    return (
        f"{claim.id} had {ledger.of(disk, night)} of the {claim.wear} bytes that may be written to it in the night of "
        f"{night.isoformat()}; the next {ahead} are {ahead - left} too many"
    )
