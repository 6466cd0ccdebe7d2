"""What the journal of a run already says, kept beside it while the run goes on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.results.record import Outcome

if TYPE_CHECKING:
    from runner.results.record import Attempt, Trial

#: So many rigs may die under one trial before its cell is left alone.
TRIES = 2


@dataclass
class Known:
    """Of every cell and trial: what is recorded, what was lost, what was measured."""

    finished: set[tuple[str, int]] = field(default_factory=set)
    #: Attempts that lost their rig; those before a retry that the user asked for are not held against the cell.
    lost: dict[tuple[str, int], list[Attempt]] = field(default_factory=dict)
    retried: dict[tuple[str, int], int] = field(default_factory=dict)
    #: Seconds that went into attempts which lost their rig.
    spent: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    quarantined: dict[str, str] = field(default_factory=dict)
    #: Bandwidth of each cell, of reading and writing together, by block.
    rates: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, trial: Trial) -> None:
        """One more trial is recorded."""
        self.finished.add((trial.cell, trial.block))
        if trial.outcome is Outcome.BROKEN and len(self.against(trial.cell, trial.block)) >= TRIES:
            self.quarantined[trial.cell] = trial.reason
        if (figures := trial.counted) is not None:
            self.rates[trial.cell][trial.block] = figures.total_bw

    def lose(self, attempt: Attempt) -> None:
        """One more attempt lost its rig."""
        self.lost.setdefault((attempt.cell, attempt.block), []).append(attempt)

    def against(self, cell: str, block: int) -> list[Attempt]:
        """The attempts that are held against a trial."""
        before = self.retried.get((cell, block), 0)
        return [attempt for attempt in self.lost.get((cell, block), ()) if attempt.number > before]

    def next(self, cell: str, block: int) -> int:
        """The number of the next attempt at a trial."""
        return self.retried.get((cell, block), 0) + len(self.against(cell, block)) + 1
