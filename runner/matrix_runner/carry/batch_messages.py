"""Messages of a batch process, one JSON object a line: events with records. And the interface of a cluster.

`parsed` is the only reader: what passes it fits. Each text, list and number has a limit that no honest worker reaches.
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Protocol, get_type_hints

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, create_model

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.carry.events import EVENTS, Event, Name, PoolUsed, Text
from matrix_runner.records.environment import DiskFacts, Health
from matrix_runner.records.files import Standing, is_file_of_trial
from matrix_runner.records.record import Attempt, Trial
from matrix_runner.records.rows import decode_trial, encode_trial

RECONNECT = 30.0  # seconds that a scheduler may take to start or to come back


class WorkerLost(HarnessBroken):
    """The worker, or the process of its batch, ended before its batch did."""


class BatchLost(WorkerLost):
    """The process of a batch ended, and its worker is still there: nobody returns the disks of the batch."""


class BadAnswer(WorkerLost):
    """The worker sent what no worker of this version sends."""


class SchedulerLost(WorkerLost):
    """The connection to all workers ended at once."""


class PlainData(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Order(PlainData):
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
    cold: bool = False
    versions: dict[str, Any] = {}  # of a search, which the text does not name
    one_at_a_time: str = ""  # why rigs of this run must not work side by side on a host


class BatchRequest(PlainData):
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


@dataclass(frozen=True, slots=True)
class Worker:
    """A process on a host that starts batches."""

    address: str
    host: str
    slots: int = 1
    version: str = ""
    tags: tuple[str, ...] = ()


class Cluster(Protocol):
    """Transports batches, without decisions. `open` connects, and calls `changed` when these properties change."""

    def open(self, changed: Callable[[], None]) -> AbstractAsyncContextManager[None]: ...

    @property
    def connected(self) -> bool:
        """Return whether the scheduler answers. While it does not, there are no workers."""

    @property
    def workers(self) -> Collection[Worker]: ...

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        """Execute one request, and give all lines to `receive`. Raise WorkerLost; a cancellation stops the batch."""


END, FILES, TRIAL, LOST, REFUSED, NOTICE, CHECKED, POOL = (
    *("end", "files", "trial", "attempt", "refused", "notice", "checked", "pool"),
)
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
        if event.from_host:
            self.send(event.word, **{one.name: getattr(event, one.name) for one in fields(event)})


FROM_HOSTS = {one.word: one for one in EVENTS if one.from_host}
_ENVELOPE = frozenset({"event", "token", "line"})


def content_of(message: Message) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in _ENVELOPE}


def _date(text: str) -> str:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or not 1970 <= at.year < 9000:
        raise ValueError(f"the date {text}")
    return text


def _file_name(name: str) -> str:
    if not is_file_of_trial(name):
        raise ValueError("it cannot name a file of a trial")
    return name


Date = Annotated[str, Field(max_length=64), AfterValidator(_date)]
Files = Annotated[dict[Annotated[str, AfterValidator(_file_name)], str], Field(max_length=200)]


class _Event(PlainData):
    token: Name
    line: NonNegativeInt


class _Files(_Event):
    cell: Name
    round: int
    scripts: Files
    outputs: Files


class _Lost(_Event):
    cell: Name
    round: int
    number: int
    started: Date
    reason: Text
    tail: Text


class _Refused(_Event):
    brief: Text
    details: Text
    resolution: Text


class _Notice(_Event):
    text: Text


class _Checked(_Event):
    refusals: dict[Name, Text]
    rigs: PositiveInt
    boot_id: Name


class _Pool(_Event):
    disks: Annotated[list[DiskFacts], Field(max_length=1024)]
    health: Annotated[list[Health], Field(max_length=1024)]
    unreturned: Annotated[list[Text], Field(max_length=1024)]


def _model_of(event: type[Event]) -> type[_Event]:
    """Return the model of the message of an event: its fields, all required."""
    types = get_type_hints(event, include_extras=True)
    required: dict[str, Any] = {one.name: (types[one.name], ...) for one in fields(event)}
    return create_model(event.__name__, __base__=_Event, **required)


_MODELS: dict[str, type[_Event]] = {
    FILES: _Files,
    LOST: _Lost,
    REFUSED: _Refused,
    NOTICE: _Notice,
    CHECKED: _Checked,
    POOL: _Pool,
    END: _Event,
    **{word: _model_of(event) for word, event in FROM_HOSTS.items()},
}
RECORD = "record"  # the key of the trial in a message that is read
#: A line of more bytes must be text for the most part: a value takes much more memory than its few bytes.
_SHORT, _MOST_VALUES = 1 << 20, 200_000
_LARGE = tuple(b'{"event":"%b"' % one.encode() for one in (FILES, TRIAL, CHECKED))  # messages that may be longer
_VALUE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)


def parsed(line: bytes) -> Message:
    """Read a line of a worker. Raise BadAnswer if no `Outbox` wrote it."""
    try:
        if len(line) > _SHORT and not line.startswith(_LARGE):
            raise ValueError(f"a message of {len(line):,} bytes")  # noqa: TRY301 - as for others
        if len(line) > _SHORT and sum(1 for _ in islice(_VALUE.finditer(line), _MOST_VALUES)) == _MOST_VALUES:
            raise ValueError(f"a message of more than {_MOST_VALUES:,} values")  # noqa: TRY301 - as for others
        message: Message = orjson.loads(line)
        kind = message["event"]
        if kind == TRIAL:
            envelope = {"token": message["token"], "line": message["line"]}
            _Event.model_validate(envelope, strict=True)
            trial = decode_trial(message)
            if trial.started:
                _date(trial.started)
            return {"event": TRIAL, **envelope, RECORD: trial}
        content = {name: value for name, value in message.items() if name != "event"}
        _MODELS[kind].model_validate(content, strict=kind != POOL)  # `pool_from` converts its lists
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = f"{error!s:.2000}".replace("\n", " ")
        raise BadAnswer(
            "it sent a message that does not fit", details=f"{type(error).__name__}: {shown:.300}"
        ) from error
    return message


def event_of(message: Message) -> Event:
    return FROM_HOSTS[message["event"]](**content_of(message))


def pool_from(message: Message, host: str) -> PoolUsed:
    return PoolUsed(
        host,
        tuple(map(DiskFacts.model_validate, message["disks"])),
        tuple(map(Health.model_validate, message["health"])),
        tuple(map(str, message["unreturned"])),
    )


class RecordStream:
    """`standing`: where tear-down scripts stay if the stack may outlive the process."""

    def __init__(self, outbox: Outbox, standing: Standing | None = None) -> None:
        self._outbox, self._standing = outbox, standing

    def begin(self, cell: str, round_number: int, attempt: int, boot_id: str, started: str = "") -> None: ...
    def withdraw(self, cell: str, round_number: int) -> None: ...
    def record_set_up(self, round_number: int, stack: str, seconds: float) -> None: ...

    def record(self, trial: Trial) -> None:
        self._outbox.send(TRIAL, **encode_trial(trial))

    def record_lost(self, attempt: Attempt) -> None:
        self._outbox.send(LOST, **asdict(attempt))

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        self._outbox.send(FILES, cell=cell, round=round_number, scripts=dict(scripts), outputs=dict(outputs))
        return f"cells/{cell}/trial-{round_number}"

    def keep_tear_down(self, stack: str, tear_down: str) -> None:
        if self._standing:
            self._standing.keep_tear_down(stack, tear_down)

    def forget_tear_down(self, stack: str) -> None:
        if self._standing:
            self._standing.forget_tear_down(stack)
