"""The processes of a cluster: its scheduler and its workers.

The coordinator's view of them is in carry/members.py.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from matrix_runner.base.errors import BadInput
from matrix_runner.base.version import matrix_version
from matrix_runner.carry.batch_messages import ClusterLost
from matrix_runner.carry.cluster.connection import Connection, Ended, check_listening, connect
from matrix_runner.carry.cluster.frames import Cancel, Join, Request
from matrix_runner.carry.cluster.relay import Relay
from matrix_runner.carry.cluster.seats import Seats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from matrix_runner.carry.cluster.address import Certificates

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

    def facts(self) -> Join:
        try:
            return Join(host=self.host, slots=self.slots, version=matrix_version(), tags=self.tags)
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
async def worker(address: str, member: Membership, certificates: Certificates | None = None) -> AsyncIterator[Worker]:
    connection = await connect(address, certificates)
    made, tasks = Worker(connection, Seats(connection.send, member.slots, member.hosts)), []
    try:
        await made.join(member)
        tasks = [asyncio.create_task(one) for one in (made.serve(), made.stay_alive())]
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await made.seats.close()
        await connection.close()


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
                if isinstance(head, Request):
                    self.seats.begin(head.token, body, measures=head.measures)
                elif isinstance(head, Cancel):
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

    while True:
        try:
            async with worker(address, member, certificates) as made:
                say(f"joined {address} as {member.host}, with rig={member.slots}")
                await made.gone.wait()
            say(f"lost {address}; trying again")
        except ClusterLost as error:
            say(f"{error.brief}; trying again\n{error.advice}")
        await asyncio.sleep(_PAUSE)
