"""Events of a run for its observers. `stack` is the label of a stack, which only one rig at a time has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.results.record import Trial


@dataclass(frozen=True, slots=True)
class BatchStarted:
    round: int
    stack: str
    cells: int


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A stack is measured in this round, and its rig is gone."""

    round: int
    stack: str


@dataclass(frozen=True, slots=True)
class RigUp:
    stack: str
    seconds: float
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrialStarted:
    name: str
    round: int
    stack: str


@dataclass(frozen=True, slots=True)
class TrialHostLimited:
    """The host could not keep up with a trial beside others; it is repeated alone."""

    name: str
    round: int
    stack: str
    overload: str
    beside: int


@dataclass(frozen=True, slots=True)
class TrialDone:
    name: str
    trial: Trial
    stack: str


@dataclass(frozen=True, slots=True)
class RigWasLost:
    """A rig died or hung; `next` is the consequence."""

    name: str
    reason: str
    next: str
    stack: str


Event = BatchStarted | BatchDone | RigUp | TrialStarted | TrialHostLimited | TrialDone | RigWasLost
Listener = Callable[[Event], None]
