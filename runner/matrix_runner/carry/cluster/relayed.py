"""A cluster as the coordinator sees it: the connection to its scheduler, which passes batches to workers; its state."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from matrix_runner.base.errors import BadInput, MatrixError
from matrix_runner.carry import batch_messages as messages
from matrix_runner.carry.cluster import frames
from matrix_runner.carry.cluster.connection import (
    Certificates,
    ClusterLost,
    Connection,
    Ended,
    connect_soon,
    unanswered,
)
from matrix_runner.carry.cluster.seats import INTERVAL as SEND_INTERVAL
from matrix_runner.carry.cluster.seats import QUIET

#: A worker is lost if so many looks, as far apart as its signs of life, find no message of its batch.
_LOOK, _LOOKS = QUIET * SEND_INTERVAL, 12
_GONE = "the scheduler of the cluster is gone"


@dataclass
class _Flight:
    address: str
    receive: Callable[[bytes], None]
    done: asyncio.Future[None]
    silent: int = 0  # looks since its last message

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # asyncio prints what is not read, and a batch that was given up does not read it


class RelayedCluster:
    def __init__(self, address: str, certificates: Certificates | None = None) -> None:
        self._address, self._certificates = address, certificates
        self._connection: Connection | None = None
        self._changed: Callable[[], None] = lambda: None
        self._flights: dict[str, _Flight] = {}
        self._workers: dict[str, messages.Worker] = {}
        self.connected = False
        self._lost = False

    @property
    def workers(self) -> Collection[messages.Worker]:
        if self._lost:
            raise ClusterLost(_GONE, resolution="start it again; the same command continues")
        return self._workers.values()

    @asynccontextmanager
    async def open(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        self._changed = changed
        await self._connect()
        listener = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            listener.cancel()
            await asyncio.wait([listener])
            if self._connection:
                await self._connection.close()

    async def _connect(self, *, again: bool = False) -> None:
        self._connection = await connect_soon(self._address, self._certificates, messages.RECONNECT, again=again)
        for one in await members_of(self._connection, frames.Coordinate(), self._address):
            self._take(one)
        self.connected = True

    async def carry_out(
        self, worker: messages.Worker, request: messages.BatchRequest, receive: Callable[[bytes], None]
    ) -> None:
        flight = _Flight(worker.address, receive, asyncio.get_running_loop().create_future())
        text = request.model_dump_json().encode()
        if len(text) > frames.MOST_REQUEST:
            raise BadInput(
                f"the matrix and its files have {len(text) >> 20:,} MiB; a cluster takes {frames.MOST_REQUEST >> 20}",
                resolution="split the matrix, or shorten its traces",
            )
        self._flights[request.token] = flight
        try:
            self._send(
                frames.Request(to=worker.address, token=request.token, measures=bool(request.cells)),
                frames.packed(text),
            )
            await _end_of(flight)
        except Ended:
            raise messages.SchedulerLost(_GONE) from None
        except BaseException:
            with suppress(Ended):  # then the scheduler cancels it
                self._send(frames.Cancel(token=request.token))
            raise
        finally:
            del self._flights[request.token]

    def _send(self, head: frames.Head, body: bytes = b"") -> None:
        assert self._connection  # noqa: S101 - for the type checker: it is connected
        self._connection.send(head, body)

    # --- messages ---

    async def _listen(self) -> None:
        try:
            await self._stay_connected()
        finally:  # also after an error of ours: a run must not wait for ever
            self._lost, self.connected = True, False
            self._fail_flights(lambda: messages.SchedulerLost(_GONE))
            self._changed()

    async def _stay_connected(self) -> None:
        assert self._connection  # noqa: S101 - for the type checker: it is connected
        while True:
            with suppress(Ended):
                while True:
                    self._take(*await self._connection.read())
            self.connected, self._workers = False, {}
            self._fail_flights(lambda: messages.SchedulerLost(_GONE))
            self._changed()
            try:
                await self._connect(again=True)
            except (MatrixError, OSError):
                return
            self._changed()

    def _take(self, head: frames.Head, body: bytes = b"") -> None:
        if isinstance(head, frames.Lines):
            self._receive(head, body)
        elif isinstance(head, frames.Member):
            self._workers[head.address] = worker_of(head)
            self._changed()
        elif isinstance(head, frames.Left):
            self._workers.pop(head.address, None)
            self._fail_flights(lambda: messages.WorkerLost("the worker is gone"), head.address)
            self._changed()

    def _fail_flights(self, loss: Callable[[], messages.WorkerLost], address: str = "") -> None:
        for flight in self._flights.values():
            if flight.address == address or not address:
                flight.fail(loss())

    def _receive(self, head: frames.Lines, body: bytes) -> None:
        flight = self._flights.get(head.token)
        if flight is None or flight.done.done():
            return  # the coordinator has given it up
        flight.silent = 0
        try:
            for line in frames.lines_of(frames.unpacked(body)):
                flight.receive(line)
        except frames.BadFrame as error:
            flight.fail(messages.BadAnswer(f"it sent {error}"))
            return
        except Exception as error:  # noqa: BLE001 - it belongs to the coordinator, not to the connection
            flight.fail(error)
            return
        if head.died:
            flight.fail(messages.BatchLost(head.died))
        elif head.over:
            flight.done.set_result(None)


async def _end_of(flight: _Flight) -> None:
    """Wait until a batch is done. Raise BatchLost if its worker falls silent.

    Looks are counted, not seconds: after a pause of this process, there are messages that it has not read yet.
    """
    while not flight.done.done():
        if flight.silent == _LOOKS:
            raise messages.BatchLost(f"its worker sent nothing for {_LOOK * _LOOKS:g} s")
        flight.silent += 1
        await asyncio.wait([flight.done], timeout=_LOOK)
    flight.done.result()


def worker_of(member: frames.Member) -> messages.Worker:
    facts = member.facts
    return messages.Worker(member.address, facts.host, facts.slots, facts.version, facts.tags)


async def members_of(connection: Connection, purpose: frames.Head, address: str) -> list[frames.Member]:
    """Say what a connection to a scheduler is for. Return the members that it has now."""
    found = list[frames.Member]()
    try:
        connection.send(purpose)
        while not isinstance(head := (await connection.read())[0], frames.AllKnown):
            if isinstance(head, frames.Member):
                found.append(head)
    except Ended as error:
        raise unanswered(address, str(error)) from error
    except BaseException:
        connection.abort()
        raise
    return found


@dataclass(frozen=True)
class Status:
    workers: Sequence[messages.Worker]
    busy: Mapping[str, int]  # batches of each worker, by address

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each worker: host, slots, batches that it has, version, tags, address."""
        return sorted(
            (one.host, str(one.slots), str(self.busy[one.address]), one.version, ", ".join(one.tags), one.address)
            for one in self.workers
        )


async def query(address: str, certificates: Certificates | None) -> Status:
    connection = await connect_soon(address, certificates, messages.RECONNECT, again=False)
    try:
        found = await members_of(connection, frames.Ask(), address)
    finally:
        connection.abort()
    return Status([*map(worker_of, found)], {one.address: one.busy for one in found})
