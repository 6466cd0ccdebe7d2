"""Ways to end a run that a test starts."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class ToTheEnd:
    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        asyncio.run(work)
        return True


class AtOnce:
    """Was asked to stop before anything began."""

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        work.close()
        return False
