"""The processes of a cluster, its scheduler and its workers, with the settings of Dask that they need.

The coordinator's view of them is in engine/members.py.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import warnings
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import dask
from distributed import Scheduler
from distributed import Worker as DaskWorker

from runner import __version__
from runner.base.scratch import scratch_folder
from runner.engine.cluster_interface import ClusterLost
from runner.lab.address import RIG
from runner.lab.reach import check_connection, check_listening
from runner.lab.relay import Relay
from runner.lab.seats import Seats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from distributed.security import Security

FACTS = "matrix"  # the key of a worker's facts in what the scheduler knows of it
_EVERYWHERE = frozenset({"", "0.0.0.0", "[::]"})  # noqa: S104 - addresses that listen on all networks
_PAUSE = 2.0  # seconds before a worker tries again to reach its scheduler
_LONG = 5.0  # seconds without a connection before a worker says so
_SETTINGS = {
    "distributed.scheduler.work-stealing": False,  # there are no tasks
    "distributed.scheduler.worker-ttl": "60 seconds",
    "distributed.admin.low-level-log-length": 1,  # Dask keeps that many messages, and ours are large
    "distributed.comm.timeouts.connect": "10s",
    "distributed.worker.profile.enabled": False,
    # An idle worker must not disturb measurements of its host.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.cycle": "10s",
    "distributed.admin.system-monitor.interval": "10s",
}


@dataclass(frozen=True)
class Membership:
    """The description of a worker that it sends itself."""

    host: str
    resources: Mapping[str, float]
    tags: tuple[str, ...] = ()
    hosts: Path | None = None  # the hosts.yaml with its disks, which stays here

    @property
    def slots(self) -> int:
        return int(self.resources.get(RIG, 1))

    def facts(self) -> dict[str, Any]:
        return {"host": self.host, "slots": self.slots, "version": __version__, "tags": list(self.tags)}


@contextmanager
def configured() -> Iterator[None]:
    """Apply the settings, and give Dask a separate temporary folder."""
    with scratch_folder("matrix-cluster") as folder, dask.config.set({**_SETTINGS, "temporary-directory": str(folder)}):
        for library in ("distributed", "tornado"):  # they show a traceback for what a stranger sends
            logging.getLogger(library).setLevel(logging.CRITICAL)
        # Dask looks for the way to the Internet, which a lab may lack.
        warnings.filterwarnings("ignore", "Couldn't detect a suitable IP address", RuntimeWarning)
        yield


@asynccontextmanager
async def scheduler(listen: str, security: Security | None = None, dashboard: str | None = None) -> AsyncIterator[str]:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each worker takes a few
    protocol, _, place = listen.partition("://")
    if place:  # else it is in this process
        check_listening(place)
    host, _, port = place.rpartition(":")
    where = {"protocol": f"{protocol}://", "host": host or None, "port": int(port or 0)}
    # Without a dashboard, Dask still has a page about its health; that stays within this host.
    more = {"dashboard": bool(dashboard), "dashboard_address": dashboard or "127.0.0.1:0"}
    async with Scheduler(security=security, **where, **more) as made:
        Relay(made, _address_of(dashboard, made) if dashboard else "")
        yield made.address


def listens_everywhere(address: str) -> bool:
    return address.partition("://")[2].rpartition(":")[0] in _EVERYWHERE


def _address_of(dashboard: str, made: Scheduler) -> str:
    host = dashboard.rpartition(":")[0]
    reached = urlsplit(made.address).hostname if host in _EVERYWHERE else host
    return f"http://{reached}:{made.identity()['services']['dashboard']}/status"


@asynccontextmanager
async def worker(address: str, member: Membership, security: Security | None = None) -> AsyncIterator[DaskWorker]:
    made = DaskWorker(
        address,
        nthreads=member.slots,
        resources={RIG: member.slots, **member.resources},
        security=security,
        memory_limit=0,
        startup_information={FACTS: lambda _: member.facts()},
    )
    seats = Seats(made, member.slots, member.hosts)
    try:
        async with made:
            yield made
    finally:
        await seats.close()


async def stay_member(
    address: str, member: Membership, security: Security | None, report: Callable[[str], None]
) -> None:
    """Be a worker until cancelled, and join again whenever the scheduler is back."""
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            report(last := text)

    while True:
        # Dask tries for long before it fails.
        waiting = asyncio.get_running_loop().call_later(_LONG, say, f"no connection to {address} yet; trying again")
        try:
            await check_connection(address, security)
            async with worker(address, member, security) as made:
                waiting.cancel()
                say(f"joined {address} as {member.host}, with rig={member.slots}")
                await made.finished()
            say(f"lost {address}; trying again")
        except ClusterLost as error:
            say(f"{error.brief}; trying again\n{error.advice}")
        except (OSError, TimeoutError, RuntimeError) as error:
            say(f"no connection to {address}: {error}; trying again")
        finally:
            waiting.cancel()
        await asyncio.sleep(_PAUSE)
