"""An addition to the scheduler of Dask: it passes requests to workers and their lines to coordinators.

A coordinator has one connection. If it ends, the workers stop its batches; if a worker leaves, all coordinators know.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin
from distributed.batched import BatchedSend
from distributed.comm import CommClosedError
from distributed.core import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from distributed import Scheduler
    from distributed.comm import Comm

COORDINATE, STATUS = "matrix-coordinate", "matrix-status"  # what a connection is for
REQUEST, CANCEL, LINES = "matrix-request", "matrix-cancel", "matrix-lines"
MEMBERS, LEFT = "matrix-members", "matrix-left"
_FAREWELL = 5.0  # seconds for the last messages
INTERVAL = "2ms"  # between two messages on a connection; what comes between them travels together


@dataclass(frozen=True)
class _Flight:
    worker: str
    coordinator: BatchedSend


class Relay(SchedulerPlugin):  # type: ignore[misc]
    name = "matrix-relay"

    def __init__(self, scheduler: Scheduler, dashboard: str = "") -> None:
        self._scheduler, self._dashboard = scheduler, dashboard
        self._coordinators = set[BatchedSend]()
        self._flights: dict[str, _Flight] = {}
        scheduler.handlers |= {COORDINATE: self.coordinate, STATUS: self.status}
        scheduler.stream_handlers[LINES] = self.pass_lines
        scheduler.add_plugin(self)

    # --- coordinators ---

    async def coordinate(self, comm: Comm) -> Status:
        """Serve one coordinator until its connection ends."""
        coordinator = BatchedSend(interval=INTERVAL)
        coordinator.start(comm)
        self._coordinators.add(coordinator)
        coordinator.send(self._members(self._scheduler.workers))
        takers: dict[str, Callable[..., None]] = {REQUEST: self._request, CANCEL: self._cancel}
        try:
            while True:
                for message in await comm.read():
                    takers[message.pop("op")](coordinator, **message)
        except CommClosedError:
            return Status.dont_reply
        finally:
            self._coordinators.discard(coordinator)
            for token in [token for token, one in self._flights.items() if one.coordinator is coordinator]:
                self._cancel(coordinator, token)
            coordinator.abort()

    def _members(self, addresses: Iterable[str]) -> dict[str, Any]:
        return {"op": MEMBERS, "workers": {one: self._scheduler.workers[one].identity() for one in addresses}}

    def _request(self, coordinator: BatchedSend, to: str, token: str, **request: Any) -> None:
        self._flights[token] = _Flight(to, coordinator)
        if not self._send(self._scheduler.stream_comms.get(to), op=REQUEST, token=token, **request):
            del self._flights[token]
            self._send(coordinator, op=LEFT, worker=to)

    def _cancel(self, _coordinator: BatchedSend, token: str) -> None:
        if flight := self._flights.pop(token, None):
            self._send(self._scheduler.stream_comms.get(flight.worker), op=CANCEL, token=token)

    def status(self) -> dict[str, Any]:
        """Return the workers, how many batches each has, and the address of Dask's dashboard."""
        busy = Counter(flight.worker for flight in self._flights.values())
        return {**self._members(self._scheduler.workers), "busy": dict(busy), "dashboard": self._dashboard}

    async def before_close(self) -> None:
        """Part from the coordinators before the workers leave: else each run would report every worker as lost."""
        for listener in self._scheduler.listeners:
            listener.stop()  # they must not come back to a scheduler that ends
        for one in tuple(self._coordinators):
            with suppress(OSError, TimeoutError):
                await one.close(timeout=_FAREWELL)

    # --- workers ---

    def pass_lines(self, worker: str, token: str, *, over: bool = False, **content: Any) -> None:
        flight = self._flights.get(token)
        if flight is None or flight.worker != worker:
            return
        if over:
            del self._flights[token]
        self._send(flight.coordinator, op=LINES, token=token, over=over, **content)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:  # noqa: ARG002
        members = self._members([worker])
        for one in tuple(self._coordinators):
            self._send(one, **members)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:  # noqa: ARG002
        self._flights = {token: one for token, one in self._flights.items() if one.worker != worker}
        for one in tuple(self._coordinators):
            self._send(one, op=LEFT, worker=worker)

    @staticmethod
    def _send(to: BatchedSend | None, **message: Any) -> bool:
        with suppress(CommClosedError):
            if to is not None:
                to.send(message)
                return True
        return False
