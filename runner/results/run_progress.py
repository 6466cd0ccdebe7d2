"""The state of a run and how far it is, as plain values."""

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
    """What a user has to know of a run before its figures."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    BROKEN = "broken"  # finished, and something broke or nothing was measured
    UNFINISHED = "unfinished"  # known from a store alone: it may be running elsewhere


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that is at a run."""

    pid: str
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Underway:
    """A trial that was begun and has no end yet."""

    name: str
    block: int
    attempt: int
    started: str


@dataclass(frozen=True, slots=True)
class Last:
    """The trial that was recorded last."""

    name: str
    block: int
    outcome: str
    started: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What is recorded so far."""

    cells: int = 0
    #: Cells with a measured trial.
    measured: int = 0
    #: Why cells broke, by their names.
    broken: Mapping[str, str] = field(default_factory=dict)
    #: Trials by outcome.
    outcomes: Mapping[str, int] = field(default_factory=dict)
    #: Trials recorded by the process that is at it now.
    recent: int = 0
    #: Attempts that lost their rig.
    lost: int = 0
    underway: Sequence[Underway] = ()
    last: Last | None = None

    @property
    def trials(self) -> int:
        """How many are recorded."""
        return sum(self.outcomes.values())


def state_of_run(*, finished: bool, exit: int | None, held: bool) -> State:  # noqa: A002 - as in the manifest
    """Tell the state from the manifest and the lock. A finished run may be held while its reports are written anew."""
    if finished:
        return State.BROKEN if exit == Exit.BROKEN else State.FINISHED
    return State.RUNNING if held else State.INTERRUPTED


def progress_by_cell(names: Mapping[str, str], by_cell: Sequence[tuple[Any, ...]]) -> Progress:
    """Sum up rows of a cell, an outcome, how many of its trials had it, and a reason."""
    outcomes = Counter[str]()
    for _, outcome, count, _ in by_cell:
        outcomes[outcome] += count
    return Progress(
        cells=len(names),
        measured=sum(outcome == Outcome.MEASURED.value for _, outcome, _, _ in by_cell),
        broken={names[cell]: why for cell, outcome, _, why in by_cell if outcome == Outcome.BROKEN.value},
        outcomes=outcomes,
    )
