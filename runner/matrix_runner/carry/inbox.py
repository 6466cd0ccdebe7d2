"""Messages of batches that arrive within a short time, recorded together: the disk confirms once for all."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from matrix_runner.carry.events import Event, Listener
from matrix_runner.records.journal import Journal

GROUP = 0.01  # seconds
_MOST, _EACH = 32 << 20, 2048  # bytes of messages that wait, and of each beside its text


class Inbox:
    """`start` starts a task whose errors end the run. Events of records wait until these are on disk.

    A message is given as the call that records it.
    """

    def __init__(
        self,
        journal: Journal,
        show: Listener,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._journal, self._show, self._start = journal, show, start
        self._messages: list[Callable[[], None]] = []
        self._size = 0
        self._settling: asyncio.Task[None] | None = None
        self._held: list[Event] | None = None

    def add(self, message: Callable[[], None], size: int) -> None:
        self._messages.append(message)
        self._size += size + _EACH
        if self._settling is None:
            self._settling = self._start(self._settle_soon())
        if self._size > _MOST:
            self._take_all()

    async def _settle_soon(self) -> None:
        await asyncio.sleep(GROUP)
        self.settle()

    async def settled(self) -> None:
        """Wait until all that has arrived is recorded."""
        if self._settling:
            await asyncio.wait([self._settling])

    def settle(self) -> None:
        self._settling = None
        self._take_all()

    def _take_all(self) -> None:
        messages, self._messages, self._size = self._messages, [], 0
        if messages:
            with self._held_events(), self._journal.together():
                for message in messages:
                    message()

    @contextmanager
    def _held_events(self) -> Iterator[None]:
        held: list[Event] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
        for event in held:
            self._show(event)

    def listen(self, event: Event) -> None:
        if self._held is None:
            self._show(event)
        else:
            self._held.append(event)
