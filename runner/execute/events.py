"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.store.record import Trial


@dataclass(frozen=True, slots=True)
class VisitStarted:
    """An array is about to be built."""

    block: int
    array: str
    cells: int


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


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A trial is recorded."""

    name: str
    trial: Trial


@dataclass(frozen=True, slots=True)
class RigWasLost:
    """A rig died or hung; what is done about it."""

    name: str
    reason: str
    next: str


Event = VisitStarted | RigUp | TrialStarted | TrialDone | RigWasLost
Listener = Callable[[Event], None]
