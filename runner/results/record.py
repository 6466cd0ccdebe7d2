"""What is kept of a trial: the unit that everything after measuring is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner.results.fio_json import Figures


#: The note of a trial that never came to the steady state that was asked for.
UNSETTLED = "unsettled"
#: What the environment of a run has if its trials went where guidelines were not decided.
STEERED = "until-decided"


class Outcome(StrEnum):
    """What became of a trial. Only `measured` has figures; `broken` is about the harness or the set-up, never speed."""

    MEASURED = "measured"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CellRow:
    """What the store and the reports know of a cell. `axes` maps full axis names (`md.chunk`) to canonical text."""

    id: str
    name: str
    axes: Mapping[str, str]
    #: Where it was declared among the others of its run; None where nobody noted that.
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """One setting as it was declared (None: left alone, only recorded) and as the kernel says it is."""

    setting: str
    wanted: str | None
    got: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One repetition of a cell. (`cell`, `block`) is its identity: it exists at most once in a run."""

    cell: str
    block: int
    outcome: Outcome
    reason: str = ""
    started: str = ""  # ISO 8601, UTC
    seconds: float = 0.0  # wall time of the whole trial, set-up of the array not included
    attempts: int = 1
    figures: Figures | None = None
    readings: tuple[Reading, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)  # e.g. {"sync": "assume-clean", "resync": "idle"}
    folder: str = ""  # where its raw output lies, relative to the run

    @property
    def counted(self) -> Figures | None:
        """Its figures, if they are among those of its cell: measured, and in the steady state that was asked for."""
        return self.figures if self.outcome is Outcome.MEASURED and UNSETTLED not in self.notes else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a trial whose rig was lost (the trial itself may have succeeded on a later try)."""

    cell: str
    block: int
    number: int
    started: str
    reason: str
    tail: str = ""
