"""The relay of a cluster (`matrix cluster scheduler`): it passes requests to workers and their lines to coordinators.

A coordinator has one connection. If it ends, the workers stop its batches; if a worker leaves, all coordinators know.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from matrix_runner.carry.cluster.connection import Connection, Ended
from matrix_runner.carry.cluster.frames import (
    AllKnown,
    Ask,
    Cancel,
    Coordinate,
    Head,
    Hello,
    Join,
    Left,
    Lines,
    Member,
    Request,
)

SILENCE = 60.0  # seconds without a byte of a worker, or of a stranger, after which it counts as gone


@dataclass(frozen=True)
class _Flight:
    worker: str
    coordinator: Connection


class Relay:
    def __init__(self) -> None:
        self._workers: dict[str, tuple[Connection, Join]] = {}
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
            connection.send(Hello())
            first, _ = await connection.read(SILENCE)
            if isinstance(first, Join):
                await self._serve_worker(connection, first)
            elif isinstance(first, Coordinate):
                await self._serve_coordinator(connection)
            elif isinstance(first, Ask):
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
                if isinstance(head, Request):
                    self._request(connection, head, body)
                elif isinstance(head, Cancel):
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
            connection.send(Member(address=address, facts=facts, busy=busy[address]))
        connection.send(AllKnown())

    def _request(self, coordinator: Connection, head: Request, body: bytes) -> None:
        worker = self._workers.get(head.to)
        if head.token in self._flights:  # of another coordinator, whose lines it would get
            _send(coordinator, Lines(token=head.token, over=True, died="its token is in use"))
        elif worker and _send(worker[0], head, body):
            self._flights[head.token] = _Flight(head.to, coordinator)
        else:
            _send(coordinator, Left(address=head.to))

    def _cancel(self, coordinator: Connection, token: str) -> None:
        flight = self._flights.get(token)
        if flight and flight.coordinator is coordinator:
            del self._flights[token]
            if worker := self._workers.get(flight.worker):
                _send(worker[0], Cancel(token=token))

    # --- workers ---

    async def _serve_worker(self, connection: Connection, facts: Join) -> None:
        address = connection.peer  # which no worker chooses
        self._workers[address] = connection, facts
        self._tell(Member(address=address, facts=facts))
        try:
            connection.send(AllKnown())
            while True:
                head, body = await connection.read(SILENCE)
                if not isinstance(head, Lines):
                    return
                self._pass_on(address, head, body)
        finally:
            del self._workers[address]
            self._flights = {token: one for token, one in self._flights.items() if one.worker != address}
            self._tell(Left(address=address))

    def _pass_on(self, worker: str, head: Lines, body: bytes) -> None:
        flight = self._flights.get(head.token)
        if flight is None or flight.worker != worker:
            return
        if head.over:
            del self._flights[head.token]
        _send(flight.coordinator, head, body)

    def _tell(self, head: Head) -> None:
        for one in tuple(self._coordinators):
            _send(one, head)


def _send(to: Connection, head: Head, body: bytes = b"") -> bool:
    with suppress(Ended):  # whoever reads from it finds the same
        to.send(head, body)
        return True
    return False
