"""What `matrix cluster status` shows, from the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.lab.dask_cluster import connect_client, worker_of
from runner.lab.members import configured

if TYPE_CHECKING:
    from distributed.security import Security


async def query(address: str, security: Security | None) -> list[tuple[str, ...]]:
    """Return a row for each worker: host, slots, batches that it has, version, tags, address."""
    with configured():
        return await _query(address, security)


async def _query(address: str, security: Security | None) -> list[tuple[str, ...]]:
    async with connect_client(address, security) as client:
        identity = await client.scheduler.identity()
        processing = await client.processing()
    rows = []
    for place, facts in identity["workers"].items():
        if one := worker_of(place, facts):
            busy = str(len(processing.get(place, ())))
            rows.append((one.host, str(one.slots), busy, one.version, ", ".join(one.tags), place))
    return sorted(rows)
