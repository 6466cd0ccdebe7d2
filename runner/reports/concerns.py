"""Cells to doubt (broken, host-limited, unsettled and others); a sentence for those that change the reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.results.record import HOST_LIMITED, SATURATED, UNSETTLED, Outcome, Trial, counted_trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.reports.run_data import RunData

    _Why = Callable[[Trial], str | None]  # why a trial needs attention; None if it does not

MOST_CONCERNS = 50  # cells to list for each kind of concern


@dataclass(frozen=True, slots=True)
class Concern:
    cell: str
    trials: str
    why: str
    measured: bool  # the cell has figures all the same


@dataclass(frozen=True, slots=True)
class Concerns:
    title: str
    meaning: str
    found: tuple[Concern, ...]
    always: str = ""  # a sentence on the figures; empty: only cells without figures change the reading

    @property
    def left(self) -> int:
        return max(0, len(self.found) - MOST_CONCERNS)

    @property
    def doubt(self) -> str:
        """Return a sentence about a doubt that changes the reading of the figures, or an empty one."""
        missing = sum(not one.measured for one in self.found)
        if not self.always:
            return f"{self.title}: {_cells(missing)} without figures." if missing else ""
        without = f", {missing:,} of them without figures" if missing else ""
        return f"{self.title}: {_cells(len(self.found))}{without}. {self.always}"


def concerns(recorded: RunData) -> Iterator[Concerns]:
    kinds = (
        (
            "Corrupt",
            "fio read other data than it had written. This is a result about the storage. These cells have no figures.",
            _ended(Outcome.CORRUPT),
            "fio read other data than it had written.",
        ),
        (
            "Broken",
            "Set-up, read-back or fio failed. This is not a result about speed.",
            _ended(Outcome.BROKEN),
            "Figures are from other trials.",
        ),
        ("Skipped", "These trials did not run.", _ended(Outcome.SKIPPED), ""),
        (
            "Host-limited",
            "The host could not keep up with its simulated disks. The figures depend on both.",
            _noted(HOST_LIMITED),
            "The host could not keep up with its simulated disks, so the figures depend on both.",
        ),
        (
            "Saturated",
            "The disks could not keep up with the times of the trace.",
            _noted(SATURATED),
            "The disks could not keep up with the trace, so the figures are of a slower replay.",
        ),
        (
            "Unsettled",
            "The wanted steady state was not reached. These trials are not in the figures.",
            _noted(UNSETTLED),
            "The figures leave out the trials that did not become steady.",
        ),
    )
    for title, meaning, why, always in kinds:
        if found := tuple(_concerned(recorded, why)):
            yield Concerns(title, meaning, found, always)


def _concerned(recorded: RunData, why: _Why) -> Iterator[Concern]:
    for cell in recorded.cells:
        trials = recorded.by_cell[cell.id]
        if whys := [text for trial in trials if (text := why(trial)) is not None]:
            reasons = "; ".join(dict.fromkeys(filter(None, whys)))
            counts = f"{len(whys):,} of {len(trials):,}"
            yield Concern(cell.name, counts, reasons, bool(counted_trials(trials)))


def _cells(count: int) -> str:
    return f"{count:,} cell{'s' if count != 1 else ''}"


def _ended(outcome: Outcome) -> _Why:
    return lambda trial: trial.reason if trial.outcome is outcome else None


def _noted(note: str) -> _Why:
    return lambda trial: trial.notes.get(note) if trial.outcome is Outcome.MEASURED else None
