"""What a run tells whoever watches it. `array` is the label of the array that it is about: one rig at a time has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.results.record import Trial


@dataclass(frozen=True, slots=True)
class VisitStarted:
    """An array is about to be built."""

    block: int
    array: str
    cells: int


@dataclass(frozen=True, slots=True)
class VisitDone:
    """An array is measured in this block, and its rig is gone."""

    block: int
    array: str


@dataclass(frozen=True, slots=True)
class RigUp:
    """A rig is there, with its array built."""

    array: str
    seconds: float
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial is under way."""

    name: str
    block: int
    array: str


@dataclass(frozen=True, slots=True)
class TrialStrained:
    """The host could not keep up with a trial while others ran beside it: it is measured again, alone."""

    name: str
    block: int
    array: str
    strain: str
    beside: int


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A trial is recorded."""

    name: str
    trial: Trial
    array: str


@dataclass(frozen=True, slots=True)
class RigWasLost:
    """A rig died or hung; what is done about it."""

    name: str
    reason: str
    next: str
    array: str


Event = VisitStarted | VisitDone | RigUp | TrialStarted | TrialStrained | TrialDone | RigWasLost
Listener = Callable[[Event], None]
