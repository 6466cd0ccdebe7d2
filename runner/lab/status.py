"""What the scheduler of a cluster knows: its workers, their batches, and the address of Dask's dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.lab.dask_cluster import connect_client, worker_of
from runner.lab.members import DASHBOARD, configured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributed.security import Security

    from runner.engine.cluster import Worker


@dataclass(frozen=True)
class Status:
    workers: Sequence[Worker]
    busy: Mapping[str, int]  # batches of each worker, by address
    dashboard: str = ""  # its address; empty if it is off

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each worker: host, slots, batches that it has, version, tags, address."""
        return sorted(
            (one.host, str(one.slots), str(self.busy[one.address]), one.version, ", ".join(one.tags), one.address)
            for one in self.workers
        )


async def query(address: str, security: Security | None) -> Status:
    with configured():
        async with connect_client(address, security) as client:
            identity = await client.scheduler.identity()
            processing = await client.processing()
            dashboard = await client.get_metadata([DASHBOARD], default="")
    workers = [one for place, facts in identity["workers"].items() if (one := worker_of(place, facts))]
    return Status(workers, {one.address: len(processing.get(one.address, ())) for one in workers}, dashboard)
