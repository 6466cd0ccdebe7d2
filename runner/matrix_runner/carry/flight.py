"""Batches on their way to workers and back, and their messages, recorded together as they arrive."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from matrix_runner.carry.batch_messages import BadAnswer, Message, Worker
from matrix_runner.carry.events import Event, Listener, PoolUsed
from matrix_runner.decide.placement import OpenRound
from matrix_runner.decide.plan import Batch
from matrix_runner.records.journal import Journal
from matrix_runner.space.space import Cell


@dataclass
class Flight:
    """A batch on its way: its worker, and its cells without a record."""

    token: str
    worker: Worker
    round: OpenRound
    batch: Batch
    left: dict[str, Cell]
    names: dict[str, str]  # cells by name
    begun: str = ""  # the cell of the trial that is under way
    began: str = ""
    lines: int = 0
    sent: Counter[str] = field(default_factory=Counter)  # how often it sent a kind of message
    folders: dict[str, str] = field(default_factory=dict)  # of the files of cells
    task: asyncio.Task[Any] | None = None  # while its worker has it
    lie: BadAnswer | None = None  # it sent what no worker sends
    alone: bool = False
    beside: int = 0  # the most others on its host at a time
    ended: bool = False
    refused: Message | None = None
    leased: PoolUsed | None = None  # physical disks that the batch has


class Flights:
    def __init__(self) -> None:
        self._by_host = defaultdict[str, dict[str, Flight]](dict)
        self.refused = 0  # messages with an unknown token, or repeated
        self.unreturned: dict[str, PoolUsed] = {}  # by host: disks of a lost batch

    def add(self, flight: Flight) -> None:
        for other in self._by_host[flight.worker.host].values():
            other.beside = max(other.beside, flight.beside)
        self._by_host[flight.worker.host][flight.token] = flight

    def remove(self, flight: Flight) -> None:
        del self._by_host[flight.worker.host][flight.token]

    def of_worker(self, worker: Worker) -> list[Flight]:
        return [one for one in self._by_host[worker.host].values() if one.worker.address == worker.address]

    def takes(self, flight: Flight, message: Message) -> bool:
        """Return whether this is the next line of the flight, which is then taken."""
        is_next = (message["token"], message["line"]) == (flight.token, flight.lines)
        flight.lines += is_next
        self.refused += not is_next
        return is_next

    def note_pool(self, flight: Flight, used: PoolUsed) -> None:
        """Note a message of a batch that leased its disks, also those of a lost batch, or that returned them."""
        flight.leased = None if flight.leased else used
        self.unreturned.pop(used.host, None)

    def lose(self, flight: Flight) -> None:
        """Note the disks that a dead batch process had. The process of a worker that left returns them itself."""
        if flight.leased:
            self.unreturned[flight.worker.host] = flight.leased


GROUP = 0.01  # seconds
_MOST, _EACH = 32 << 20, 2048  # bytes of messages that wait, and of each beside its text


class Inbox:
    """`start` starts a task whose errors end the run. Events of records wait until these are on disk.

    A message is given as the call that records it.
    """

    def __init__(
        self,
        journal: Journal,
        show: Listener,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._journal, self._show, self._start = journal, show, start
        self._messages: list[Callable[[], None]] = []
        self._size = 0
        self._settling: asyncio.Task[None] | None = None
        self._held: list[Event] | None = None

    def add(self, message: Callable[[], None], size: int) -> None:
        self._messages.append(message)
        self._size += size + _EACH
        if self._settling is None:
            self._settling = self._start(self._settle_soon())
        if self._size > _MOST:
            self._take_all()

    async def _settle_soon(self) -> None:
        await asyncio.sleep(GROUP)
        self.settle()

    async def settled(self) -> None:
        """Wait until all that has arrived is recorded."""
        if self._settling:
            await asyncio.wait([self._settling])

    def settle(self) -> None:
        self._settling = None
        self._take_all()

    def _take_all(self) -> None:
        messages, self._messages, self._size = self._messages, [], 0
        if messages:
            with self._held_events(), self._journal.together():
                for message in messages:
                    message()

    @contextmanager
    def _held_events(self) -> Iterator[None]:
        held: list[Event] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
        for event in held:
            self._show(event)

    def listen(self, event: Event) -> None:
        if self._held is None:
            self._show(event)
        else:
            self._held.append(event)
