"""Messages of a batch process, one JSON object a line: the request of a batch, and events with records.

`parsed` is the only reader: what passes it fits.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt

from runner.engine.cluster_interface import BadAnswer
from runner.engine.recorder import Event, PoolUsed, RigUp, RigWasLost, TrialStarted
from runner.results.disk_health import Health
from runner.results.environment import DiskFacts
from runner.results.record import Attempt, Trial
from runner.results.trial_message import decode_trial, encode_trial

if TYPE_CHECKING:
    from collections.abc import Callable


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Order(_Message):
    """The common part of all batches of a run. `digest` names it, so that a process expands a matrix once."""

    digest: str
    version: str
    name: str
    text: str
    used: dict[str, str] = {}
    templates: dict[str, str] | None = None  # the user's own
    machine: str
    host: str = ""  # of the worker's hosts.yaml; empty: any
    kernel: str | None = None
    slow: int = 0  # the factor of `slow: auto`; 0: the matrix has it
    cold: bool = False
    one_at_a_time: str = ""  # why rigs of this run must not work side by side on a host


class BatchRequest(_Message):
    """One batch to measure. With no cells, only check whether this host can run the stacks of the order."""

    token: str  # unique
    order: Order
    round: int = 0
    stack: str = ""
    cells: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # attempts at these cells in this round that lost their rig
    retried: dict[str, int] = {}  # attempts of these cells before the last `--retry-broken`
    seconds: float | None = None  # what is left of the budget
    disks: tuple[str, ...] = ()  # serial numbers of the physical disks that this run used on the host


END, FILES, TRIAL, LOST, REFUSED, NOTICE, CHECKED, POOL = (
    *("end", "files", "trial", "attempt", "refused", "notice", "checked", "pool"),
)
RIG_UP, RIG_LOST, STARTED = "rig-up", "rig-lost", "started"
Message = dict[str, Any]


class Outbox:
    """Writes messages as lines, each with the token of its request and its number, so that each is taken once."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write, self._token, self._line = write, "", 0

    def begin(self, token: str) -> None:
        self._token, self._line = token, 0

    def send(self, event: str, **content: object) -> None:
        self._write(orjson.dumps({"event": event, "token": self._token, "line": self._line, **content}, default=dict))
        self._line += 1

    def send_event(self, event: Event) -> None:
        """Send an event that the coordinator cannot derive from a record."""
        if kind := _KINDS.get(type(event)):
            self.send(kind, **{one.name: getattr(event, one.name) for one in fields(event)})

    def send_trial(self, trial: Trial) -> None:
        self.send(TRIAL, **encode_trial(trial))

    def send_attempt(self, attempt: Attempt) -> None:
        self.send(LOST, **asdict(attempt))


_KINDS: dict[type[object], str] = {RigUp: RIG_UP, RigWasLost: RIG_LOST, TrialStarted: STARTED}
_EVENTS: dict[str, type[RigUp | RigWasLost | TrialStarted]] = {
    RIG_UP: RigUp,
    RIG_LOST: RigWasLost,
    STARTED: TrialStarted,
}
_ENVELOPE = frozenset({"event", "token", "line"})


def content_of(message: Message) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in _ENVELOPE}


class _Event(_Message):
    token: str
    line: NonNegativeInt


class _Files(_Event):
    cell: str
    round: int
    scripts: dict[str, str]
    outputs: dict[str, str]


class _Lost(_Event):
    cell: str
    round: int
    number: int
    started: str
    reason: str
    tail: str


class _Refused(_Event):
    brief: str
    details: str
    resolution: str


class _Notice(_Event):
    text: str


class _Checked(_Event):
    refusals: dict[str, str]
    rigs: PositiveInt
    boot_id: str


class _Pool(_Event):
    disks: list[DiskFacts]
    health: list[Health]
    unreturned: list[str]


class _RigUp(_Event):
    stack: str
    seconds: NonNegativeFloat
    facts: dict[str, str]


class _RigLost(_Event):
    name: str
    reason: str
    next: str
    stack: str


class _Started(_Event):
    name: str
    round: int
    stack: str
    host: str


_MODELS: dict[str, type[_Event]] = {
    FILES: _Files,
    LOST: _Lost,
    REFUSED: _Refused,
    NOTICE: _Notice,
    CHECKED: _Checked,
    POOL: _Pool,
    RIG_UP: _RigUp,
    RIG_LOST: _RigLost,
    STARTED: _Started,
    END: _Event,
}
RECORD = "record"  # the key of the trial in a message that is read


def parsed(line: bytes) -> Message:
    """Read a line of a worker. Raise BadAnswer if no `Outbox` wrote it."""
    try:
        message: Message = orjson.loads(line)
        kind = message["event"]
        if kind == TRIAL:
            envelope = {"token": message["token"], "line": message["line"]}
            _Event.model_validate(envelope, strict=True)
            return {"event": TRIAL, **envelope, RECORD: decode_trial(message)}
        content = {name: value for name, value in message.items() if name != "event"}
        _MODELS[kind].model_validate(content, strict=kind != POOL)  # `pool_from` converts its lists
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = str(error).replace("\n", " ")
        raise BadAnswer(
            "it sent a message that does not fit", details=f"{type(error).__name__}: {shown:.300}"
        ) from error
    return message


def event_of(message: Message) -> Event:
    return _EVENTS[message["event"]](**content_of(message))


def pool_from(message: Message, host: str) -> PoolUsed:
    return PoolUsed(
        host,
        tuple(map(DiskFacts.model_validate, message["disks"])),
        tuple(map(Health.model_validate, message["health"])),
        tuple(map(str, message["unreturned"])),
    )


def attempt_from(message: Message) -> Attempt:
    return Attempt(**content_of(message))
