"""The processes of a cluster: its scheduler, which relays requests and lines, and its workers.

The coordinator's view of them is in carry/members.py.
"""

import asyncio
import resource
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from matrix_runner.base.children import run_to_end
from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import remove_abandoned
from matrix_runner.base.version import matrix_version
from matrix_runner.carry.cluster import frames
from matrix_runner.carry.cluster.connection import (
    Certificates,
    ClusterLost,
    Connection,
    Ended,
    check_listening,
    connect,
)
from matrix_runner.carry.cluster.seats import SCRATCH, Seats

SILENCE = 60.0  # seconds without a byte of a worker, or of a stranger, after which it counts as gone


@dataclass(frozen=True)
class _Flight:
    worker: str
    coordinator: Connection


class Relay:
    def __init__(self) -> None:
        self._workers: dict[str, tuple[Connection, frames.Join]] = {}
        self._coordinators = set[Connection]()
        self._flights: dict[str, _Flight] = {}
        self._tasks = set[asyncio.Task[None]]()

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve_one(Connection(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_one(self, connection: Connection) -> None:
        """Serve a member until its connection ends, also because it sends what no member sends."""
        try:
            connection.send(frames.Hello())
            first, _ = await connection.read(SILENCE)
            if isinstance(first, frames.Join):
                await self._serve_worker(connection, first)
            elif isinstance(first, frames.Coordinate):
                await self._serve_coordinator(connection)
            elif isinstance(first, frames.Ask):
                self._send_members(connection)
                await connection.close()
        except Ended:
            pass
        finally:
            connection.abort()

    async def close(self) -> None:
        """Part from the coordinators before the workers: else each run would report every worker as lost."""
        coordinators, self._coordinators = self._coordinators, set()
        await asyncio.gather(*(one.close() for one in coordinators))
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- coordinators ---

    async def _serve_coordinator(self, connection: Connection) -> None:
        self._coordinators.add(connection)
        try:
            self._send_members(connection)
            while True:
                head, body = await connection.read()
                if isinstance(head, frames.Request):
                    self._request(connection, head, body)
                elif isinstance(head, frames.Cancel):
                    self._cancel(connection, head.token)
                else:
                    return
        finally:
            self._coordinators.discard(connection)
            for token in [token for token, one in self._flights.items() if one.coordinator is connection]:
                self._cancel(connection, token)

    def _send_members(self, connection: Connection) -> None:
        busy = Counter(flight.worker for flight in self._flights.values())
        for address, (_, facts) in self._workers.items():
            connection.send(frames.Member(address=address, facts=facts, busy=busy[address]))
        connection.send(frames.AllKnown())

    def _request(self, coordinator: Connection, head: frames.Request, body: bytes) -> None:
        worker = self._workers.get(head.to)
        if head.token in self._flights:  # of another coordinator, whose lines it would get
            _send(coordinator, frames.Lines(token=head.token, over=True, died="its token is in use"))
        elif worker and _send(worker[0], head, body):
            self._flights[head.token] = _Flight(head.to, coordinator)
        else:
            _send(coordinator, frames.Left(address=head.to))

    def _cancel(self, coordinator: Connection, token: str) -> None:
        flight = self._flights.get(token)
        if flight and flight.coordinator is coordinator:
            del self._flights[token]
            if worker := self._workers.get(flight.worker):
                _send(worker[0], frames.Cancel(token=token))

    # --- workers ---

    async def _serve_worker(self, connection: Connection, facts: frames.Join) -> None:
        address = connection.peer  # which no worker chooses
        self._workers[address] = connection, facts
        self._tell(frames.Member(address=address, facts=facts))
        try:
            connection.send(frames.AllKnown())
            while True:
                head, body = await connection.read(SILENCE)
                if not isinstance(head, frames.Lines):
                    return
                self._pass_on(address, head, body)
        finally:
            del self._workers[address]
            self._flights = {token: one for token, one in self._flights.items() if one.worker != address}
            self._tell(frames.Left(address=address))

    def _pass_on(self, worker: str, head: frames.Lines, body: bytes) -> None:
        flight = self._flights.get(head.token)
        if flight is None or flight.worker != worker:
            return
        if head.over:
            del self._flights[head.token]
        _send(flight.coordinator, head, body)

    def _tell(self, head: frames.Head) -> None:
        for one in tuple(self._coordinators):
            _send(one, head)


def _send(to: Connection, head: frames.Head, body: bytes = b"") -> bool:
    with suppress(Ended):  # whoever reads from it finds the same
        to.send(head, body)
        return True
    return False


_EVERYWHERE = frozenset({"", "0.0.0.0", "[::]"})  # noqa: S104 - addresses that listen on all networks
_PAUSE = 2.0  # seconds before a worker tries again to reach its scheduler
_PULSE = 10.0  # seconds between two signs of life of a worker
_HANDSHAKE = 10.0  # seconds that a stranger may take for it


@dataclass(frozen=True)
class Membership:
    """The description of a worker that it sends itself."""

    host: str
    slots: int = 1
    tags: tuple[str, ...] = ()
    hosts: Path | None = None  # the hosts.yaml with its disks, which stays here

    def facts(self) -> frames.Join:
        try:
            return frames.Join(host=self.host, slots=self.slots, version=matrix_version(), tags=self.tags)
        except ValidationError as error:
            raise BadInput(
                "the name or the tags of this worker cannot be used",
                details=str(error),
                resolution="use at most 64 tags, each as the name at most 255 characters of one line",
            ) from None


@asynccontextmanager
async def scheduler(listen: str, certificates: Certificates | None = None) -> AsyncIterator[str]:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each worker takes one
    scheme, _, place = listen.partition("://")
    check_listening(place)
    host, _, port = place.rpartition(":")
    relay = Relay()
    made = await asyncio.start_server(
        relay.serve,
        host.strip("[]") or None,
        int(port),
        ssl=certificates.server() if certificates else None,
        ssl_handshake_timeout=_HANDSHAKE if certificates else None,
    )
    try:
        reached = socket.gethostname() if listens_everywhere(listen) else host
        yield f"{scheme}://{reached}:{made.sockets[0].getsockname()[1]}"
    finally:
        made.close()  # first: members must not come back to a scheduler that ends
        await relay.close()


def listens_everywhere(address: str) -> bool:
    return address.partition("://")[2].rpartition(":")[0] in _EVERYWHERE


@asynccontextmanager
async def worker(address: str, member: Membership, certificates: Certificates | None = None) -> "AsyncIterator[Worker]":
    connection = await connect(address, certificates)
    made, tasks = Worker(connection, Seats(connection.send, member.slots, member.hosts)), []
    try:
        await made.join(member)
        tasks = [asyncio.create_task(one) for one in (made.serve(), made.stay_alive())]
        yield made
    finally:
        await run_to_end(_leave(made, tasks))  # also if the worker is stopped while it leaves a lost scheduler
        await connection.close()


async def _leave(made: "Worker", tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await made.seats.close()


class Worker:
    def __init__(self, connection: Connection, seats: Seats) -> None:
        self._connection, self.seats, self.gone = connection, seats, asyncio.Event()

    async def join(self, member: Membership) -> None:
        try:
            self._connection.send(member.facts())
            await self._connection.read()
        except Ended as error:
            raise ClusterLost(
                "the scheduler did not take this worker",
                details=str(error),
                resolution="install the same version of matrix on all hosts",
            ) from error

    async def serve(self) -> None:
        """Begin and cancel batches until the connection ends."""
        with suppress(Ended):
            while True:
                head, body = await self._connection.read()
                if isinstance(head, frames.Request):
                    self.seats.begin(head.token, body, measures=head.measures)
                elif isinstance(head, frames.Cancel):
                    self.seats.cancel(head.token)
        self.gone.set()

    async def stay_alive(self) -> None:
        with suppress(Ended):
            while True:
                await asyncio.sleep(_PULSE)
                self._connection.send_sign_of_life()


async def stay_member(
    address: str, member: Membership, certificates: Certificates | None, report: Callable[[str], None]
) -> None:
    """Be a worker until cancelled, and join again whenever the scheduler is back."""
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            report(last := text)

    try:
        while True:
            remove_abandoned(SCRATCH)  # of a worker before this one, which was killed with its batches
            try:
                async with worker(address, member, certificates) as made:
                    say(f"joined {address} as {member.host}, with rig={member.slots}")
                    await made.gone.wait()
                say(f"lost {address}; trying again")
            except ClusterLost as error:
                say(f"{error.brief}; trying again\n{error.advice}")
            await asyncio.sleep(_PAUSE)
    finally:
        remove_abandoned(SCRATCH)  # those batches may have ended after the first look
