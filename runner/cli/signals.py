"""Ctrl-C, a polite kill and a closed terminal, answered alike: what is up is taken down, nothing is left half told."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """While it is entered, the first such signal cancels what `run` runs, or keeps it from starting.

    Outside of `run` the first one is only noted (reports are being written, a moment's work that a run should not end
    without), the second interrupts after all. Signals that whoever started us had set to be ignored (`nohup`) stay so.
    """

    def __init__(self) -> None:
        self.asked = False
        self._cancel: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        answered = [one for one in _ASKING if signal.getsignal(one) is not signal.SIG_IGN]
        self._before = {one: signal.signal(one, self._ask) for one in answered}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run it to its end; False if it was stopped before."""
        try:
            asyncio.run(self._stoppable(work))
        except asyncio.CancelledError:
            return False
        finally:
            self._cancel = None
        return True

    async def _stoppable(self, work: Coroutine[Any, Any, None]) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # type: ignore[union-attr]
        if self.asked:
            work.close()
            raise asyncio.CancelledError
        try:
            await work
        finally:
            self._cancel = None

    def _ask(self, number: int, frame: object) -> None:  # noqa: ARG002
        if self._cancel is not None:
            self._cancel()
        elif self.asked:
            raise KeyboardInterrupt
        self.asked = True
