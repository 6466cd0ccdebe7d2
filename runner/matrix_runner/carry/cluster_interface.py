"""The interface of a cluster: hosts with workers, which carry out batches that a coordinator gives them.

carry/cluster/relayed.py implements it, and session/cluster.py connects a run to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from matrix_runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from matrix_runner.carry.batch_messages import BatchRequest

RECONNECT = 30.0  # seconds that a scheduler may take to start or to come back


class WorkerLost(HarnessBroken):
    """The worker, or the process of its batch, ended before its batch did."""


class BatchLost(WorkerLost):
    """The process of a batch ended, and its worker is still there: nobody returns the disks of the batch."""


class BadAnswer(WorkerLost):
    """The worker sent what no worker of this version sends."""


class SchedulerLost(WorkerLost):
    """The connection to all workers ended at once."""


class ClusterLost(HarnessBroken):
    pass


@dataclass(frozen=True, slots=True)
class Worker:
    """A process on a host that starts batches."""

    address: str
    host: str
    slots: int = 1
    version: str = ""
    tags: tuple[str, ...] = ()


class Cluster(Protocol):
    """Transports batches, without decisions. `open` connects, and calls `changed` when these properties change."""

    def open(self, changed: Callable[[], None]) -> AbstractAsyncContextManager[None]: ...

    @property
    def connected(self) -> bool:
        """Return whether the scheduler answers. While it does not, there are no workers."""

    @property
    def workers(self) -> Collection[Worker]: ...

    async def carry_out(self, worker: Worker, request: BatchRequest, receive: Callable[[bytes], None]) -> None:
        """Execute one request, and give all lines to `receive`. Raise WorkerLost; a cancellation stops the batch."""
