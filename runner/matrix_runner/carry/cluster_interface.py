"""The interface of a cluster: hosts with workers, which carry out batches that a coordinator gives them.

carry/cluster/relayed.py implements it, and session/cluster.py connects a run to it.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from matrix_runner.base.errors import HarnessBroken
from matrix_runner.records.record import Attempt  # a model has it as the type of a field

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


class PlainData(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Order(PlainData):
    """The common part of all batches of a run. `digest` names it, so that a process expands a matrix once."""

    digest: str
    version: str
    name: str
    text: str
    used: dict[str, str] = {}
    templates: dict[str, str] | None = None  # the user's own
    machine: str
    host: str = ""  # of the worker's hosts.yaml; empty: any
    kernel: str | None = None
    cold: bool = False
    one_at_a_time: str = ""  # why rigs of this run must not work side by side on a host


class BatchRequest(PlainData):
    """One batch to measure. With no cells, only check whether this host can run the stacks of the order."""

    token: str  # unique
    order: Order
    round: int = 0
    stack: str = ""
    cells: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # attempts at these cells in this round that lost their rig
    retried: dict[str, int] = {}  # attempts of these cells before the last `--retry-broken`
    seconds: float | None = None  # what is left of the budget
    disks: tuple[str, ...] = ()  # serial numbers of the physical disks that this run used on the host


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
