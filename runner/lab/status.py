"""The knowledge of the scheduler of a cluster: its workers, their batches, and the address of Dask's dashboard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.lab.dask_cluster import connect_as, worker_of
from runner.lab.members import configured
from runner.lab.relay import STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributed.security import Security

    from runner.engine.cluster_interface import Worker


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
        comm, found = await connect_as(STATUS, address, security)
        await comm.close()
    workers = [one for place, facts in found["workers"].items() if (one := worker_of(place, facts))]
    return Status(workers, Counter(found["busy"]), found["dashboard"])
