"""The state and the progress of a run as values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from runner.base.errors import Exit
from runner.results.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class State(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    BROKEN = "broken"  # finished, but a trial broke or no trial was measured
    UNFINISHED = "unfinished"  # known from a store only; it may be running elsewhere


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the lock of a run."""

    pid: str
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class ActiveTrial:
    """A trial in progress."""

    name: str
    round: int
    attempt: int
    started: str


@dataclass(frozen=True, slots=True)
class LastTrial:
    """The latest recorded trial."""

    name: str
    round: int
    outcome: str
    started: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The recorded part of a run."""

    cells: int = 0
    #: Cells with a measured trial.
    measured: int = 0
    #: Broken cells by name, with reasons.
    broken: Mapping[str, str] = field(default_factory=dict)
    #: Trials by outcome.
    outcomes: Mapping[str, int] = field(default_factory=dict)
    #: Trials that the current process recorded.
    recent: int = 0
    #: Attempts that lost their rig.
    lost: int = 0
    underway: Sequence[ActiveTrial] = ()
    last: LastTrial | None = None

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())


def derive_state(*, finished: bool, exit: int | None, held: bool) -> State:  # noqa: A002 - as in the manifest
    """Derive the state from manifest and lock. A finished run may be locked while its reports are rewritten."""
    if finished:
        return State.BROKEN if exit == Exit.BROKEN else State.FINISHED
    return State.RUNNING if held else State.INTERRUPTED


def progress_by_cell(names: Mapping[str, str], by_cell: Sequence[tuple[Any, ...]]) -> Progress:
    """Sum up rows of cell, outcome, number of trials, and reason."""
    outcomes = Counter[str]()
    for _, outcome, count, _ in by_cell:
        outcomes[outcome] += count
    return Progress(
        cells=len(names),
        measured=sum(outcome == Outcome.MEASURED.value for _, outcome, _, _ in by_cell),
        broken={names[cell]: why for cell, outcome, _, why in by_cell if outcome == Outcome.BROKEN.value},
        outcomes=outcomes,
    )
