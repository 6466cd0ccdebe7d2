"""A cluster as the coordinator sees it: a connection to its scheduler, which passes batches to workers."""

from __future__ import annotations

import asyncio
import socket
import zlib
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import dask
from distributed.batched import BatchedSend
from distributed.comm import CommClosedError, connect
from pydantic import BaseModel, Field, PositiveInt, ValidationError

from runner.base.errors import BadInput, MatrixError
from runner.engine.cluster_interface import (
    RECONNECT,
    BadAnswer,
    BatchLost,
    ClusterLost,
    SchedulerLost,
    Worker,
    WorkerLost,
)
from runner.lab.address import RIG
from runner.lab.members import FACTS, Membership, configured, scheduler, worker
from runner.lab.reach import unanswered, wait_for_scheduler
from runner.lab.relay import CANCEL, COORDINATE, INTERVAL, LEFT, LINES, MEMBERS, REQUEST
from runner.lab.seats import INTERVAL as SEND_INTERVAL
from runner.lab.seats import QUIET, unpacked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from distributed.comm import Comm
    from distributed.security import Security

    from runner.engine.batch_messages import BatchRequest

_FAREWELL = 5.0  # seconds for the last messages
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


class _Facts(BaseModel):
    """The facts of a worker, as Membership sends them."""

    host: Annotated[str, Field(min_length=1, max_length=255)]
    slots: PositiveInt
    version: Annotated[str, Field(max_length=100)]
    tags: list[Annotated[str, Field(max_length=1000)]]


