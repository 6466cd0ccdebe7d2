"""Could the host keep up with the disks that it plays?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from runner.simdisks.clib import Report

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Strain:
    """What a trial lost to its host, as shares of the time in which I/O was wanted."""

    #: Answers came later than the model said.
    late: float
    #: No disk had anything to do because nobody asked in time, and that made answers come later.
    starved: float

    @property
    def share(self) -> float:
        """All of it: of the time that was left by waiting, answers took their part for being late."""
        return 1 - (1 - self.late) * (1 - self.starved)

    def beyond(self, bound: float) -> bool:
        """More than may be taken for nothing: figures are as much about the host as about the disks."""
        return self.share > bound

    def __str__(self) -> str:
        late = self.late * (1 - self.starved)
        return f"{self.share:.1%} (answers late {late:.1%}, disks left waiting {self.starved:.1%})"


def between(before: Sequence[Report], after: Sequence[Report]) -> tuple[Report, ...]:
    """What each disk did in between."""
    return tuple(
        Report(**{one.name: getattr(late, one.name) - getattr(early, one.name) for one in fields(Report)})
        for early, late in zip(before, after, strict=True)
    )


def strain_of(done: Sequence[Report]) -> Strain | None:
    """The strain of what the disks of a machine did; None if they did nothing, or are not modelled."""
    answered = sum(one.owed + one.late for one in done)
    busy = max((one.occupied for one in done), default=0.0)
    if not answered or not busy:
        return None
    starved = done[0].starved  # it is of all disks together, and each tells the same
    return Strain(late=sum(one.late for one in done) / answered, starved=starved / (busy + starved))
