"""A time limit that does not count pauses of this process, such as Ctrl-Z."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_LOOKS = 10  # at the clock, in each limit
_LATE = 1.0  # seconds that a busy host may delay a look


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the block takes longer, like asyncio.timeout.

    After a pause, there may be an answer that is not read yet. So a look that comes late does not count, unless this
    process was at work meanwhile.
    """
    loop, interval = asyncio.get_running_loop(), seconds / _LOOKS
    timer: asyncio.TimerHandle

    def look(due: float, worked: float, left: int) -> None:
        nonlocal timer
        now, at_work = loop.time(), time.process_time()
        late = now - due
        was_paused = late >= max(interval, _LATE) and at_work - worked <= late / 2
        left -= not was_paused
        if left:
            timer = loop.call_at(now + interval, look, now + interval, at_work, left)
        else:
            limit.reschedule(now)

    async with asyncio.timeout(None) as limit:  # noqa: TID251 - this is the other way
        first = loop.time() + interval
        timer = loop.call_at(first, look, first, time.process_time(), _LOOKS)
        try:
            yield
        finally:
            timer.cancel()
