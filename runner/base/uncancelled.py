"""What has to be taken down is taken down to its end, even by a task that is told to stop meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from runner.base.errors import HarnessBroken

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do this; a task that is told to stop while it is at it stops afterwards, one that is told twice at once.

    `asyncio.shield` alone keeps it from being cancelled, but not whoever waits for it from leaving: it would then end
    with the loop, half way.
    """
    doing, task = asyncio.ensure_future(work), asyncio.current_task()
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        if task and task.cancelling() == 1:
            with suppress(HarnessBroken):  # being told to stop is what counts
                await doing
        raise
