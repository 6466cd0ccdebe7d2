"""The knowledge of the scheduler of a cluster: its workers and their batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matrix_runner.carry.cluster.address import Certificates
from matrix_runner.carry.cluster.frames import Ask
from matrix_runner.carry.cluster.reach import connect_soon
from matrix_runner.carry.cluster.relayed import members_of, worker_of
from matrix_runner.carry.cluster_interface import RECONNECT, Worker


@dataclass(frozen=True)
class Status:
    workers: Sequence[Worker]
    busy: Mapping[str, int]  # batches of each worker, by address

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each worker: host, slots, batches that it has, version, tags, address."""
        return sorted(
            (one.host, str(one.slots), str(self.busy[one.address]), one.version, ", ".join(one.tags), one.address)
            for one in self.workers
        )


async def query(address: str, certificates: Certificates | None) -> Status:
    connection = await connect_soon(address, certificates, RECONNECT, again=False)
    try:
        found = await members_of(connection, Ask(), address)
    finally:
        connection.abort()
    return Status([*map(worker_of, found)], {one.address: one.busy for one in found})
