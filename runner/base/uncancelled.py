"""Work that runs to its end even if its task is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Await the work; if cancelled meanwhile, finish it first; if cancelled twice, stop at once.

    `asyncio.shield` alone is not enough: its caller would leave, and the work would end half done with the event loop.
    """
    doing, task = asyncio.ensure_future(work), asyncio.current_task()
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        if task and task.cancelling() == 1:
            with suppress(HarnessBroken):  # the cancellation matters more
                await doing
        raise
