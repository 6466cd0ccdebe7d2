"""No command: the stop of a run by SIGINT (Ctrl-C), SIGTERM or SIGHUP. Effects: architecture.md, "Stop and kill"."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalStop:
    """Cancels the work in `run` at the first signal, its tear-down at the second; ignored ones (`nohup`) stay ignored.

    Outside of `run` the first signal is only recorded, so that reports are still written.
    """

    def __init__(self, announce: Callable[[], object]) -> None:
        self.requested = False
        self._announce = announce
        self._cancel: Callable[[bool], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        active = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
        self._before = {one: signal.signal(one, self._ask) for one in active}
        return self

    def __exit__(self, *error: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        try:
            asyncio.run(self._stoppable(work))
        except asyncio.CancelledError:
            return False
        finally:
            self._cancel = None
        return True

    async def _stoppable(self, work: Coroutine[Any, Any, None]) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def stop(announce: bool) -> None:
            task.cancel()  # type: ignore[union-attr]
            if announce:
                self._announce()

        self._cancel = lambda announce: loop.call_soon_threadsafe(stop, announce)
        if self.requested:
            work.close()
            raise asyncio.CancelledError
        try:
            await work
        finally:
            self._cancel = None

    def _ask(self, number: int, frame: object) -> None:  # noqa: ARG002
        if self._cancel is not None:
            # After SIGHUP the terminal is closed.
            self._cancel(not self.requested and number != signal.SIGHUP)
        elif self.requested:
            raise KeyboardInterrupt
        self.requested = True
