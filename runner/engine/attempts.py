"""The records of a run, kept in memory beside the journal."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.results.record import Outcome

if TYPE_CHECKING:
    from runner.results.record import Attempt, Trial

#: Number of lost rigs after which a trial is broken and its cell is quarantined.
TRIES = 2


@dataclass
class Records:
    finished: set[tuple[str, int]] = field(default_factory=set)
    #: Attempts that lost their rig, by cell and round.
    lost: dict[tuple[str, int], list[Attempt]] = field(default_factory=dict)
    retried: dict[tuple[str, int], int] = field(default_factory=dict)
    #: Seconds spent on attempts that lost their rig.
    spent: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    quarantined: dict[str, str] = field(default_factory=dict)
    #: Bandwidth of each cell, reads and writes together, by round.
    rates: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, trial: Trial) -> None:
        self.finished.add((trial.cell, trial.round))
        if trial.outcome is Outcome.BROKEN and len(self.attempts(trial.cell, trial.round)) >= TRIES:
            self.quarantined[trial.cell] = trial.reason
        if (figures := trial.counted) is not None:
            self.rates[trial.cell][trial.round] = figures.total_bw

    def lose(self, attempt: Attempt) -> None:
        self.lost.setdefault((attempt.cell, attempt.round), []).append(attempt)

    def attempts(self, cell: str, round_number: int) -> list[Attempt]:
        """Return the attempts since the last `--retry-broken`."""
        before = self.retried.get((cell, round_number), 0)
        return [attempt for attempt in self.lost.get((cell, round_number), ()) if attempt.number > before]

    def next(self, cell: str, round_number: int) -> int:
        return self.retried.get((cell, round_number), 0) + len(self.attempts(cell, round_number)) + 1
