"""Detection of a host that cannot keep up with its simulated disks."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from runner.simdisks.clib import Report

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Overload:
    """A trial's loss to its host, as shares of the time in which I/O was wanted."""

    #: Answers were later than the model's time.
    late: float
    #: All disks were idle because requests came late, and that delayed answers.
    starved: float

    @property
    def share(self) -> float:
        """The total. Late answers count only in the time that was not lost by starved disks."""
        return 1 - (1 - self.late) * (1 - self.starved)

    def exceeds(self, bound: float) -> bool:
        """Return whether the loss is too large to ignore: the result would describe the host as well."""
        return self.share > bound

    def __str__(self) -> str:
        late = self.late * (1 - self.starved)
        return f"{self.share:.1%} (answers late {late:.1%}, disks left waiting {self.starved:.1%})"


def lost_share(note: str) -> float:
    """Return the share at the start of an overload's text; 0 if it has none."""
    found = re.match(r"(\d+(?:\.\d+)?) ?%", note)
    return min(1.0, float(found[1]) / 100) if found else 0.0


def counters_between(before: Sequence[Report], after: Sequence[Report]) -> tuple[Report, ...]:
    """Return what each disk did between two reports."""
    return tuple(
        Report(**{one.name: getattr(late, one.name) - getattr(early, one.name) for one in fields(Report)})
        for early, late in zip(before, after, strict=True)
    )


def overload_of(done: Sequence[Report]) -> Overload | None:
    """Return the overload; None if the disks were idle, or are not simulated."""
    answered = sum(one.owed + one.late for one in done)
    busy = max((one.occupied for one in done), default=0.0)
    if not answered or not busy:
        return None
    starved = done[0].starved  # a value of the whole board, the same in each report
    return Overload(late=sum(one.late for one in done) / answered, starved=starved / (busy + starved))
