"""A cluster of Dask as the coordinator sees it: its workers, and batches as tasks that Dask never moves or repeats."""

from __future__ import annotations

import asyncio
import socket
import zlib
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from distributed import Client

from runner.engine.cluster import ClusterLost, Worker, WorkerLost
from runner.lab.members import FACTS, RIG, Membership, configured, scheduler, worker
from runner.lab.tasks import carry_out, key_of, unpacked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from distributed import Future
    from distributed.security import Security

    from runner.engine.batch_messages import BatchRequest

RECONNECT = "30s"  # how long a lost scheduler may take to come back
_INTERVAL = 1.0  # seconds between two looks at the workers
_GRACE = 5.0  # seconds that the last message of a finished task may take


@dataclass(frozen=True)
class _Flight:
    address: str
    receive: Callable[[bytes], None]
    done: asyncio.Future[None]

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class DaskCluster:
    """`slots`: start a cluster in this process, for so many batches at a time."""

    def __init__(self, address: str = "", slots: int = 0, security: Security | None = None) -> None:
        self._address, self._slots, self._security = address, slots, security
        self._client: Client | None = None
        self._topic = f"matrix-{token_hex(8)}"
        self._flights: dict[str, _Flight] = {}
        self._workers: dict[str, Worker] = {}
        self._scheduler = ""  # the id of the process that answered last

    @property
    def workers(self) -> Collection[Worker]:
        if self._client and self._client.status == "closed":
            raise ClusterLost(
                "the scheduler of the cluster is gone",
                resolution="start it again; the same command continues",
            )
        return self._workers.values()

    @asynccontextmanager
    async def open(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.enter_context(configured())
            address = self._address
            if self._slots:
                address = await stack.enter_async_context(scheduler("inproc://"))
                member = Membership(socket.gethostname(), {RIG: self._slots})
                await stack.enter_async_context(worker(address, member))
            self._client = await stack.enter_async_context(connect_client(address, self._security))
            await self._look(changed)
            watcher = asyncio.create_task(self._watch(changed))
            try:
                yield
            finally:
                watcher.cancel()
                with suppress(asyncio.CancelledError):
                    await watcher

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        assert self._client  # noqa: S101 - for the type checker: it is open
        flight = _Flight(worker.address, receive, asyncio.get_running_loop().create_future())
        self._flights[request.token] = flight
        future: Future = self._client.submit(
            *(carry_out, zlib.compress(request.model_dump_json().encode(), 1), request.token, self._topic),
            key=key_of(request.token),
            workers=[worker.address],
            allow_other_workers=False,
            resources={RIG: 1} if request.cells else None,
            retries=0,
            pure=False,
        )
        future.add_done_callback(lambda ended: self._end_task(flight, ended))
        try:
            await flight.done
        finally:
            del self._flights[request.token]
            with suppress(Exception):  # the cluster may be gone, and then so is the task
                await future.cancel()

    def _end_task(self, flight: _Flight, ended: Future) -> None:
        loop = flight.done.get_loop()
        if ended.status == "finished":
            loop.call_soon_threadsafe(
                lambda: loop.call_later(_GRACE, flight.fail, WorkerLost("the end of its batch did not arrive"))
            )
        else:
            why = WorkerLost(f"its task ended: {ended.status}")
            loop.call_soon_threadsafe(flight.fail, why)

    def _receive(self, event: tuple[float, dict[str, Any]]) -> None:
        _, message = event
        flight = self._flights.get(message["token"])
        if flight is None or flight.done.done():
            return  # the coordinator has given it up
        for line in unpacked(message["lines"]):
            try:
                flight.receive(line)
            except Exception as error:  # noqa: BLE001 - it belongs to the coordinator, not to Dask
                flight.fail(error)
                return
        if message.get("died"):
            flight.fail(WorkerLost(message["died"]))
        elif message.get("over"):
            flight.done.set_result(None)

    async def _watch(self, changed: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                await self._look(changed)
            except OSError:  # the client tries to connect again, and gives up after a while
                self._workers = {}
                for flight in self._flights.values():
                    flight.fail(WorkerLost("the scheduler of the cluster is gone"))
                changed()

    async def _look(self, changed: Callable[[], None]) -> None:
        assert self._client  # noqa: S101 - for the type checker: it is open
        if self._client.status != "running":
            raise ConnectionError(self._client.status)
        identity = await self._client.scheduler.identity()
        if identity["id"] != self._scheduler:  # a new one knows no topics; before it gets tasks
            self._client.subscribe_topic(self._topic, self._receive)
            self._scheduler = identity["id"]
        found = {address: one for address, facts in identity["workers"].items() if (one := worker_of(address, facts))}
        for flight in self._flights.values():
            if flight.address not in found:
                flight.fail(WorkerLost("the worker is gone"))
        if found != self._workers:
            self._workers = found
            changed()


def worker_of(address: str, known: dict[str, Any]) -> Worker | None:
    """Return a worker of ours. Others may share the scheduler."""
    facts = known.get(FACTS)
    if not isinstance(facts, dict):
        return None
    resources = known.get("resources") or {}
    return Worker(address, facts["host"], facts["slots"], facts["version"], resources, tuple(facts["tags"]))


@asynccontextmanager
async def connect_client(address: str, security: Security | None) -> AsyncIterator[Client]:
    try:
        client = await Client(address, asynchronous=True, security=security, set_as_default=False, timeout=RECONNECT)
    except (OSError, TimeoutError) as error:
        raise ClusterLost(
            f"no scheduler answers at {address}",
            details=str(error),
            resolution="start it with `matrix cluster scheduler`, and try again",
        ) from error
    try:
        yield client
    finally:
        await client.close(timeout=5)