class DaskCluster:
    """`slots`: start a cluster in this process, for this number of batches at a time."""

    def __init__(self, address: str = "", slots: int = 0, security: Security | None = None) -> None:
        self._address, self._slots, self._security = address, slots, security
        self._comm: Comm | None = None
        self._sender: BatchedSend | None = None
        self._changed: Callable[[], None] = lambda: None
        self._flights: dict[str, _Flight] = {}
        self._workers: dict[str, Worker] = {}
        self.connected = False
        self._lost = False

    @property
    def workers(self) -> Collection[Worker]:
        if self._lost:
            raise ClusterLost(_GONE, resolution="start it again; the same command continues")
        return self._workers.values()

    @asynccontextmanager
    async def open(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        self._changed = changed
        async with AsyncExitStack() as stack:
            stack.enter_context(configured())
            if self._slots:
                # After a pause of this process, its worker would count as lost, and it joins but once.
                stack.enter_context(dask.config.set({"distributed.scheduler.worker-ttl": None}))
                self._address = await stack.enter_async_context(scheduler("inproc://"))
                member = Membership(socket.gethostname(), {RIG: self._slots})
                await stack.enter_async_context(worker(self._address, member))
            await self._connect()
            listener = asyncio.create_task(self._listen())
            try:
                yield
            finally:
                listener.cancel()
                await asyncio.wait([listener])
                await self._disconnect()

    async def _connect(self, *, again: bool = False) -> None:
        self._comm, members = await connect_as(COORDINATE, self._address, self._security, again=again)
        self.connected = True
        self._take(members)
        self._sender = BatchedSend(interval=INTERVAL)
        self._sender.start(self._comm)

    async def _disconnect(self) -> None:
        if self._sender:
            with suppress(OSError, TimeoutError):
                await self._sender.close(timeout=_FAREWELL)

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        flight = _Flight(worker.address, receive, asyncio.get_running_loop().create_future())
        content = zlib.compress(request.model_dump_json().encode(), 1)
        self._flights[request.token] = flight
        try:
            self._send(
                op=REQUEST, to=worker.address, token=request.token, request=content, measures=bool(request.cells)
            )
            await _end_of(flight)
        except CommClosedError:
            raise SchedulerLost(_GONE) from None
        except BaseException:
            with suppress(CommClosedError):  # then the scheduler cancels it
                self._send(op=CANCEL, token=request.token)
            raise
        finally:
            del self._flights[request.token]

    def _send(self, **message: Any) -> None:
        assert self._sender  # noqa: S101 - for the type checker: it is connected
        self._sender.send(message)

    # --- messages ---

    async def _listen(self) -> None:
        try:
            await self._stay_connected()
        finally:  # also after an error of ours: a run must not wait for ever
            self._lost, self.connected = True, False
            self._fail_flights(lambda: SchedulerLost(_GONE))
            self._changed()

    async def _stay_connected(self) -> None:
        assert self._comm  # noqa: S101 - for the type checker: it is connected
        while True:
            try:
                while True:
                    self._take(await self._comm.read())
            except CommClosedError:
                self.connected, self._workers = False, {}
                self._fail_flights(lambda: SchedulerLost(_GONE))
                self._changed()
            try:
                await self._connect(again=True)
            except (MatrixError, OSError):
                return
            self._changed()

    def _take(self, sent: list[dict[str, Any]]) -> None:
        takers: Mapping[str, Callable[..., None]] = {
            LINES: self._receive,
            MEMBERS: self._welcome,
            LEFT: self._part,
        }
        for message in sent:
            if take := takers.get(message.pop("op", "")):
                take(**message)

    def _welcome(self, workers: dict[str, dict[str, Any]]) -> None:
        self._workers |= {address: one for address, facts in workers.items() if (one := worker_of(address, facts))}
        self._changed()

    def _part(self, worker: str) -> None:
        self._workers.pop(worker, None)
        self._fail_flights(lambda: WorkerLost("the worker is gone"), worker)
        self._changed()

    def _fail_flights(self, loss: Callable[[], WorkerLost], address: str = "") -> None:
        for flight in self._flights.values():
            if flight.address == address or not address:
                flight.fail(loss())

    def _receive(
        self, token: str, lines: object = None, *, over: object = None, died: object = "", **_: object
    ) -> None:
        flight = self._flights.get(token)
        if flight is None or flight.done.done():
            return  # the coordinator has given it up
        flight.silent = 0
        if not (isinstance(lines, bytes) and isinstance(died, str)):
            flight.fail(BadAnswer("its answer is damaged: it has no lines"))
            return
        try:
            for line in unpacked(lines):
                flight.receive(line)
        except zlib.error as error:
            flight.fail(BadAnswer(f"its answer is damaged: {error}"))
            return
        except Exception as error:  # noqa: BLE001 - it belongs to the coordinator, not to the connection
            flight.fail(error)
            return
        if died:
            flight.fail(BatchLost(died))
        elif over:
            flight.done.set_result(None)


async def _end_of(flight: _Flight) -> None:
    """Wait until a batch is done. Raise BatchLost if its worker falls silent.

    Looks are counted, not seconds: after a pause of this process, there are messages that it has not read yet.
    """
    while not flight.done.done():
        if flight.silent == _LOOKS:
            raise BatchLost(f"its worker sent nothing for {_LOOK * _LOOKS:g} s")
        flight.silent += 1
        await asyncio.wait([flight.done], timeout=_LOOK)
    flight.done.result()


def worker_of(address: str, known: dict[str, Any]) -> Worker | None:
    """Return a worker of `matrix`. Others may share the scheduler."""
    try:
        facts = _Facts.model_validate(known.get(FACTS))  # Dask makes tuples of lists
    except ValidationError:
        return None
    resources = known.get("resources") or {}
    return Worker(address, facts.host, facts.slots, facts.version, resources, tuple(facts.tags))


async def connect_as(purpose: str, address: str, security: Security | None, *, again: bool = False) -> tuple[Comm, Any]:
    """Connect to a scheduler for a purpose. Return its first answer, too."""
    more = security.get_connection_args("client") if security else {}
    await wait_for_scheduler(address, security, RECONNECT, again=again)
    try:
        comm = await connect(address, timeout=RECONNECT, **more)
        await comm.write({"op": purpose})
        answer = await comm.read()
    except (OSError, TimeoutError) as error:
        raise unanswered(address, str(error)) from error
    if not answer:
        await comm.close()
        raise BadInput(
            f"the scheduler at {address} was not started by matrix",
            resolution="start it with `matrix cluster scheduler`",
        )
    return comm, answer
