"""A time limit that does not count pauses of this process, such as Ctrl-Z."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LOOKS = 10  # at the clock, in each limit
_LATE = 1.0  # seconds; a busy host is late by less


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the block takes longer, like asyncio.timeout.

    After a pause, there may be an answer that is not read yet. So a look that comes late does not count.
    """
    loop, interval = asyncio.get_running_loop(), seconds / _LOOKS
    timer: asyncio.TimerHandle

    def look(due: float, left: int) -> None:
        nonlocal timer
        now = loop.time()
        left -= now - due < max(interval, _LATE)
        if left:
            timer = loop.call_at(now + interval, look, now + interval, left)
        else:
            limit.reschedule(now)

    async with asyncio.timeout(None) as limit:  # noqa: TID251 - this is the other way
        first = loop.time() + interval
        timer = loop.call_at(first, look, first, _LOOKS)
        try:
            yield
        finally:
            timer.cancel()
