"""What a batch process reads and writes, one JSON object a line: the request of a batch, and events with records."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from runner.engine.recorder import Event, RigUp, RigWasLost, TrialStarted
from runner.results.record import Attempt, Trial
from runner.results.trial_message import decode_trial, encode_trial


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Order(_Message):
    """What all batches of a run have in common. `digest` names it, so that a process expands a matrix once."""

    digest: str
    version: str
    name: str
    text: str
    used: dict[str, str] = {}
    templates: dict[str, str] | None = None  # the user's own
    machine: str
    kernel: str | None = None
    slow: int = 0  # the factor of `slow: auto`; 0: the matrix has it
    cold: bool = False


class BatchRequest(_Message):
    """One batch to measure. With no cells, only check whether this host can run the stacks of the order."""

    token: str
    order: Order
    round: int = 0
    stack: str = ""
    cells: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # attempts at these cells in this round that lost their rig
    retried: dict[str, int] = {}  # attempts of these cells before the last `--retry-broken`
    seconds: float | None = None  # what is left of the budget


ALIVE, END, FILES, TRIAL, LOST, REFUSED, NOTICE, CHECKED = (
    *("alive", "end", "files", "trial", "attempt", "refused", "notice", "checked"),
)
RIG_UP, RIG_LOST, STARTED = "rig-up", "rig-lost", "started"
Message = dict[str, Any]


def line_of(kind: str, **content: object) -> bytes:
    return orjson.dumps({"event": kind, **content}, default=dict) + b"\n"


def event_line(event: Event) -> bytes:
    """Return the line of an event that the coordinator cannot derive from a record; empty for others."""
    kinds: dict[type[object], str] = {RigUp: RIG_UP, RigWasLost: RIG_LOST, TrialStarted: STARTED}
    kind = kinds.get(type(event))
    return line_of(kind, **{one.name: getattr(event, one.name) for one in fields(event)}) if kind else b""


def event_of(message: Message) -> Event | None:
    kinds: dict[str, type[RigUp | RigWasLost | TrialStarted]] = {
        RIG_UP: RigUp,
        RIG_LOST: RigWasLost,
        STARTED: TrialStarted,
    }
    kind = kinds.get(message["event"])
    return kind(**{name: value for name, value in message.items() if name != "event"}) if kind else None


def trial_line(trial: Trial) -> bytes:
    return line_of(TRIAL, **encode_trial(trial))


def trial_from(message: Message) -> Trial:
    return decode_trial(message)


def attempt_line(attempt: Attempt) -> bytes:
    return line_of(LOST, **asdict(attempt))


def attempt_from(message: Message) -> Attempt:
    return Attempt(**{name: value for name, value in message.items() if name != "event"})
